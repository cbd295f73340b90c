#include "tests/simulation/daemon.hpp"

#include "tests/simulation/agent.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::simulation {

using namespace std::chrono_literals;

daemon::daemon(world& in, host& on, agent* inside) : process(in, on), inside_(inside) {}

void daemon::begin() {
  window_began_ = local_now();
  sweep_ = window_began_ + 1s;
  world_.net().listen(*this, host_.id, daemon_port);
  arm();
}

std::string daemon::why() const {
  std::string text;
  for (const auto& [id, each] : runs_)
    text += (text.empty() ? "" : "; ") + id + ": " + each.machine.why(local_now());
  return text.empty() ? "nobody has come" : text;
}

std::set<session_id> daemon::sessions_joined() const {
  std::set<session_id> sessions;
  for (const auto& [id, each] : peers_)
    if (each.run != nullptr) sessions.insert(each.session);
  return sessions;
}

session_id daemon::session_of(connection_id which) const {
  const auto found = sessions_.find(which);
  return found == sessions_.end() ? session_id{} : found->second;
}

const core::run* daemon::run(const std::string& run_id) const {
  const auto found = runs_.find(run_id);
  return found == runs_.end() ? nullptr : &found->second.machine;
}

round_number daemon::newest_known(instance_id instance) const {
  const auto heard = heard_of_.find(instance);
  round_number newest = heard == heard_of_.end() ? 0 : heard->second;
  for (const auto& [id, each] : runs_) {
    const core::run_view view = each.machine.view(local_now());
    if (view.instance == instance) newest = std::max(newest, view.round);
  }
  return newest;
}

bool daemon::knew_of(instance_id instance, instance_id placed) const {
  const auto heard = first_heard_.find(instance);
  const auto began = first_placed_.find(placed);
  if (heard == first_heard_.end()) return false;
  return began == first_placed_.end() || heard->second <= began->second;
}

void daemon::hear(const status& said) {
  first_heard_.try_emplace(said.instance, world_.now());
  round_number& newest = heard_of_[said.instance];
  newest = std::max({newest, said.round, said.round_told});
}

void daemon::operator_stops() {
  for (auto& [id, each] : runs_)
    step(each, core::operator_stop_requested{"stopped by the operator"});
}

void daemon::linger(duration limit) {
  end_when_alone(world_.now() + limit);
}

void daemon::end_when_alone(moment limit) {
  if (!alive()) return;
  if (peers_.empty() || world_.now() >= limit) return world_.daemon_exits(*this);
  world_.time().after(20ms, [=, this] { post([=, this] { end_when_alone(limit); }); });
}

void daemon::arm() {
  std::optional<time_point> next = sweep_;
  for (const auto& [id, each] : runs_) {
    if (const auto due = each.machine.next_deadline()) next = std::min(*next, *due);
  }
  wake_at(next);
}

void daemon::on_wake() {
  if (local_now() >= sweep_) {
    cut_off_who_does_not_read();
    sweep_ = local_now() + 1s;
  }
  for (auto& [id, each] : runs_)
    step(each, core::time_passed{});
  arm();
}

void daemon::on_late(duration by) {
  window_began_ += by;  // a run that is new hears of its window as it has moved
  for (auto& [id, each] : runs_)
    step(each, core::loop_was_late{by});
}

void daemon::step(run_entry& run, const core::run_event& event) {
  if (!alive() || world_.over()) return;
  core::run_event changed = event;
  const auto& mutation = world_.mutation();
  core::run_effects effects;
  if (mutation.run_event && !mutation.run_event(*this, changed)) return;
  run.machine.step(changed, local_now(), effects);
  if (mutation.run_effects) mutation.run_effects(*this, changed, effects);
  apply(effects);
  if (!alive()) return;
  tell_of_close(run);
  arm();
}

// And again where it is known later that all had succeeded.
void daemon::tell_of_close(run_entry& run) {
  std::optional<int> code;
  if (run.machine.phase() == run_phase::closed) {
    code = run.machine.view(local_now(), 0, 0).exit_code;
  }
  if (code == run.closed_with) return;
  run.closed_with = code;
  if (code) world_.run_closed(*this, run.machine.view(local_now()));
}

