// What each kind of fault does to the world.
#include "tests/simulation/player.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace ddprun::simulation {

using namespace std::chrono_literals;

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
    if (where == daemon_host_ && !plan_.embedded && !world_.has_daemon_at_endpoint())
      world_.start_daemon(*daemon_host_);
    if (!world_.finishing())
      world_.start_agent(*where, {.run_id = run_id_of(where->id + plan_.run_ids - 1)});
  });
}

// Like a service manager, this tries again and again if the port is taken.
void player::start_daemon_again(duration after) {
  world_.time().after(after, [this] {
    if (!daemon_host_->powered) return;
    daemon* const here = world_.current_daemon();
    const bool there = world_.has_daemon_at_endpoint();
    if (!there) return bring_daemon();
    if (!plan_.embedded && here->inside() != nullptr) start_daemon_again(2s);
  });
}

// In the embedded mode a person types the command again on the endpoint's host.
void player::bring_daemon() {
  if (!plan_.embedded) {
    world_.start_daemon(*daemon_host_);
    return;
  }
  for (const auto& each : world_.agents())
    if (&each->where() == daemon_host_) world_.kill_agent(*each);
  if (world_.agents_here() > 0) world_.start_agent(*daemon_host_);
}

// This is repeated if the agent in which the daemon lived has left for good.
void player::keep_a_daemon() {
  if (!plan_.embedded) return;
  if (!world_.has_daemon_at_endpoint()) bring_daemon();
  world_.time().after(2s, [this] { keep_a_daemon(); });
}

// A new daemon takes over the endpoint's name while the old one can reach no agent, or stands
// still.
void player::move_daemon(const fault& each) {
  daemon* const old = world_.current_daemon();
  host& target = host_at(each.host);
  if (old == nullptr || &old->where() == &target || !target.powered) return;
  if (each.value == 1) {
    world_.stop_daemon(*old);
    world_.time().after(each.length, [=, this] { world_.continue_daemon(*old); });
  } else if (each.value == 0) {
    host& where = old->where();
    world_.set_island(where, 2000 + where.id);
    world_.time().after(each.length, [this, &where] { world_.set_island(where, 0); });
  }
  daemon_host_ = &target;
  world_.start_daemon(target);
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
  const bool only_daemon =
      &host_at(each.host) == daemon_host_ && !plan_.daemon_on_first_host && !plan_.embedded;
  if (only_daemon) {
    host* const where = daemon_host_;
    world_.time().after(each.length, [=, this] { world_.give_power(*where); });
    return start_daemon_again(each.length + 1ms);
  }
  if (each.length > 0ms) start_again(host_at(each.host), each.length);
}

void player::end_together(const fault& each) {
  daemon* const here = world_.current_daemon();
  std::vector<agent*> dying;
  round_number newest = 0;
  for (const auto& one : world_.agents()) {
    if (!one->alive() || one->left()) continue;
    round_number known = 0;
    const core::run* const of = here ? here->run(one->greeting().run_id) : nullptr;
    if (each.kind == fault_kind::kill_knowing && of != nullptr) {
      for (const auto& [by, round] : one->told(of->view({}, 0, 0).instance).rounds)
        known = std::max(known, round);
    }
    if (known > newest) dying.clear();
    newest = std::max(newest, known);
    if (known == newest) dying.push_back(one.get());
  }
  const bool by_power = each.value == 1;
  by_power ? world_.lose_power(*daemon_host_) : world_.kill_daemon();
  for (agent* const one : dying)
    by_power ? world_.lose_power(one->where()) : world_.kill_agent(*one);
  host* const daemons = daemon_host_;
  world_.time().after(each.length, [=, this] { world_.give_power(*daemons); });
  if (!plan_.embedded) start_daemon_again(each.length + 1ms);
  for (agent* const one : dying) {
    const bool stays_away = (each.mask >> one->where().id % 32 & 3) == 3;
    if (!stays_away) start_again(one->where(), each.length + world_.random().between(2ms, 300ms));
  }
}

