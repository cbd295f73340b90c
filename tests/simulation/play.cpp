#include "tests/simulation/schedule.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

class player {
 public:
  explicit player(const schedule& plan) : plan_(plan), world_(plan.options) {}

  outcome run();

 private:
  host& host_at(std::uint32_t number) {
    return world_.host_at(number % static_cast<std::uint32_t>(world_.hosts()));
  }
  // The newest living agent of a host; none if there is none.
  agent* agent_on(std::uint32_t number);
  worker_group* group_on(std::uint32_t number);
  void begin();
  void count_messages(const connection& over);
  void apply(const fault& each);
  void cut(const fault& each);
  void end_processes(const fault& each);
  void stand_still(const fault& each);
  void ill_workers(const fault& each);
  void start_again(host& on, duration after);
  void start_daemon_again(duration after);
  void heal();
  void check_recovery(outcome& result);
  void check_end();

  const schedule& plan_;
  world world_;
  host* daemon_host_ = nullptr;
  std::uint64_t daemon_messages_ = 0;
};

agent* player::agent_on(std::uint32_t number) {
  const host& on = host_at(number);
  const auto& all = world_.agents();
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const auto& each) {
    return &each->where() == &on && each->alive() && !each->left();
  });
  return found == all.rend() ? nullptr : found->get();
}

worker_group* player::group_on(std::uint32_t number) {
  agent* const found = agent_on(number);
  return found == nullptr ? nullptr : found->group.get();
}

void player::begin() {
  daemon_host_ = &world_.add_host();
  for (std::uint32_t index = 0; index < plan_.nodes; ++index)
    world_.add_host();
  if (plan_.daemon_on_first_host) daemon_host_ = &world_.host_at(1);
  world_.start_daemon(*daemon_host_);
  for (std::uint32_t index = 0; index < plan_.nodes; ++index) {
    const std::uint32_t workers =
        plan_.worker_counts.empty() ? 2 : plan_.worker_counts[index % plan_.worker_counts.size()];
    world_.time().after(world_.random().between(0ms, 200ms), [=, this] {
      if (world_.host_at(index + 1).powered) world_.start_agent(world_.host_at(index + 1), workers);
    });
  }
}

// ---- faults ------------------------------------------------------------------------------------

void player::cut(const fault& each) {
  if (each.kind == fault_kind::isolate_host) {
    world_.set_island(host_at(each.host), each.host + 1);
    world_.time().after(each.length, [=, this] { world_.set_island(host_at(each.host), 0); });
  } else if (each.kind == fault_kind::split || each.kind == fault_kind::islands) {
    for (std::uint32_t index = 0; index < world_.hosts(); ++index) {
      const bool two = each.kind == fault_kind::split;
      const auto island = two ? each.mask >> index & 1 : each.mask >> (4 * index) & 15;
      world_.set_island(host_at(index), static_cast<std::uint32_t>(1000 * island));
    }
    world_.time().after(each.length, [this] {
      for (std::uint32_t index = 0; index < world_.hosts(); ++index)
        world_.set_island(host_at(index), 0);
    });
  } else {
    const host_id from = host_at(each.host).id;
    const host_id to = host_at(each.other).id;
    if (from == to) return;
    world_.note_fault();
    world_.trace([&] { return "silent " + std::to_string(from) + " to " + std::to_string(to); });
    world_.net().set_silent(from, to, true);
    world_.time().after(each.length, [=, this] { world_.net().set_silent(from, to, false); });
  }
}

void player::start_again(host& on, duration after) {
  host* const where = &on;
  world_.time().after(after, [=, this] {
    world_.give_power(*where);
    if (where == daemon_host_ && world_.current_daemon() == nullptr)
      world_.start_daemon(*daemon_host_);
    if (!world_.finishing()) world_.start_agent(*where);
  });
}

void player::start_daemon_again(duration after) {
  world_.time().after(after, [this] {
    if (world_.current_daemon() == nullptr && daemon_host_->powered)
      world_.start_daemon(*daemon_host_);
  });
}

void player::end_processes(const fault& each) {
  if (each.kind == fault_kind::kill_daemon) {
    world_.kill_daemon();
    return start_daemon_again(each.length);
  }
  if (each.kind == fault_kind::kill_agent) {
    agent* const target = agent_on(each.host);
    if (target == nullptr) return;
    world_.kill_agent(*target);
  } else {
    if (!host_at(each.host).powered) return;
    world_.lose_power(host_at(each.host));
  }
  const bool only_daemon = &host_at(each.host) == daemon_host_ && !plan_.daemon_on_first_host;
  if (only_daemon) {
    host* const where = daemon_host_;
    world_.time().after(each.length, [=, this] { world_.give_power(*where); });
    return start_daemon_again(each.length + 1ms);
  }
  if (each.length > 0ms) start_again(host_at(each.host), each.length);
}

void player::stand_still(const fault& each) {
  if (each.kind == fault_kind::stop_agent) {
    agent* const target = agent_on(each.host);
    if (target == nullptr) return;
    world_.note_fault();
    world_.trace([&] { return "SIGSTOP to " + target->greeting().node; });
    target->stand_still();
    world_.time().after(each.length, [target] { target->continue_after_stop(); });
  } else if (each.kind == fault_kind::stop_daemon) {
    daemon* const target = world_.current_daemon();
    if (target == nullptr) return;
    world_.note_fault();
    world_.trace([] { return "SIGSTOP to the daemon"; });
    target->stand_still();
    world_.time().after(each.length, [target] { target->continue_after_stop(); });
  } else {
    world_.stand_still(host_at(each.host), each.value == 1);
    world_.time().after(each.length, [=, this] { world_.go_on(host_at(each.host)); });
  }
}