void daemon::apply(const core::run_effects& effects) {
  for (const auto& effect : effects) {
    if (!alive()) return;  // a scenario kills the daemon between two messages
    if (const auto* sent = std::get_if<core::send_to_agent>(&effect)) {
      const auto found = peers_.find(sent->connection);
      if (found == peers_.end()) continue;
      const auto* order = std::get_if<desired>(sent->message.get());
      if (order != nullptr && order->phase == desired_phase::run)
        first_placed_.try_emplace(order->instance, world_.now());
      world_.net().send(*found->second.over, 1, sent->message);
    } else if (const auto* ended = std::get_if<core::disconnect_agent>(&effect)) {
      const auto found = peers_.find(ended->connection);
      if (found == peers_.end()) continue;
      world_.net().close(*found->second.over, 1);
      peers_.erase(found);
    } else {
      world_.trace([&] { return "daemon note: " + std::get<core::run_note>(effect).text; });
    }
  }
}

// A peer whose queue has stood still for node_timeout is cut off, never buffered.
void daemon::cut_off_who_does_not_read() {
  std::vector<connection_id> stuck;
  for (const auto& [id, each] : peers_) {
    const auto& mine = each.over->ends[1];
    if (!mine.outbox.empty() &&
        world_.now() - mine.stuck_since > world_.settings().timing.node_timeout)
      stuck.push_back(id);
  }
  for (const connection_id id : stuck) {
    const peer gone = peers_[id];
    peers_.erase(id);
    gone.over->ends[1].outbox.clear();
    world_.net().close(*gone.over, 1);
    if (gone.run != nullptr) step(*gone.run, core::agent_disconnected{id});
  }
}

void daemon::on_accepted(connection& from, int, std::uint16_t) {
  peers_[from.id] = {from.shared_from_this(), {}, nullptr};
}

daemon::run_entry& daemon::run_of(const hello& greeting) {
  const auto found = runs_.find(greeting.run_id);
  if (found != runs_.end()) return found->second;
  const bool recovers =
      inside_ == nullptr ? index > 1 || world_.first_daemon_recovers() : world_.embedded_recovers();
  const duration window = recovers ? greeting.settings.timing.recovery_window : duration::zero();
  core::run_options options{greeting.run_id, 0, "sim", window_began_ + window, 1};
  return runs_.try_emplace(greeting.run_id, run_entry{core::run(std::move(options))}).first->second;
}

void daemon::on_message(connection& from, int, const payload& message) {
  const auto found = peers_.find(from.id);
  if (found == peers_.end()) return;
  process& speaker = *from.ends[0].owner;
  const duration orphan = world_.settings().timing.orphan_limit;
  if (world_.now() - speaker.heard_by_daemon >= orphan - orphan / 50)
    speaker.orphan_until = world_.now();
  speaker.heard_by_daemon = world_.now();
  const auto& said = std::get<agent_message>(message);
  if (const auto* first = std::get_if<hello>(&said)) {
    run_entry& run = run_of(*first);
    found->second.run = &run;
    found->second.session = sessions_[from.id] = first->session;
    hear(first->state);
    // Its own agent reaches an embedded daemon over the loopback.
    const bool within = inside_ != nullptr && &speaker == inside_;
    const std::string from_where = within ? "127.0.0.1" : world_.host_at(from.ends[0].host).address;
    const std::string local = within ? "127.0.0.1" : host_.address;
    step(run, core::agent_joined{from.id, *first, from_where, local, world_.fresh_instance()});
  } else if (const auto* word = std::get_if<guardian_word>(&said)) {
    const auto run = runs_.find(word->run_id);
    if (run != runs_.end()) step(run->second, core::guardian_reported{word->session});
  } else if (found->second.run == nullptr) {
    world_.violated("an agent spoke before its hello");
  } else if (const auto* news = std::get_if<status>(&said)) {
    run_entry& run = *found->second.run;
    hear(*news);
    step(run, core::status_received{from.id, *news});
    if (world_.double_percent() != 0 && world_.random().chance(world_.double_percent()))
      step(run, core::status_received{from.id, *news});
  } else if (std::holds_alternative<goodbye>(said)) {
    step(*found->second.run, core::goodbye_received{from.id});
  }
}

void daemon::on_closed(connection& from, int, const std::string&) {
  const auto found = peers_.find(from.id);
  if (found == peers_.end()) return;
  run_entry* const run = found->second.run;
  peers_.erase(found);
  if (run != nullptr) step(*run, core::agent_disconnected{from.id});
}

}  // namespace ddprun::simulation
