// Workers that are not started cold: those that --warm has made spares for, and those that live on
// from the round before.
#include "launcher/agent/agent.hpp"
#include "launcher/agent/worker_environment.hpp"
#include "launcher/evidence/evidence_keeper.hpp"
#include "launcher/evidence/stack_request.hpp"
#include "launcher/survivors/survivor_spawner.hpp"
#include "launcher/warm/warm_spawner.hpp"
#include "rendezvous/base/counted.hpp"

#include <cstdint>
#include <sys/prctl.h>
#include <utility>

namespace ddprun::launcher {
namespace {

// A round in which everything is another than in one with another number.
worker_round round_of_number(std::uint32_t number, std::uint32_t worker_count) {
  worker_round round;
  const std::string text = std::to_string(number);
  round.instance = number;
  round.round = number;
  round.restarts_used = number;
  round.worker_count = worker_count;
  round.node = "node";
  round.run_id = "run";
  round.mark = "mark";
  round.gloo_interface = "net" + text;
  round.vault = "vault" + text;
  round.error_files.assign(2, "error" + text);
  round.progress_files = {"progress0" + text, "progress1" + text};
  round.assignment.group_rank = number;
  round.assignment.rank_first = number;
  round.assignment.world_size = number;
  round.assignment.group_world_size = number;
  round.assignment.master_address = "address" + text;
  round.assignment.master_port = static_cast<std::uint16_t>(number);
  round.nccl.count = 1;
  round.nccl.version = number;
  round.nccl.first = {text};
  return round;
}

}  // namespace

std::vector<std::string> rank_variables(const launch_options& options, std::uint32_t worker_count,
                                        const environment_map& inherited) {
  environment_map one =
      worker_environment(options, round_of_number(10, worker_count), 0, inherited);
  const environment_map other = worker_environment(options, round_of_number(20, worker_count),
                                                   worker_count > 1 ? 1 : 0, inherited);
  std::vector<std::string> names;
  for (const auto& [name, value] : other) {
    const std::string* const same = find_variable(one, name);
    if (same == nullptr || *same != value) names.push_back(name);
    one.erase(name);
  }
  for (const auto& [name, value] : one)
    names.push_back(name);
  return names;
}

void agent::start_warm() {
  if (options_.warm_spares == 0u) return;
  if (options_.no_python && !options_.run_path) {
    return say(note_level::info, "--warm is for Python scripts; programs are started as always");
  }
  // Else workers could not open what this process holds for them.
  if (::prctl(PR_GET_DUMPABLE) != 1) {
    return say(note_level::warning,
               "no worker is started warm: the file of this program cannot be read (chmod +r)");
  }
  warm::warm_options values;
  values.spares = options_.warm_spares.value_or(identity_.worker_count);
  values.rank_names = rank_variables(options_, identity_.worker_count, environment_);
  values.prefix = "[" + identity_.node + ":warm] ";
  values.stack_site = evidence_->stack_site();
  if (!values.stack_site.empty()) {
    values.stack_signal = evidence::stack_signal;
    values.comparison.stack_signal = evidence::stack_signal;
  }
  values.memory.read = [gauge = memory_gauge()] { return gauge.read(); };
  values.cgroup = [this] { return reaper_.cgroup_fd(); };
  values.killed = [this] { oom_kills_.discount(); };
  worker_round next = round_of_number(10, identity_.worker_count);
  next.node = identity_.node;
  next.run_id = options_.run_id;
  next.mark = identity_.mark;
  next.survivors = survivors_address();
  spawn_request like;
  like.argv = worker_command_line(options_, next, 0);
  like.environment = to_entries(worker_environment(options_, next, 0, environment_));
  values.learnt = warm::learnt_imports::of(like.argv, like.environment);
  warm_ = std::make_unique<warm::warm_spawner>(
      context_.get_executor(), evidence_->asking_spawner(), guardian_, mux_, std::move(values),
      [this](const std::string& line) { say(note_level::info, line); });
  warm_->look_up(like);
}

// Empty: no worker may live on.
std::string agent::survivors_address() const {
  return options_.keeps_survivors ? "ddprun-survivors-" + identity_.mark : std::string();
}

void agent::start_survivors() {
  if (!options_.keeps_survivors) return;
  survivors::survivor_options values;
  values.address = survivors_address();
  survivors::survivor_spawner::events told;
  told.say = [this](const std::string& line) { say(note_level::warning, line); };
  told.hangs = [this](pid_t pid, const std::string& why) { evidence_->count_as_hung(pid, why); };
  survivors_ = std::make_unique<survivors::survivor_spawner>(
      context_.get_executor(), worker_spawner(), guardian_, std::move(values), std::move(told));
  reaper_.spare_descendants(
      [this](pid_t leader) { return survivors_ && survivors_->waits(leader); });
}

void agent::name_survivors() {
  if (!survivors_ || survivors_->stayed() == 0) return;
  say(note_level::info, std::to_string(survivors_->stayed()) + " of " +
                            counted(identity_.worker_count, "worker") +
                            " of this node lived on from the round before");
}

spawner& agent::worker_spawner() {
  if (survivors_) return *survivors_;
  if (warm_) return *warm_;
  return evidence_->asking_spawner();
}

}  // namespace ddprun::launcher
