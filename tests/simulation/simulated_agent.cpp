#include "tests/simulation/simulated_agent.hpp"

#include "launcher/process/life_limit.hpp"
#include "tests/simulation/simulated_daemon.hpp"
#include "tests/simulation/simulated_network.hpp"
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <variant>

namespace ddprun::simulation {

using namespace std::chrono_literals;

agent::agent(world& in, host& on, core::agent_options options)
    : process(in, on), greeting_(options.greeting), machine_(std::move(options)) {}

void agent::begin() {
  core::agent_effects effects;
  machine_.start(local_now(), effects);
  apply(effects);
  wake_at(machine_.next_deadline());
}

void agent::step(const core::agent_event& event) {
  if (!alive() || left_ || world_.over()) return;
  const bool is_struck = was_struck_ && !std::holds_alternative<core::agent_loop_was_late>(event);
  if (is_struck) was_struck_ = false, step(core::killed_by_guardian{group->round});
  core::agent_event changed = event;
  if (world_.mutation().agent_event && !world_.mutation().agent_event(*this, changed)) return;
  core::agent_effects effects;
  machine_.step(changed, local_now(), effects);
  if (world_.mutation().agent_effects) world_.mutation().agent_effects(*this, changed, effects);
  if (machine_.workers_live_until()) tell_guardian();
  apply(effects);
  tell_guardian();
  if (!left_) wake_at(machine_.next_deadline());
}

void agent::step_unchanged(const core::agent_event& event) {
  core::agent_effects effects;
  machine_.step(event, local_now(), effects);
  apply(effects);
}

void agent::on_wake() {
  step(core::agent_time_passed{});
}

void agent::on_late(duration by) {
  step(core::agent_loop_was_late{by});
}

void agent::apply(const core::agent_effects& effects) {
  for (const auto& effect : effects)
    std::visit([this](const auto& each) { apply(each); }, effect);
}

void agent::apply(const core::connect_daemon& effect) {
  const std::uint64_t attempt = ++daemon_attempt_;
  world_.time().after(host_.clock.true_duration(effect.delay), [=, this] {
    post([=, this] {
      if (attempt != daemon_attempt_ || left_) return;
      if (effect.may_host) world_.host_daemon(*this);
      const std::string address = hosted == nullptr ? world_.endpoint_address() : "127.0.0.1";
      daemon_dial_ = world_.net().dial(*this, address, daemon_port);
    });
  });
}

void agent::apply(const core::send_to_daemon& effect) {
  if (!daemon_) return;
  world_.net().send(*daemon_, 0, effect.message);
}

void agent::apply(const core::disconnect_daemon&) {
  ++daemon_attempt_;
  world_.net().forget_dial(daemon_dial_);
  if (daemon_) world_.net().close(*daemon_, 0);
  daemon_.reset();
}

void agent::apply(const core::open_service& effect) {
  const round_number round = effect.round;
  const bool fails = world_.service_fails(host_.id);
  world_.time().after(world_.random().between(100us, 20ms), [=, this] {
    post([=, this] {
      if (fails) return step(core::service_failed{round, "out of descriptors"});
      if (service_port_ != 0) world_.net().stop_listening(host_.id, service_port_);
      service_port_ = host_.port_next++;
      service_round_ = round;
      world_.net().listen(*this, host_.id, service_port_);
      step(core::service_opened{round, service_port_, service_port_, {}});
    });
  });
}

void agent::apply(const core::close_service& effect) {
  if (effect.round != service_round_ || service_port_ == 0) return;
  world_.net().stop_listening(host_.id, service_port_);
  service_port_ = 0;
}

void agent::apply(const core::dial_tether& effect) {
  const std::uint64_t attempt = ++tether_attempt_;
  tether_round_ = effect.round;
  tether_hello_ = effect.hello;
  world_.time().after(host_.clock.true_duration(effect.delay),
                      [=, this, address = effect.address, port = effect.port] {
                        post([=, this] {
                          if (attempt == tether_attempt_ && !left_)
                            tether_dial_ = world_.net().dial(*this, address, port);
                        });
                      });
}

void agent::apply(const core::send_tether_beat& effect) {
  if (tether_) world_.net().send(*tether_, 0, agent_message(effect.beat));
}

void agent::apply(const core::drop_tether&) {
  ++tether_attempt_;
  world_.net().forget_dial(tether_dial_);
  if (tether_) world_.net().close(*tether_, 0);
  tether_.reset();
}

void agent::apply(const core::ack_member& effect) {
  const auto found = accepted_.find(effect.tether);
  if (found == accepted_.end()) return;
  world_.net().send(*found->second, 1, tether_reply(tether_ack{effect.seq}));
}

void agent::apply(const core::refuse_member& effect) {
  const auto found = accepted_.find(effect.tether);
  if (found == accepted_.end()) return;
  world_.net().send(*found->second, 1, tether_reply(refused{refused_exit_code, effect.text}));
  world_.net().close(*found->second, 1);
  accepted_.erase(found);
  attached_.erase(effect.tether);
}

void agent::apply(const core::drop_members&) {
  for (const auto& [id, held] : std::exchange(accepted_, {}))
    world_.net().close(*held, 1);
  attached_.clear();
}

void agent::apply(const core::start_workers& effect) {
  world_.start_workers(*this, effect);
}
void agent::apply(const core::stop_workers& effect) {
  world_.ask_workers(*this, effect.round, effect.signal);
}
void agent::apply(const core::kill_workers& effect) {
  world_.kill_workers(*this, effect.round);
}

void agent::apply(const core::check_node& effect) {
  ++looks_;
  look_at_node(effect.round,
               world_.health_chances().between(duration::zero(), world_.health().check_most));
}

// An unhealthy node is checked again, whether it waits or not.
void agent::look_at_node(round_number round, duration after) {
  world_.time().after(after, [=, this, look = looks_] {
    post([=, this] {
      if (left_ || look != looks_) return;
      const bool is_ill = world_.health_chances().chance(world_.health().ill_percent);
      // A node that is well again may end the round of the others (--on-join restart).
      if (!is_ill && ill_since) world_.note_trouble();
      if (!is_ill) ill_since.reset();
      if (is_ill && !ill_since) ill_since = world_.now();
      step(core::node_checked{round, is_ill ? "GPU 3 needs: Reset" : ""});
      if (is_ill) look_at_node(0, world_.health().again);
    });
  });
}

void agent::apply(const core::name_hung& effect) {
  world_.trace([&] { return greeting_.node + " hears: " + effect.who.text; });
  if (world_.on_hung && effect.is_here) world_.on_hung(*this, effect);
}

void agent::apply(const core::agent_note& effect) {
  world_.trace([&] { return greeting_.node + " note: " + effect.text; });
}

void agent::apply(const core::leave& effect) {
  if (left_) return;
  left_ = effect;
  world_.trace([&] {
    return greeting_.node + " leaves with " + std::to_string(effect.exit_code) + ": " + effect.text;
  });
  exit_when_flushed(world_.now() + 1s);
}

void agent::exit_when_flushed(moment limit) {
  if (!alive()) return;
  if (daemon_ && !daemon_->ends[0].outbox.empty() && world_.now() < limit) {
    world_.time().after(20ms, [=, this] { post([=, this] { exit_when_flushed(limit); }); });
    return;
  }
  world_.agent_exits(*this);
}

void agent::on_accepted(connection& from, int end, std::uint16_t port) {
  if (port != service_port_ || left_) return world_.net().close(from, end);
  accepted_[from.id] = from.shared_from_this();
}

void agent::on_dialed(std::uint64_t dial, connection& to, int) {
  if (dial == daemon_dial_) {
    daemon_ = to.shared_from_this();
    had_daemon_inside_ = hosted != nullptr;
    daemon_address_ = had_daemon_inside_ ? "" : world_.host_at(to.ends[1].host).address;
    step(
        core::daemon_connected{hosted == nullptr ? host_.address : "127.0.0.1", hosted != nullptr});
  } else if (dial == tether_dial_) {
    tether_ = to.shared_from_this();
    world_.net().send(to, 0, agent_message(tether_hello_));
    step(core::tether_connected{tether_round_});
  } else {
    world_.net().close(to, 0);
  }
}

void agent::on_dial_failed(std::uint64_t dial, const std::string& text) {
  if (dial == daemon_dial_) step(core::daemon_disconnected{text});
  if (dial == tether_dial_) step(core::tether_disconnected{tether_round_, text});
}

void agent::on_message(connection& from, int, const payload& message) {
  if (daemon_.get() == &from) {
    const auto& said = std::get<std::shared_ptr<const daemon_message>>(message);
    if (deaf && std::holds_alternative<desired>(*said)) return;
    if (const auto* order = std::get_if<desired>(said.get())) {
      news& known = told_[order->instance];
      known.restarts_used = std::max(known.restarts_used, order->restarts_used);
      told_by_ = static_cast<const daemon*>(from.ends[1].owner)->index;
      round_number& newest = known.rounds[told_by_];
      newest = std::max(newest, order->round);
    }
    step(core::daemon_said{said});
  } else if (tether_.get() == &from) {
    const auto& reply = std::get<tether_reply>(message);
    if (const auto* answered = std::get_if<tether_ack>(&reply))
      return step(core::tether_acked{tether_round_, answered->seq});
    world_.net().close(*tether_, 0);
    tether_.reset();
    step(core::tether_disconnected{tether_round_, std::get<refused>(reply).text});
  } else if (accepted_.contains(from.id)) {
    tether_spoke(from, std::get<agent_message>(message));
  }
}

agent::news agent::told(instance_id instance) const {
  const auto found = told_.find(instance);
  return found == told_.end() ? news{} : found->second;
}

void agent::tether_spoke(connection& from, const agent_message& message) {
  if (const auto* first = std::get_if<tether_hello>(&message)) {
    attached_[from.id] = true;
    step(core::member_attached{from.id, *first});
  } else if (const auto* beat = std::get_if<tether_beat>(&message)) {
    step(core::member_beat{from.id, *beat});
  }
}

void agent::on_closed(connection& from, int, const std::string& text) {
  if (daemon_.get() == &from) {
    daemon_.reset();
    step(core::daemon_disconnected{text});
  } else if (tether_.get() == &from) {
    tether_.reset();
    step(core::tether_disconnected{tether_round_, text});
  } else if (accepted_.erase(from.id) == 1 && attached_.erase(from.id) == 1) {
    step(core::member_detached{from.id});
  }
}

void agent::tell_guardian() {
  const auto limit = left_ ? std::nullopt : machine_.workers_live_until();
  if (limit == limit_of_workers_) return;
  limit_of_workers_ = limit;
  if (!limit || world_.mutation().guardian_sleeps) return;
  await_judgement(host_.clock.true_time(*limit + launcher::life_limit::margin));
}

void agent::await_judgement(moment when) {
  world_.time().at(when, [=, this, limit = limit_of_workers_] {
    if (alive() && limit && limit_of_workers_ == limit && host_.powered) judge(*limit);
  });
}

// What was sent is read at once. If the whole host stands still, so does the guardian, which then
// waits for a beat.
void agent::judge(time_point limit) {
  const duration grace = 2 * greeting_.settings.timing.heartbeat_interval;
  const time_point due = limit + launcher::life_limit::margin;
  if (host_.standing_still) return await_judgement(world_.now() + grace);
  if (local_now() < due) return await_judgement(host_.clock.true_time(due) + 1us);
  if (!standing_still()) return;  // it knows its limit itself
  was_struck_ = true;
  world_.guardian_strikes(*this);
}

// An agent whose workers the guardian has killed has lost its membership: see
// launcher/process/guardian_process.cpp.
guardian_word agent::last_word() const {
  guardian_word word{greeting_.run_id, greeting_.session};
  const auto membership = machine_.group_rank_of_workers();
  if (!had_daemon_inside_ || !membership || was_struck_) return word;
  word.instance = membership->instance;
  word.round = membership->round;
  word.group_rank = membership->group_rank;
  word.node = greeting_.node;
  word.rank_first = membership->rank_first;
  word.worker_count = greeting_.worker_count;
  return word;
}

guardian::guardian(world& in, host& on, agent& of) : process(in, on), agent_(of) {}

void guardian::begin() {
  world_.time().after(world_.random().between(500us, 5ms), [this] {
    post([this] {
      world_.kill_workers(agent_, ~0ULL);
      look();
    });
  });
}

void guardian::look() {
  if (agent_.group && agent_.group->alive > 0) {
    world_.time().after(10ms, [this] { post([this] { look(); }); });
    return;
  }
  const bool is_for_next = agent_.had_daemon_inside() && agent_.last_word().instance != 0;
  if (is_for_next) return void(world_.net().dial(*this, agent_.where().address, daemon_port));
  if (!agent_.daemon_address().empty())
    world_.net().dial(*this, agent_.daemon_address(), daemon_port);
}

void guardian::on_dialed(std::uint64_t, connection& to, int end) {
  world_.net().send(to, end, agent_message(agent_.last_word()));
  world_.net().close(to, end);
}

void guardian::on_dial_failed(std::uint64_t, const std::string&) {
  if (++attempts_ >= 10) return;
  world_.time().after(1s, [this] { post([this] { look(); }); });
}

}  // namespace ddprun::simulation