void player::ill_workers(const fault& each) {
  worker_group* const group = group_on(each.host);
  if (group == nullptr) return;
  if (each.kind == fault_kind::unkillable) return world_.make_unkillable(*group, each.length);
  const bool exit = each.value == 0;
  world_.fail_worker(*group, each.other % group->workers.size(),
                     exit ? cause_class::exit : cause_class::signal, exit ? 3 : 11);
}

void player::apply(const fault& each) {
  switch (each.kind) {
    case fault_kind::break_daemon_connection:
    case fault_kind::break_tether: {
      agent* const target = agent_on(each.host);
      if (target == nullptr) return;
      world_.note_fault();
      const bool daemon = each.kind == fault_kind::break_daemon_connection;
      const auto over = daemon ? target->daemon_connection() : target->tether();
      if (over) world_.net().break_connection(*over);
      return;
    }
    case fault_kind::isolate_host:
    case fault_kind::split:
    case fault_kind::islands:
    case fault_kind::silence:
      return cut(each);
    case fault_kind::kill_agent:
    case fault_kind::lose_power:
    case fault_kind::kill_daemon:
      return end_processes(each);
    case fault_kind::stop_agent:
    case fault_kind::freeze_host:
    case fault_kind::stop_daemon:
      return stand_still(each);
    case fault_kind::fail_worker:
    case fault_kind::unkillable:
      return ill_workers(each);
    case fault_kind::fail_service:
      return world_.fail_next_service(host_at(each.host));
    case fault_kind::fail_start:
      return world_.fail_next_start(host_at(each.host));
    case fault_kind::signal_agent:
      if (agent* const target = agent_on(each.host)) world_.signal(*target, each.value);
      return;
    case fault_kind::join:
      if (!world_.finishing()) world_.start_agent(world_.add_host());
      return;
    case fault_kind::finish:
      return world_.finish_training();
    case fault_kind::operator_stop:
      if (daemon* const target = world_.current_daemon())
        target->post([=] { target->operator_stops(); });
      return;
    case fault_kind::succeed_node:
      if (worker_group* const group = group_on(each.host)) world_.succeed_node(*group);
      return;
    case fault_kind::signal_all:
      for (const auto& target : world_.agents())
        if (target->alive() && !target->left()) world_.signal(*target, 15);
      return;
    case fault_kind::break_all:
      world_.note_fault();
      for (const auto& target : world_.agents())
        if (target->alive() && target->connected())
          world_.net().break_connection(*target->daemon_connection());
      return;
  }
}

// ---- the end -----------------------------------------------------------------------------------

void player::heal() {
  world_.heal_everything();
  world_.forget_planned_failures();
  world_.give_power(*daemon_host_);
  if (world_.current_daemon() == nullptr) world_.start_daemon(*daemon_host_);
}

void player::check_recovery(outcome& result) {
  const run_settings& settings = plan_.options.settings;
  const moment healed = world_.now();
  // What a fault of the plan still has to do (a process that starts again) may come later.
  moment last = healed;
  for (const fault& each : plan_.faults)
    last = std::max(last, each.at + each.length);
  const duration bound = last - healed + recovery_bound(settings);
  const auto settled = [&] {
    return world_.now() >= last && (world_.agents_here() < settings.nodes_min ||
                                    world_.checks().any_full(settings.nodes_min));
  };
  if (!world_.run_until_true(settled, bound) && !world_.over()) {
    std::string text = "liveness: no round runs " + std::to_string(bound / 1s) + " s after healing";
    if (daemon* const here = world_.current_daemon()) text += "; the daemon: " + here->why();
    world_.violated(text);
  }
  result.until_running = world_.now() - last;
}

void player::check_end() {
  world_.finish_training();
  const auto nobody = [&] {
    return std::none_of(world_.agents().begin(), world_.agents().end(),
                        [](const auto& each) { return each->alive(); });
  };
  const duration bound =
      2 * recovery_bound(plan_.options.settings) + 2 * plan_.options.settings.timing.join_timeout;
  if (world_.run_until_true(nobody, bound) || world_.over()) return;
  for (const auto& each : world_.agents()) {
    if (!each->alive()) continue;
    std::string text = "closed: " + each->greeting().node + " waits for ever: " + each->why();
    if (daemon* const here = world_.current_daemon()) text += "; the daemon: " + here->why();
    return world_.violated(text);
  }
}

void player::count_messages(const connection& over) {
  daemon* const here = world_.current_daemon();
  if (here == nullptr || over.ends[1].owner != here) return;
  ++daemon_messages_;
  if (plan_.daemon_messages == 0 || daemon_messages_ != plan_.daemon_messages) return;
  world_.kill_daemon();
  start_daemon_again(plan_.daemon_returns);
}

outcome player::run() {
  outcome result;
  world_.on_sent = [this](const connection& over, int, const parcel&) { count_messages(over); };
  begin();
  for (const fault& each : plan_.faults)
    world_.time().at(each.at, [=, this] { apply(each); });
  world_.run_until(plan_.heal_at);
  if (!world_.over()) {
    heal();
    check_recovery(result);
  }
  if (!world_.over()) check_end();
  result.violation = world_.violation();
  result.transcript = world_.transcript();
  result.lasted = world_.now();
  result.messages = world_.net().messages();
  result.daemon_messages = daemon_messages_;
  result.events = world_.time().events_run();
  result.rounds = world_.checks().rounds_started();
  result.overlaps_excused = world_.checks().overlaps_excused();
  return result;
}

}  // namespace

outcome play(const schedule& plan, bool tracing) {
  schedule traced = plan;
  traced.options.tracing = tracing;
  return player(traced).run();
}

}  // namespace ddprun::simulation
