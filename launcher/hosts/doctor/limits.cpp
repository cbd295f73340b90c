#include "launcher/hosts/doctor/limits.hpp"

#include "launcher/base/begun_task.hpp"
#include "launcher/base/cgroup_folders.hpp"
#include "launcher/base/memory_gauge.hpp"
#include "launcher/base/node_files.hpp"
#include "launcher/base/size_text.hpp"
#include "launcher/cli/processor_count.hpp"
#include "launcher/node/numa_topology.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

namespace ddprun::launcher::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t mib = 1024 * 1024;
constexpr std::uint64_t gib = 1024 * mib;
// Eight workers with a few DataLoader processes each use some hundred pipes, files and sockets.
constexpr std::uint64_t open_files_enough = 4096;
constexpr std::uint64_t processes_enough = 1000;
constexpr std::uint64_t memory_enough = gib;  // PyTorch takes 0.4 GiB per worker once imported
constexpr std::uint64_t shared_memory_enough = gib;  // containers have 64 MiB unless configured
constexpr std::uint64_t disk_enough = gib;

std::optional<std::uint64_t> hard_limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return std::nullopt;
  if (limit.rlim_max == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_max;
}

folder_room look_into(const std::string& folder) {
  folder_room room{folder, {}, false, 0, 0};
  struct statvfs found {};
  if (statvfs(folder.c_str(), &found) != 0 || access(folder.c_str(), W_OK | X_OK) != 0) {
    room.problem = std::strerror(errno);
    return room;
  }
  room.size = std::uint64_t{found.f_blocks} * found.f_frsize;
  room.free = std::uint64_t{found.f_bavail} * found.f_frsize;
  return room;
}

folder_room room_in(const std::string& folder, duration limit) {
  if (limit == duration::zero()) return look_into(folder);
  const auto room = within(limit, [folder] { return look_into(folder); });
  if (room) return *room;
  return {folder, "no answer from its file system in " + ddprun::to_text(limit), true, 0, 0};
}

void keep_least(std::optional<std::uint64_t>& least, std::optional<std::uint64_t> limit,
                std::optional<std::uint64_t> used) {
  if (!limit || !used) return;
  const std::uint64_t left = *limit - std::min(*limit, *used);
  least = std::min(least.value_or(left), left);
}

bool is_clock_set() {
  timex state{};
  const int answer = adjtimex(&state);
  return answer >= 0 && answer != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
}

// The state folder, or the part of its path that exists; the whole path if that is unknown.
std::string state_folder(const environment_map& environment, duration limit) {
  std::string wanted = variable_or_empty(environment, "XDG_STATE_HOME");
  if (wanted.empty()) wanted = variable_or_empty(environment, "HOME");
  if (wanted.empty()) wanted = "/";
  const auto look = [wanted] {
    fs::path path = wanted;
    std::error_code error;
    while (path != path.parent_path() && !fs::exists(path, error))
      path = path.parent_path();
    return path.string();
  };
  return limit == duration::zero() ? look() : within(limit, look).value_or(wanted);
}

finding judge_open_files(const limit_facts& facts) {
  if (!facts.open_files) return {"open files", health::ok, "no limit", {}};
  const bool is_enough = *facts.open_files >= open_files_enough;
  return {"open files", is_enough ? health::ok : health::warning,
          fmt::format("at most {} a process", *facts.open_files),
          is_enough ? ""
                    : fmt::format("raise it to {} (ulimit -Hn, LimitNOFILE=, --ulimit nofile)",
                                  open_files_enough)};
}

void judge_locked_memory(const limit_facts& facts, findings& found) {
  if (!facts.has_infiniband) return;  // nothing else that NCCL uses locks much memory
  const bool is_limited = facts.locked_memory.has_value();
  found.push_back({"locked memory", is_limited ? health::error : health::ok,
                   is_limited ? "at most " + size_text(*facts.locked_memory) : "no limit",
                   is_limited ? "NCCL registers its buffers with the InfiniBand card: set it to "
                                "unlimited (ulimit -l, LimitMEMLOCK=, --ulimit memlock=-1)"
                              : ""});
}

void judge_processes(const limit_facts& facts, findings& found) {
  if (!facts.processes_left) return;
  const bool is_enough = *facts.processes_left >= processes_enough;
  found.push_back(
      {"processes", is_enough ? health::ok : health::warning,
       fmt::format("{} more are allowed in this cgroup", *facts.processes_left),
       is_enough ? "" : "threads count, too: raise pids.max (--pids-limit, TasksMax=)"});
}

