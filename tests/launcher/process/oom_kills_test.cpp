#include "launcher/process/oom_kills.hpp"

#include "launcher/base/cgroup_folders.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <fstream>
#include <sstream>

using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

constexpr recent_oom_kills::clock::time_point oom_start{1h};
constexpr pid_t killed_process = 4711;

struct oom_counters {
  ddprun::tests::temporary_folder folder;
  std::string own = folder.path + "/memory.events";
  std::string host = folder.path + "/vmstat";

  static void write(const std::string& file, int kills) {
    std::ofstream(file) << "low 0\noom 9\noom_kill " << kills << "\noom_group_kill 0\n";
  }
};

}  // namespace

TEST_CASE("only what the kernel has killed within the last seconds counts") {
  recent_oom_kills recent;
  CHECK_FALSE(recent.is_any(9));
  CHECK(recent.is_due(oom_start));
  recent.notice(oom_start, 5);
  CHECK_FALSE(recent.is_due(oom_start + 500ms));
  CHECK_FALSE(recent.is_any(5));
  CHECK(recent.is_any(6));
  // Read just before the worker's end was noticed.
  recent.notice(oom_start + 1s, 6);
  CHECK(recent.is_any(6));
  recent.notice(oom_start + 2s, 6);
  CHECK_FALSE(recent.is_any(6));
  CHECK_FALSE(recent.is_any(std::nullopt));
}

TEST_CASE("a kill that is discounted says nothing of a worker, the next one does") {
  recent_oom_kills recent;
  recent.discount(5);  // nothing is known yet
  recent.notice(oom_start, 5);
  SECTION("it comes while another program has ended that process") {
    recent.discount(5);
    CHECK(recent.is_any(6));
  }
  SECTION("it was not noticed before") {
    recent.discount(6);
    CHECK_FALSE(recent.is_any(6));
    recent.notice(oom_start + 1s, 6);
    CHECK_FALSE(recent.is_any(6));
    CHECK(recent.is_any(7));
  }
  SECTION("it was noticed before") {
    recent.notice(oom_start + 1s, 6);
    recent.discount(6);
    CHECK_FALSE(recent.is_any(6));
    recent.notice(oom_start + 2s, 6);
    CHECK_FALSE(recent.is_any(6));
    CHECK(recent.is_any(7));
  }
  SECTION("a worker's comes with it") {
    recent.discount(7);
    CHECK(recent.is_any(7));
  }
}

TEST_CASE("the job's own count decides, whatever else of the host was ended") {
  oom_counters files;
  oom_counters::write(files.own, 3);
  oom_counters::write(files.host, 7);
  oom_watch watch({files.own}, files.host);
  watch.notice(oom_start);
  CHECK(watch.reason(killed_process).empty());
  oom_counters::write(files.host, 8);
  CHECK(watch.reason(killed_process).empty());
  oom_counters::write(files.own, 4);
  CHECK(watch.reason(killed_process) ==
        "out of memory: the kernel has just killed a process of this job");
  // An hour later it says nothing about a kill by hand.
  for (const auto later : {1h, 2h})
    watch.notice(oom_start + later);
  CHECK(watch.reason(killed_process).empty());
}

TEST_CASE("the kill of a process that is no worker is not a worker's") {
  oom_counters files;
  oom_counters::write(files.own, 3);
  oom_counters::write(files.host, 7);
  oom_watch watch({files.own}, files.host);
  watch.notice(oom_start);
  oom_counters::write(files.own, 4);
  oom_counters::write(files.host, 8);
  watch.discount();
  CHECK(watch.reason(killed_process).empty());
  oom_counters::write(files.own, 5);
  CHECK(watch.reason(killed_process).starts_with(out_of_memory));
}

TEST_CASE("the cgroup of the workers counts beside our own") {
  oom_counters files;
  oom_counters::write(files.host, 7);
  oom_watch watch({files.folder.path + "/none"}, files.host);
  watch.workers_cgroup(files.folder.path);
  oom_counters::write(files.own, 0);
  watch.notice(oom_start);
  CHECK(watch.reason(killed_process).empty());
  oom_counters::write(files.own, 1);
  CHECK(watch.reason(killed_process).starts_with(out_of_memory));
}

TEST_CASE("the host's count is taken where nothing is known of the job's own") {
  oom_counters files;
  oom_counters::write(files.host, 7);
  oom_watch watch({}, files.host);
  watch.notice(oom_start);
  CHECK(watch.reason(killed_process).empty());
  oom_counters::write(files.host, 8);
  const bool knows_better = oom_log().is_readable();
  CHECK(watch.reason(killed_process).empty() == knows_better);
}

TEST_CASE("a line of the kernel's log names the process that was ended") {
  CHECK(oom_killed_process("Memory cgroup out of memory: Killed process 4711 (python) "
                           "total-vm:123kB") == 4711);
  CHECK(oom_killed_process("Out of memory: Killed process 17 (a b) anon-rss:1kB") == 17);
  CHECK_FALSE(oom_killed_process("Out of memory and no killable processes..."));
  CHECK_FALSE(oom_killed_process("Killed process 17"));
  CHECK_FALSE(oom_killed_process("out of memory: killed process x"));
  CHECK_FALSE(oom_killed_process(""));
}

TEST_CASE("the kernel's log is asked for a process that it has ended since the agent's start") {
  const ddprun::tests::temporary_folder folder;
  const std::string file = folder.path + "/kmsg";
  std::ofstream written(file);
  const auto say_killed = [&written](pid_t process) {
    written << "3,1,2,-;Memory cgroup out of memory: Killed process " << process << " (a)\n"
            << std::flush;
  };
  say_killed(killed_process);
  oom_log log(file, true);
  oom_log of_others(file, false);
  CHECK(log.is_readable());
  CHECK_FALSE(log.names(killed_process));
  say_killed(17);
  say_killed(killed_process);
  CHECK(log.names(killed_process));
  CHECK_FALSE(log.names(killed_process));  // the number may be another process's by now
  CHECK(log.names(17));
  CHECK_FALSE(of_others.is_readable());
  CHECK_FALSE(of_others.names(killed_process));
}

TEST_CASE("our memory cgroup of version 1 is found by its controller") {
  const std::string mounts =
      "30 25 0:26 / /sys/fs/cgroup/cpu rw,nosuid shared:9 - cgroup cgroup rw,cpu\n"
      "31 25 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:10 - cgroup cgroup rw,memory\n"
      "32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  const auto found = [&](const std::string& own, const std::string& of) {
    std::istringstream cgroups(own), table(of);
    return own_cgroup_folder(cgroups, table, "memory");
  };
  CHECK(found("9:name=systemd:/x\n4:memory:/jobs/7\n0::/\n", mounts) ==
        "/sys/fs/cgroup/memory/jobs/7");
  CHECK(found("4:cpu,memory:/jobs/7\n", mounts) == "/sys/fs/cgroup/memory/jobs/7");
  CHECK_FALSE(found("4:memoryless:/jobs/7\n0::/\n", mounts));
  CHECK_FALSE(found("0::/jobs/7\n", mounts));
  CHECK_FALSE(found("4:memory:/jobs/7\n", "31 25 0:27 / /x rw - cgroup2 cgroup2 rw\n"));
  // A container sees its own part of the tree as the root.
  CHECK(found("4:memory:/docker/ab\n",
              "31 25 0:27 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n") ==
        "/sys/fs/cgroup/memory");
}
