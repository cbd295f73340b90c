// Messages in which no field has the value that stands for its absence.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

namespace ddprun::tests {

using namespace std::chrono_literals;

inline constexpr session_id someone{0x0123456789abcdef, 0xfedcba9876543210};

inline cause full_cause() {
  cause value;
  value.round = 3;
  value.group_rank = 1;
  value.node = "node-b";
  value.kind = cause_class::signal;
  value.rank = 5;
  value.local_rank = 1;
  value.process = 4242;
  value.code = 9;
  value.by_our_stop = true;
  value.is_secondary = true;
  value.was_failing = true;
  value.age = 1500us;
  value.text = "killed by SIGKILL";
  value.tail = "Traceback:\n\t\"quoted\" \\ \xE2\x82\xAC\n";
  return value;
}

inline assignment full_assignment() {
  assignment value;
  value.group_rank = 1;
  value.group_world_size = 2;
  value.rank_first = 4;
  value.world_size = 8;
  value.in_role = {1, 5};
  value.master_address = "2001:db8::1";
  value.master_port = 41234;
  value.tether_port = 41235;
  value.leader_node = "node-a";
  value.leader_data = {"0cc4,a2 !~", "two things; at 10.0.0.1:4711"};
  return value;
}

inline status full_status() {
  status value;
  value.seq = 17;
  value.epoch = 4;
  value.instance = 0xfedcba9876543210;
  value.round = 3;
  value.desired_seq = 4;
  value.phase = member_phase::failed;
  value.assignment = full_assignment();
  value.ran = 40s;
  value.service_port = 1234;
  value.master_port = 1235;
  value.leader_data = {"0cc4", "one thing"};
  value.restarts_used = 2;
  value.restarts_forgiven = 1;
  value.unkillable = 1;
  value.restored = 1'500'000'000'000;
  value.unhealthy = "GPU 3 needs: Reset";
  value.succeeded = true;
  value.draining = true;
  value.signal = 2;
  value.causes = {full_cause(), full_cause()};
  value.ends = {{ending::secondary, 1, 3}, {ending::killed, 4, 4}};
  value.tether_ages = {{7, 11s}, {2, 10s}};
  value.stall = {21s, true, {{1, 2, stall_kind::waits, "waited in barrier, step (train.py:41)"}}};
  return value;
}

inline hello full_hello() {
  hello value;
  value.version = "0.1.0";
  value.token = "secret";
  value.run_id = "digits";
  value.session = someone;
  value.node = "node-b";
  value.node_is_explicit = true;
  value.host = "host-b";
  value.worker_count = 4;
  value.node_rank = 1;
  value.role = "reader";
  value.address = "10.0.0.2";
  value.own_address = "10.0.0.3";
  value.hosts_daemon = true;
  value.script = "eval.py";  // differs from the job's; otherwise it is not sent
  value.job = started_job{"a2", "train.py", "10:31", "node-a"};
  value.settings.nodes_min = 1;
  value.settings.nodes_max = 4;
  value.settings.spares_max = 1;
  value.settings.restarts_max = 3;
  value.settings.quick_failures_max = 6;
  value.settings.node_failures_max = 5;
  value.settings.node_losses_max = 7;
  value.settings.store = store_mode::worker;
  value.settings.on_join = join_policy::restart;
  value.settings.ranks = rank_policy::exact;
  value.settings.timing = timers_for(3s);
  value.settings.timing.linger = 1us;
  value.state = full_status();
  return value;
}

inline desired full_desired() {
  desired value;
  value.epoch = 1;
  value.instance = 5;
  value.round = 3;
  value.seq = 9;
  value.phase = desired_phase::close;
  value.restarts_used = 1;
  value.restarts_forgiven = 1;
  value.world_size = 8;
  value.group_world_size = 2;
  value.master_address = "10.0.0.7";
  value.assignment = full_assignment();
  value.members = "ranks 0-3 on node-a (10.0.0.7), 4-7 on node-b (10.0.0.2)";
  value.grace = 5s;
  value.signal = 2;
  value.exit_code = 137;
  value.is_unreported = true;
  value.is_ordinary = true;
  value.root_cause = full_cause();
  value.text = "worker 5 on node-b was killed";
  value.left = 12s;
  value.is_last_call = true;
  value.gone = {"node-c (10.0.0.3, rank 4) was lost", 40s, "silent for 10 s"};
  value.news = "node-b was replaced by node-c";
  value.warning = "nodes of this run start different scripts";
  value.job = started_job{"a2", "train.py", "10:31", "node-a"};
  value.hung = {7, "no rank of this run has moved for 21 s"};
  return value;
}

inline round_report full_report() {
  round_report value;
  value.instance = 5;
  value.round = 3;
  value.world_size = 8;
  value.group_world_size = 2;
  value.lasted = 1500us;
  value.root_cause = full_cause();
  value.ends = {{ending::lost, 0, 3}, {ending::succeeded, 7, 7}};
  value.restarts_used = 2;
  value.restarts_forgiven = 1;
  value.restarts_max = 3;
  value.is_last = true;
  value.exit_code = 137;
  value.text = "restart 2 of 3";
  return value;
}

}  // namespace ddprun::tests