finding judge_memory(const limit_facts& facts) {
  if (!facts.memory_left) return {"memory", health::ok, "what is left is not known", {}};
  const bool is_enough = *facts.memory_left >= memory_enough;
  return {"memory", is_enough ? health::ok : health::warning,
          size_text(*facts.memory_left) + " left",
          is_enough ? ""
                    : "a worker takes 0.4 GiB once it has imported PyTorch: end what else "
                      "runs here, or raise the limit of the container"};
}

finding judge_shared_memory(const folder_room& room) {
  finding found{"shared memory", health::ok, {}, {}};
  if (!room.problem.empty()) {
    found.state = health::error;
    found.seen = room.folder + ": " + room.problem;
    found.advice = "PyTorch's DataLoader and NCCL exchange data there: mount a tmpfs";
    return found;
  }
  found.seen = fmt::format("{} free of {}", size_text(room.free), size_text(room.size));
  if (room.free >= shared_memory_enough) return found;
  found.state = room.free < 16 * mib ? health::error : health::warning;
  found.advice = room.size < shared_memory_enough
                     ? "a DataLoader with workers dies of a bus error when it is full: start the "
                       "container with --shm-size=8g (Kubernetes: an emptyDir of medium Memory)"
                     : "it is nearly full: remove what ended jobs left in " + room.folder;
  return found;
}

finding judge_room(const folder_room& room) {
  finding found{"disk", health::ok, room.folder + ": ", {}};
  if (!room.problem.empty()) {
    found.state = health::error;
    found.seen += room.problem;
    found.advice = room.is_silent
                       ? "is its file server up? or choose another with TMPDIR or XDG_STATE_HOME"
                       : "make it writable, or choose another with TMPDIR or XDG_STATE_HOME";
    return found;
  }
  found.seen += size_text(room.free) + " free";
  if (room.free >= disk_enough) return found;
  found.state = room.free < mib ? health::error : health::warning;
  found.advice = "make room: logs, snapshots and ddprun's own state are written there";
  return found;
}

finding judge_processors(const limit_facts& facts) {
  if (!facts.processor_limit || *facts.processor_limit >= facts.processors)
    return {"processors", health::ok, fmt::format("{} may be used", facts.processors), {}};
  return {"processors", health::warning,
          fmt::format("{} may be used, for the time of {}, which --nproc-per-node=cpu counts",
                      facts.processors, *facts.processor_limit),
          fmt::format("the cgroup's quota stalls what has more threads: set OMP_NUM_THREADS so "
                      "that all workers together have {}",
                      *facts.processor_limit)};
}

finding judge_clock(bool is_set) {
  if (is_set) return {"clock", health::ok, "synchronised", {}};
  return {"clock", health::warning, "not synchronised, as far as the kernel knows",
          "ddprun does not need it, but time stamps of several nodes cannot be compared: run "
          "chrony or systemd-timesyncd"};
}

}  // namespace

limit_facts read_limits(const fs::path& root, const environment_map& environment,
                        duration folder_limit) {
  limit_facts facts;
  facts.open_files = hard_limit(RLIMIT_NOFILE);
  facts.locked_memory = hard_limit(RLIMIT_MEMLOCK);
  facts.has_infiniband = !names_in(root / "sys/class/infiniband").empty();
  for (const memory_level& level : memory_gauge(root.string()).read())
    facts.memory_left = std::min(facts.memory_left.value_or(level.left), level.left);
  for (const char* const controller : {"", "pids"}) {
    for (const fs::path group : own_cgroup_folders(root.string(), controller))
      keep_least(facts.processes_left, number_in(group / "pids.max"),
                 number_in(group / "pids.current"));
  }
  facts.processor_limit = limited_cpus(root.string() + "/");
  facts.processors =
      static_cast<std::uint32_t>(std::max<std::size_t>(1, allowed_processors().size()));
  facts.shared_memory = room_in((root / "dev/shm").string(), folder_limit);
  facts.folders = {room_in(folder_for_temporaries(environment), folder_limit),
                   room_in(state_folder(environment, folder_limit), folder_limit)};
  if (facts.folders[0].folder == facts.folders[1].folder) facts.folders.pop_back();
  facts.is_clock_set = is_clock_set();
  return facts;
}

findings judge_limits(const limit_facts& facts) {
  findings found = {judge_processors(facts), judge_memory(facts)};
  found.push_back(judge_shared_memory(facts.shared_memory));
  for (const folder_room& room : facts.folders)
    found.push_back(judge_room(room));
  found.push_back(judge_open_files(facts));
  judge_processes(facts, found);
  judge_locked_memory(facts, found);
  found.push_back(judge_clock(facts.is_clock_set));
  return found;
}

}  // namespace ddprun::launcher::doctor
