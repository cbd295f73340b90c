#include "tests/simulation/fault.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

struct fault_row {
  fault_kind kind;
  const char* name;
  unsigned weight;  // how often a random schedule draws it; 0: never
};

constexpr fault_row table[] = {
    {fault_kind::break_daemon_connection, "break_daemon_connection", 10},
    {fault_kind::break_tether, "break_tether", 6},
    {fault_kind::isolate_host, "isolate_host", 10},
    {fault_kind::split, "split", 10},
    {fault_kind::silence, "silence", 10},
    {fault_kind::kill_agent, "kill_agent", 8},
    {fault_kind::lose_power, "lose_power", 6},
    {fault_kind::stop_agent, "stop_agent", 4},
    {fault_kind::block_agent, "block_agent", 2},
    {fault_kind::freeze_host, "freeze_host", 4},
    {fault_kind::kill_daemon, "kill_daemon", 10},
    {fault_kind::stop_daemon, "stop_daemon", 4},
    {fault_kind::fail_worker, "fail_worker", 10},
    {fault_kind::unkillable, "unkillable", 3},
    {fault_kind::fail_service, "fail_service", 3},
    {fault_kind::fail_start, "fail_start", 3},
    {fault_kind::stall_start, "stall_start", 3},
    {fault_kind::signal_agent, "signal_agent", 3},
    {fault_kind::join, "join", 6},
    {fault_kind::finish, "finish", 2},
    {fault_kind::operator_stop, "operator_stop", 1},
    {fault_kind::islands, "islands", 0},
    {fault_kind::succeed_node, "succeed_node", 0},
    {fault_kind::signal_all, "signal_all", 0},
    {fault_kind::break_all, "break_all", 0},
    {fault_kind::slow_kills, "slow_kills", 2},
    {fault_kind::signal_group, "signal_group", 2},
    {fault_kind::stuck_worker, "stuck_worker", 0},
    {fault_kind::deaf, "deaf", 0},
    {fault_kind::move_daemon, "move_daemon", 0},
    {fault_kind::kill_all, "kill_all", 0},
    {fault_kind::kill_knowing, "kill_knowing", 0},
    {fault_kind::come_again, "come_again", 0},
};

}  // namespace

fault random_fault(random_source& random, std::uint32_t hosts, const timers& timing, moment last) {
  unsigned total = 0;
  for (const fault_row& each : table)
    total += each.weight;
  auto drawn = static_cast<unsigned>(random.below(total));
  fault made;
  for (const fault_row& each : table) {
    made.kind = each.kind;
    if (drawn < each.weight) break;
    drawn -= each.weight;
  }
  made.at = random.between(0ms, last);
  made.host = static_cast<std::uint32_t>(random.below(hosts));
  made.other = static_cast<std::uint32_t>(random.below(hosts));
  made.mask = random.next();
  // Half of the faults end at about the time of some timer, because that is where bugs are.
  const duration edges[] = {timing.heartbeat_interval, timing.reconnect_grace,
                            timing.isolation_limit, timing.node_timeout,
                            timing.node_timeout + timing.isolation_limit};
  made.length = random.chance(50) ? random.between(1ms, 2 * timing.node_timeout)
                                  : edges[random.below(5)] + random.between(0ms, 500ms);
  made.value = static_cast<int>(random.below(2));
  if (made.kind == fault_kind::signal_agent || made.kind == fault_kind::signal_group) {
    const int signals[] = {2, 15, 15, 1};
    made.value = signals[random.below(4)];
  }
  if (made.kind == fault_kind::kill_agent || made.kind == fault_kind::lose_power) {
    if (random.chance(30)) made.length = 0ms;
  }
  return made;
}

std::string to_text(const fault& each) {
  const auto row = std::find_if(std::begin(table), std::end(table),
                                [&](const fault_row& one) { return one.kind == each.kind; });
  return ddprun::to_text(each.at) + " " + row->name + " host " + std::to_string(each.host) +
         " other " + std::to_string(each.other) + " mask " + std::to_string(each.mask & 0xffffff) +
         " for " + ddprun::to_text(each.length) + " value " + std::to_string(each.value);
}

}  // namespace ddprun::simulation
