#include "rendezvous/core/messages/validation.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

namespace ddprun::core {
namespace {

constexpr std::string_view invalid = " is invalid";

std::string over(std::string_view name, std::uint64_t value, std::uint64_t most) {
  if (value <= most) return {};
  return std::string(name) + " " + std::to_string(value) + " is over " + std::to_string(most);
}

// As for an agent: a signal that asks nobody to end would leave the workers as they are.
bool asks_to_leave(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

std::string problem_of_assignment(const assignment& assigned, std::uint32_t nodes_max,
                                  std::uint32_t worker_count) {
  const bool is_sound = assigned.group_rank < assigned.group_world_size &&
                        assigned.group_world_size <= nodes_max &&
                        has_ranks_for(assigned, worker_count);
  if (is_sound) return problem_of(assigned.leader_data);
  return "group rank " + std::to_string(assigned.group_rank) + " of " +
         std::to_string(assigned.group_world_size) + " nodes with ranks from " +
         std::to_string(assigned.rank_first) + " of " + std::to_string(assigned.world_size) +
         std::string(invalid);
}

std::string problem_of_stall(const std::optional<stall>& said) {
  if (!said) return {};
  for (const stalled_ranks& one : said->ranks) {
    if (one.first > one.last) {
      return "a stall of ranks " + std::to_string(one.first) + " to " + std::to_string(one.last) +
             std::string(invalid);
    }
  }
  return over("number of places where ranks stand", said->ranks.size(), stalled_ranks_max);
}

}  // namespace

bool has_ranks_for(const assignment& assigned, std::uint32_t worker_count) {
  const auto fit = [worker_count](std::uint64_t rank_first, std::uint32_t world_size) {
    return rank_first + worker_count <= world_size;
  };
  return fit(assigned.rank_first, assigned.world_size) &&
         (!assigned.in_role || (fit(assigned.in_role->rank_first, assigned.in_role->world_size) &&
                                assigned.in_role->world_size <= assigned.world_size));
}

bool is_opaque_data(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) {
    return byte >= ' ' && byte <= '~' && byte != '"' && byte != '\\';
  });
}

std::string problem_of(const leader_data& given) {
  if (given.bytes.size() > leader_data_bytes_max) {
    return "leader_data: " + std::to_string(given.bytes.size()) + " bytes, the limit is " +
           std::to_string(leader_data_bytes_max);
  }
  if (!is_opaque_data(given.bytes)) return "leader_data: " + std::string(opaque_data_problem);
  return {};
}

std::string node_rank_advice(std::uint32_t nodes) {
  return ": give each node its own --node-rank, from 0 to " + std::to_string(nodes - 1);
}

std::string problem_of(const hello& greeting) {
  if (!greeting.session) return "the session is missing";
  if (greeting.worker_count == 0 || greeting.worker_count > workers_per_node_max) {
    return std::to_string(greeting.worker_count) + " workers: a node starts 1 to " +
           std::to_string(workers_per_node_max);
  }
  // The settings come first, because the node rank is judged by them.
  const std::string problem = problem_of(greeting.settings);
  if (!problem.empty()) return problem;
  const std::uint32_t nodes = greeting.settings.nodes_max;
  if (is_exact(greeting) && (!greeting.node_rank || *greeting.node_rank >= nodes)) {
    return (greeting.node_rank ? "node rank " + std::to_string(*greeting.node_rank)
                               : std::string("no node rank")) +
           " among " + std::to_string(nodes) + (nodes == 1 ? " node" : " nodes") +
           node_rank_advice(nodes);
  }
  return problem_of(greeting.state, greeting);
}

std::string problem_of(const status& said, const hello& greeting) {
  const std::array problems = {over("seq", said.seq, count_max),
                               over("epoch", said.epoch, count_max),
                               over("restored", said.restored, count_max),
                               over("number of causes", said.causes.size(), causes_max),
                               over("number of tethers", said.tether_ages.size(), tether_ages_max),
                               problem_of_stall(said.stall)};
  for (const std::string& problem : problems) {
    if (!problem.empty()) return problem;
  }
  if (std::string problem = problem_of(said.leader_data); !problem.empty()) return problem;
  if (said.signal < 0 || said.signal > 64) {
    return "signal " + std::to_string(said.signal) + std::string(invalid);
  }
  for (const cause& one : said.causes) {
    if (one.code < -cause_code_max || one.code > cause_code_max || one.process < 0 ||
        std::uint64_t(one.process) > count_max) {
      return "a cause with code " + std::to_string(one.code) + " of process " +
             std::to_string(one.process) + std::string(invalid);
    }
  }
  if (!said.assignment) return {};
  return problem_of_assignment(*said.assignment, greeting.settings.nodes_max,
                               greeting.worker_count);
}

std::string first_change(const hello& first, const hello& again) {
  // Not compared: the addresses, because a node may come by another path; the job, which the agent
  // learns from the daemon; the state; and the script, which only people are told.
  if (first.protocol != again.protocol) return "protocol";
  if (first.version != again.version) return "version of ddprun";
  if (first.token != again.token) return "token";
  if (first.run_id != again.run_id) return "run id";
  if (first.node != again.node || first.node_is_explicit != again.node_is_explicit) {
    return "node id";
  }
  if (first.host != again.host) return "host name";
  if (first.worker_count != again.worker_count) return "number of workers";
  if (first.node_rank != again.node_rank) return "node rank";
  if (first.role != again.role) return "role";
  if (!agree(first.settings, again.settings)) return "settings";
  if (first.hosts_daemon != again.hosts_daemon) return "daemon";
  return {};
}

std::string problem_of(const welcome& words) {
  const std::string problem = over("epoch", words.epoch, count_max);
  return problem.empty() ? problem_of(words.timing) : problem;
}

std::string problem_of(const desired& wanted) {
  const std::array problems = {over("round", wanted.round, count_max),
                               over("seq", wanted.seq, count_max),
                               over("epoch", wanted.epoch, count_max)};
  for (const std::string& problem : problems) {
    if (!problem.empty()) return problem;
  }
  if (wanted.grace < duration::zero() || wanted.grace > timer_max) {
    return "a grace of " + to_text(wanted.grace) + std::string(invalid);
  }
  if (wanted.signal != 0 && !asks_to_leave(wanted.signal)) {
    return "to end workers by signal " + std::to_string(wanted.signal) + std::string(invalid);
  }
  return {};
}

}  // namespace ddprun::core
