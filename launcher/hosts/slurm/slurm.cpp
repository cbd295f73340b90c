#include "launcher/hosts/slurm/slurm.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/hosts/slurm/node_address.hpp"
#include "launcher/hosts/slurm/ports.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::slurm {
namespace {

constexpr auto siblings_limit = std::chrono::seconds(1);

// The process title of the slurmstepd that has started the task of this process. Empty in a
// container, where it is not visible.
std::string step_daemon_title(const environment_map& environment) {
  const std::string task = variable_or_empty(environment, "SLURM_TASK_PID");
  if (task.empty() || task.find_first_not_of("0123456789") != std::string::npos) return {};
  const std::string status = whole_text("/proc/" + task + "/status");
  constexpr std::string_view name = "\nPPid:\t";
  const std::size_t at = status.find(name);
  if (at == std::string::npos) return {};
  const std::size_t start = at + name.size();
  const std::string parent = status.substr(start, status.find('\n', start) - start);
  const std::string title = whole_text("/proc/" + parent + "/cmdline");
  return title.starts_with("slurmstepd") ? title : std::string();
}

// `srun --pty bash` passes its variable to everything that the shell starts, even another srun:
// only its own task has the terminal.
bool is_shell_of_srun(const environment_map& environment) {
  if (!find_variable(environment, "SLURM_PTY_PORT")) return false;
  return unique_fd(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)).get() >= 0;
}

cli::usage_error not_by_srun(const step& found) {
  const std::string here = found.from == origin::batch ? "the batch script" : "a shell";
  return {"this is " + here + " of " + found.name() + ", which has " +
          counted(found.nodes.size(), "node") +
          "; this is not a job step: use srun ddprun ..., which starts one on each node; "
          "--standalone runs on this host alone"};
}

// One agent per node starts all its workers. Other tasks beside it would hold what Slurm has bound
// to them: GPUs and processors that the workers need.
cli::usage_error several_tasks(const step& found) {
  const std::string nodes = std::to_string(found.nodes.size());
  std::string line = "srun --ntasks=" + nodes + " --ntasks-per-node=1";
  if (found.gpus) line += " --gpus-per-node=" + std::to_string(*found.gpus);
  if (found.cpus) line += " --cpus-per-task=" + std::to_string(*found.cpus);
  return {found.name() + " has " + counted(found.tasks_on_node_max, "task") +
          " on a node, and one ddprun there starts all workers: write " + line + " ddprun ..."};
}

bool has_several_tasks(const step& found) {
  return found.from == origin::step && found.tasks_on_node_max > 1 && !found.is_shell;
}

// Invalid: another process of this user in this network namespace has that name.
unique_fd take_name(const std::string& name) {
  unique_fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  // Behind a 0: an abstract name, not a file.
  std::memcpy(address.sun_path + 1, name.data(), length);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 &&
      errno == EADDRINUSE) {
    socket.reset();
  }
  return socket;
}

// All tasks of a step are refused for the same reason. The first ddprun of each node reports it,
// whichever task that is (task 0 may be another program), and stays until the others have had time
// to see that.
cli::usage_error said_once_on_node(const step& found, const cli::usage_error& error) {
  const std::string user = std::to_string(::getuid());
  const unique_fd first = take_name("ddprun-" + user + "-" + found.run_id() + "-refused");
  if (first.get() < 0) return {};
  std::fprintf(stderr, "ddprun: %s\n", error.text.c_str());
  std::this_thread::sleep_for(siblings_limit);
  return {};
}

void note_of_cpus(const step& found, hosts::placement& placed) {
  const std::uint32_t workers = found.gpus.value_or(1);
  if (!found.cpus || *found.cpus >= workers) return;
  placed.notes.push_back(found.name() + " gives this node " + counted(*found.cpus, "CPU") +
                         " for " + counted(workers, "worker") +
                         ": srun --cpus-per-task=N, or --exclusive, gives it more");
}

}  // namespace

hosts::placement_outcome place(const step& found) {
  const bool is_step = found.from == origin::step;
  if (!is_step && found.nodes.size() > 1) return not_by_srun(found);
  if (has_several_tasks(found)) return several_tasks(found);
  if (found.tasks_on_node_max > 1 && found.nodes.size() == 1) return {};
  hosts::placement placed;
  placed.engine = found.name();
  placed.nodes = static_cast<std::uint32_t>(found.nodes.size());
  placed.node_rank = found.node_rank;
  placed.run_id = found.run_id();
  placed.workers = found.gpus;
  if (found.from == origin::allocation) {
    placed.notes.push_back("this is a shell of " + found.name() + " on " + found.nodes.front() +
                           "; this is not a job step: workers run on this host; srun ddprun ... "
                           "runs them there");
  }
  if (placed.nodes > 1) {
    placed.meeting_host = found.first_address.empty() ? found.nodes.front() : found.first_address;
    std::vector<std::uint16_t> ports = meeting_ports(found.job, found.number);
    placed.meeting_port = ports.front();
    placed.more_meeting_ports.assign(ports.begin() + 1, ports.end());
  }
  note_of_cpus(found, placed);
  return placed;
}

hosts::placement_outcome find(const environment_map& environment) {
  if (!find_variable(environment, "SLURM_JOB_ID")) return {};
  auto found = read_step(environment, step_daemon_title(environment));
  if (!found) return found.error();
  if (!*found) return {};
  step& here = **found;
  here.is_shell = is_shell_of_srun(environment);
  if (has_several_tasks(here)) return said_once_on_node(here, several_tasks(here));
  const bool meets = here.nodes.size() > 1 && here.from == origin::step;
  if (meets && here.first_address.empty())
    here.first_address = node_address(here.nodes.front(), environment);
  return place(here);
}

std::vector<std::string> contradictions(const step& found, const launch_options& options) {
  std::vector<std::string> notes;
  if (found.from != origin::step) return notes;
  const std::uint32_t nodes = static_cast<std::uint32_t>(found.nodes.size());
  const bool is_first = found.node_rank == 0;
  const std::string has = found.name() + " has " + counted(nodes, "node");
  if (is_first && nodes > 1 && options.settings.nodes_max == 1) {
    notes.push_back(has + ", and each of them trains for itself, as --nnodes or --standalone says");
  } else if (is_first && nodes > options.settings.nodes_max + options.settings.spares_max) {
    notes.push_back(has + ", and --nnodes says " + std::to_string(options.settings.nodes_max) +
                    ": the others wait");
  }
  if (options.node_rank && nodes > 1 && *options.node_rank != found.node_rank) {
    notes.push_back("--node-rank says " + std::to_string(*options.node_rank) +
                    ", and this is node " + std::to_string(found.node_rank) + " of " +
                    found.name() +
                    "; if the shell of the batch script has expanded a variable of srun's, "
                    "leave the option out");
  }
  const bool is_number = options.workers.kind == worker_count_kind::number;
  if (found.gpus && is_number && options.workers.number > *found.gpus) {
    notes.push_back(counted(options.workers.number, "worker") + " are asked for, and " +
                    found.name() + " has given this node " + counted(*found.gpus, "GPU"));
  }
  return notes;
}

std::vector<std::string> contradictions_here(const environment_map& environment,
                                             const launch_options& options,
                                             const std::string& placed_by) {
  if (!find_variable(environment, "SLURM_JOB_ID")) return {};
  const auto found = read_step(environment, step_daemon_title(environment));
  if (!found || !*found) return {};
  if (!placed_by.empty() && placed_by != (*found)->name()) return {};
  return contradictions(**found, options);
}

}  // namespace ddprun::launcher::slurm
