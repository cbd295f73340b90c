#include "rendezvous/core/agent/agent_text.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"
#include "rendezvous/core/agent/agent_stop.hpp"
#include "rendezvous/core/agent/daemon_link.hpp"
#include "rendezvous/core/agent/desired_state.hpp"
#include "rendezvous/core/agent/local_round.hpp"
#include "rendezvous/core/messages/wait_text.hpp"

namespace ddprun::core {
namespace {

std::string host_and_port(const std::string& address, std::uint16_t port) {
  const bool brackets = address.find(':') != std::string::npos;
  return (brackets ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

std::string or_else(const std::string& text, const char* otherwise) {
  return text.empty() ? otherwise : text;
}

std::string ranks_text(const assignment& assigned, std::uint32_t worker_count) {
  const std::uint32_t last = assigned.rank_first + worker_count - 1;
  std::string text = "node " + std::to_string(assigned.group_rank) + " of " +
                     std::to_string(assigned.group_world_size) + ", rank";
  text += worker_count == 1
              ? " " + std::to_string(assigned.rank_first)
              : "s " + std::to_string(assigned.rank_first) + " to " + std::to_string(last);
  return text + " of " + std::to_string(assigned.world_size);
}

// How long there has been no daemon, why, and until when the agent looks for one.
std::string apart_text(const daemon_search& search) {
  std::string text = "rendezvous daemon at " + search.endpoints + " for " +
                     to_text(search.now - search.link.apart_since()) + " (" +
                     or_else(search.link.error(), "no answer") + ")";
  const auto& end = search.gives_up;
  if (end && *end > search.real_now)
    text += "; trying for " + rough_text(*end - search.real_now) + " more";
  const auto& orphaned = search.workers_end;
  if (orphaned && *orphaned > search.real_now)
    text += "; the workers run on for " + rough_text(*orphaned - search.real_now) + " at most";
  return text;
}

}  // namespace

std::string lost_daemon_text(const daemon_search& search, const timers& timing, bool may_host) {
  std::string text = "lost the rendezvous daemon at " + search.endpoints + " (" +
                     or_else(search.link.error(), "no answer") + "): ";
  const std::string what = "for a daemon to answer there again";
  const std::string itself =
      may_host ? "; if none has come in " + to_text(timing.reconnect_grace) +
                     " (reconnect_grace), this agent starts one, because it runs on that host"
               : "";
  if (const auto end = search.workers_end; end && *end > search.real_now) {
    return text + "the workers run on, and this node waits " + what + ", " +
           rough_text(*end - search.real_now) + " at most; then they are ended" + itself;
  }
  if (const auto end = search.gives_up; end && *end > search.real_now) {
    return text + "this node waits " + what + ", " + rough_text(*end - search.real_now) +
           " at most" + itself;
  }
  return text + "this node waits " + what + itself;
}

std::string unreachable_text(const daemon_link& daemon, const local_round& local,
                             const std::string& endpoints, machine_time now) {
  const std::string tried = to_text(now - daemon.apart_since());
  const std::string last = "; the last try: " + or_else(daemon.error(), "no answer");
  if (local.phase() == member_phase::succeeded) {
    return "the workers of this node succeeded, but there has been no rendezvous daemon at " +
           endpoints + " for " + tried + last;
  }
  if (daemon.was_confirmed()) {
    return "lost the rendezvous daemon at " + endpoints + " and tried for " + tried +
           " to reach it again" + last +
           "; check whether that host or the agent that hosted the daemon has ended";
  }
  return "cannot reach the rendezvous daemon at " + endpoints + ", tried for " + tried + last +
         "; check that it runs there, that the endpoint is right, and that no firewall is " +
         "between";
}

std::string tether_failure_text(const daemon_link& daemon, const local_round& local,
                                const timers& timing) {
  return "cannot reach the leader " + local.assignment()->leader_node + " at " +
         host_and_port(local.assignment()->master_address, local.assignment()->tether_port) +
         " from " + or_else(daemon.own_address(), "this node") + ", tried for " +
         // The limit is that of reach_deadline() in leases.cpp.
         to_text(timing.start_timeout / 2) +
         "; the last try: " + or_else(local.tether.error(), "no answer") +
         "; check for a firewall between the two (ddprun doctor)";
}

std::string isolation_text(const daemon_link& daemon, const local_round& local,
                           const std::string& endpoints, duration limit) {
  std::string text =
      "no heartbeat of this node has been acknowledged for " + to_text(limit) +
      ": its workers are killed, so that workers of two rounds never run at once (the "
      "rendezvous daemon at " +
      endpoints + ": " + or_else(daemon.error(), "no answer");
  if (local.assignment() && local.assignment()->group_rank != 0) {
    text += "; the leader " + local.assignment()->leader_node + ": " +
            or_else(local.tether.error(), "no answer");
  } else if (local.group_world_size() > 1) {
    text += "; this node is the leader, and " + std::to_string(local.held.open()) + " of the " +
            counted(local.group_world_size() - 1, "other node") +
            (local.held.open() == 1 ? " is" : " are") + " connected to it";
  }
  return text + ")";
}

std::string stood_still_text(const timers& timing) {
  return "this ddprun was suspended (by SIGSTOP, Ctrl-Z, a debugger or a hanging disk) for longer "
         "than isolation_limit (" +
         to_text(timing.isolation_limit) +
         "): its guardian process has killed the workers, so that workers of two rounds never run "
         "at once; this node joins the run again";
}

std::string orphan_text(const daemon_link& daemon, const local_round& local,
                        const std::string& endpoints, const timers& timing,
                        const machine_clock& clock) {
  return "there has been no rendezvous daemon at " + endpoints + " for " +
         to_text(clock.real_now() - daemon.leased_from().value_or(clock.real(local.began()))) +
         ": the workers are ended, because after " + to_text(timing.orphan_limit) +
         " (orphan_limit) the other nodes may start a round without this one; the last try: " +
         or_else(daemon.error(), "no answer");
}

std::string where_text(const agent_options& options, std::size_t endpoint_index) {
  return "run " + options.greeting.run_id + " at " + options.endpoints[endpoint_index] +
         (options.greeting.hosts_daemon ? " (daemon in this process): " : ": ");
}

std::string interrupted_text(const daemon_link& daemon, const told_wait& wait,
                             round_number last_round, const std::string& endpoints, time_point now,
                             int signal) {
  std::string text = "stopped by " + signal_name(signal) + " while waiting";
  const bool had_round = last_round != 0;
  const std::string gone = wait.gone_text(now);
  if (!daemon.is_in_session()) {
    text += " for the rendezvous daemon at " + endpoints;
  } else if (had_round) {
    // All nodes may be here, in the pause after a failure.
    text += gone.empty() ? " for the next round" : " for nodes";
  }
  text += had_round ? " after round " + std::to_string(last_round) : ", before a round began here";
  return text + gone;
}

std::string why_text(const agent_options& options, std::size_t endpoint_index,
                     const desired_state& newest, const told_wait& wait, const local_round& local,
                     const shutdown_state& shutdown, const daemon_search& search) {
  const bool is_joined = local.phase() == member_phase::joined;
  if (is_joined && !search.link.was_in_session() && !shutdown.is_draining()) {
    return "run " + options.greeting.run_id + ": waiting for the " + apart_text(search);
  }
  const std::string of_round = "round " + std::to_string(local.number());
  std::string text;
  switch (local.phase()) {
    case member_phase::joined:
      text = where_text(options, endpoint_index) +
             (newest.text().empty() ? "waiting for a round"
                                    : wait.text(newest.text(), search.real_now));
      break;
    case member_phase::preparing:
      text = of_round + ": opening the job store for " + counted(local.group_world_size(), "node");
      break;
    case member_phase::assigned:
      text = of_round + ": " +
             (local.is_leader()
                  ? "waiting for the rendezvous daemon's order before the workers start"
                  : "connecting to the leader " + local.assignment()->leader_node + " at " +
                        host_and_port(local.assignment()->master_address,
                                      local.assignment()->tether_port));
      break;
    case member_phase::starting:
    case member_phase::running:
      text = of_round +
             (local.phase() == member_phase::starting ? ": starting as " : ": running as ") +
             ranks_text(*local.assignment(), options.greeting.worker_count);
      break;
    case member_phase::succeeded:
      text = of_round + ": the workers of this node succeeded; " +
             or_else(newest.text(), "waiting for the other nodes");
      break;
    case member_phase::failed:
      text = of_round + ": failed here; waiting for the rendezvous daemon to stop the round";
      break;
    case member_phase::stopping:
      text = of_round + ": " + (local.workers.are_killed() ? "killing " : "stopping ") +
             counted(local.workers.living(), "worker");
      break;
    case member_phase::stopped:
    case member_phase::lost:
      text = of_round + ": stopped" + (newest.text().empty() ? "" : "; " + newest.text());
      if (local.workers.unkillable() > 0) {
        text += "; " + counted(local.workers.unkillable(), "worker") +
                (local.workers.unkillable() == 1 ? " outlives SIGKILL" : " outlive SIGKILL");
      }
      break;
  }
  if (shutdown.is_draining()) text += "; leaving";
  if (!search.link.is_in_session()) text += "; no " + apart_text(search);
  return text;
}

}  // namespace ddprun::core