void player::stand_still(const fault& each) {
  if (each.kind == fault_kind::stop_agent || each.kind == fault_kind::block_agent) {
    agent* const target = agent_on(each.host);
    if (target == nullptr) return;
    each.kind == fault_kind::stop_agent ? world_.stop_process(*target) : world_.block(*target);
    world_.time().after(each.length, [=, this] { world_.continue_process(*target); });
  } else if (each.kind == fault_kind::stop_daemon) {
    daemon* const target = world_.current_daemon();
    if (target == nullptr) return;
    world_.stop_daemon(*target);
    world_.time().after(each.length, [=, this] { world_.continue_daemon(*target); });
  } else {
    world_.stand_still(host_at(each.host), each.value == 1);
    world_.time().after(each.length, [=, this] { world_.go_on(host_at(each.host)); });
  }
}

void player::bring_agent(const fault& each) {
  if (each.kind == fault_kind::come_again) {
    if (agent_on(each.host) == nullptr) start_again(host_at(each.host), 0ms);
  } else if (!world_.finishing()) {
    host& on = world_.add_host();
    world_.start_agent(on, {.run_id = run_id_of(on.id + plan_.run_ids - 1)});
  }
}

void player::ill_workers(const fault& each) {
  worker_group* const group = group_on(each.host);
  if (group == nullptr) return;
  if (each.kind == fault_kind::unkillable) return world_.make_unkillable(*group, each.length);
  if (each.kind == fault_kind::stuck_worker) return world_.make_unkillable(*group, duration::max());
  const bool exit = each.value == 0;
  world_.fail_worker(*group, each.other % group->workers.size(),
                     exit ? cause_class::exit : cause_class::signal, exit ? 3 : 11);
}

void player::break_connections(const fault& each) {
  if (each.kind == fault_kind::break_all) {
    world_.note_fault();
    for (const auto& target : world_.agents())
      if (target->alive() && target->connected())
        world_.net().break_connection(*target->daemon_connection());
    return;
  }
  agent* const target = agent_on(each.host);
  if (target == nullptr) return;
  world_.note_fault();
  const bool daemon = each.kind == fault_kind::break_daemon_connection;
  const auto over = daemon ? target->daemon_connection() : target->tether();
  if (over) world_.net().break_connection(*over);
}

void player::apply(const fault& each) {
  switch (each.kind) {
    case fault_kind::break_daemon_connection:
    case fault_kind::break_tether:
    case fault_kind::break_all:
      return break_connections(each);
    case fault_kind::isolate_host:
    case fault_kind::split:
    case fault_kind::islands:
    case fault_kind::silence:
      return cut(each);
    case fault_kind::kill_agent:
    case fault_kind::lose_power:
    case fault_kind::kill_daemon:
      return end_processes(each);
    case fault_kind::kill_all:
    case fault_kind::kill_knowing:
      return end_together(each);
    case fault_kind::stop_agent:
    case fault_kind::block_agent:
    case fault_kind::freeze_host:
    case fault_kind::stop_daemon:
      return stand_still(each);
    case fault_kind::fail_worker:
    case fault_kind::unkillable:
    case fault_kind::stuck_worker:
      return ill_workers(each);
    case fault_kind::fail_service:
      return world_.fail_next_service(host_at(each.host));
    case fault_kind::fail_start:
      return world_.fail_next_start(host_at(each.host));
    case fault_kind::stall_start:
      return world_.stall_next_start(host_at(each.host), each.length, each.value == 1);
    case fault_kind::move_daemon:
      return move_daemon(each);
    case fault_kind::signal_agent:
      if (agent* const target = agent_on(each.host)) world_.signal(*target, each.value);
      return;
    case fault_kind::signal_group:
      if (agent* const target = agent_on(each.host)) world_.signal_group(*target, each.value);
      return;
    case fault_kind::slow_kills:
      world_.habits().slow_kill_percent = 30;
      return;
    case fault_kind::deaf:
      if (agent* const target = agent_on(each.host)) world_.make_deaf(*target);
      return;
    case fault_kind::join:
    case fault_kind::come_again:
      return bring_agent(each);
    case fault_kind::finish:
      return world_.finish_training();
    case fault_kind::operator_stop:
      if (daemon* const target = world_.current_daemon()) {
        world_.note_fault();
        target->post([=] { target->operator_stops(); });
      }
      return;
    case fault_kind::succeed_node:
      if (worker_group* const group = group_on(each.host)) world_.succeed_node(*group);
      return;
    case fault_kind::signal_all:
      for (const auto& target : world_.agents())
        if (target->alive() && !target->left()) world_.signal(*target, 15);
      return;
  }
}

}  // namespace ddprun::simulation
