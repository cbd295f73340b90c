#include "launcher/hosts/doctor/limits.hpp"

#include "tests/launcher/hosts/doctor/doctor_support.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun::launcher::doctor;
using namespace ddprun::tests::doctor;

namespace {

constexpr std::uint64_t mib = 1024 * 1024;
constexpr std::uint64_t gib = 1024 * mib;

limit_facts roomy() {
  limit_facts facts;
  facts.open_files = 1'048'576;
  facts.memory_left = 100 * gib;
  facts.processors = 8;
  facts.shared_memory = {"/dev/shm", {}, false, 64 * gib, 64 * gib};
  facts.folders = {{"/tmp", {}, false, 100 * gib, 50 * gib}};
  return facts;
}

}  // namespace

TEST_CASE("a roomy node has nothing to be warned of") {
  for (const finding& each : judge_limits(roomy())) {
    INFO(each.check);
    CHECK(each.state == health::ok);
    CHECK(each.advice.empty());
  }
}

TEST_CASE("a container's shared memory of the default size") {
  limit_facts facts = roomy();
  facts.shared_memory = {"/dev/shm", {}, false, 64 * mib, 64 * mib};
  CHECK(line_of(judge_limits(facts), "shared memory")
            .starts_with(
                "warning: 64 MiB free of 64 MiB: a DataLoader with workers dies of a bus error"));
  facts.shared_memory.free = 2 * mib;
  CHECK(line_of(judge_limits(facts), "shared memory").starts_with("error: 2 MiB free of 64 MiB"));
}

TEST_CASE("shared memory that is full of what jobs have left") {
  limit_facts facts = roomy();
  facts.shared_memory.free = 0;
  CHECK(
      line_of(judge_limits(facts), "shared memory") ==
      "error: 0 KiB free of 64.0 GiB: it is nearly full: remove what ended jobs left in /dev/shm");
}

TEST_CASE("a folder that cannot be written, and one that is full") {
  limit_facts facts = roomy();
  facts.folders = {{"/scratch", "Read-only file system", false, 0, 0}};
  CHECK(line_of(judge_limits(facts), "disk").starts_with("error: /scratch: Read-only file system"));
  facts.folders = {{"/scratch", {}, false, 100 * gib, 3 * mib}};
  CHECK(line_of(judge_limits(facts), "disk").starts_with("warning: /scratch: 3 MiB free"));
}

TEST_CASE("locked memory counts where there is InfiniBand only") {
  limit_facts facts = roomy();
  facts.locked_memory = 8 * mib;
  CHECK(line_of(judge_limits(facts), "locked memory") == "nothing");
  facts.has_infiniband = true;
  CHECK(line_of(judge_limits(facts), "locked memory").starts_with("error: at most 8 MiB"));
  facts.locked_memory.reset();
  CHECK(line_of(judge_limits(facts), "locked memory") == "ok: no limit");
}

TEST_CASE("a quota below the processors is the number of threads to have") {
  limit_facts facts = roomy();
  facts.processor_limit = 3;
  const std::string line = line_of(judge_limits(facts), "processors");
  CHECK(line.starts_with("warning: 8 may be used, for the time of 3, which --nproc-per-node=cpu"));
  CHECK(line.ends_with("all workers together have 3"));
  facts.processor_limit = 8;
  CHECK(line_of(judge_limits(facts), "processors") == "ok: 8 may be used");
}

TEST_CASE("few open files, few processes, little memory, a clock of its own") {
  limit_facts facts = roomy();
  facts.open_files = 1024;
  facts.processes_left = 12;
  facts.memory_left = 300 * mib;
  facts.is_clock_set = false;
  for (const char* check : {"open files", "processes", "memory", "clock"}) {
    INFO(check);
    CHECK(line_of(judge_limits(facts), check).starts_with("warning: "));
  }
}

TEST_CASE("of a cgroup and those around it, the tightest counts") {
  const fake_node node;
  node.write("proc/self/mountinfo",
             "35 23 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw");
  node.write("proc/self/cgroup", "0::/pod/container");
  node.write("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   104857600 kB\n");
  node.write("sys/fs/cgroup/pod/pids.max", "500");
  node.write("sys/fs/cgroup/pod/pids.current", "480");
  node.write("sys/fs/cgroup/pod/container/pids.max", "max");
  node.write("sys/fs/cgroup/pod/container/pids.current", "40");
  node.write("sys/fs/cgroup/pod/container/memory.max", "2147483648");
  node.write("sys/fs/cgroup/pod/container/memory.current", "1073741824");
  node.write("sys/fs/cgroup/pod/container/memory.stat", "anon 5\ninactive_file 536870912\n");
  node.write("sys/fs/cgroup/pod/container/cpu.max", "250000 100000");
  node.write("sys/fs/cgroup/pod/cpu.max", "max 100000");
  const limit_facts facts = read_limits(node.root(), {});
  CHECK(facts.processes_left == 20);
  CHECK(facts.memory_left == 1536 * mib);
  CHECK(facts.processor_limit == 3U);  // as --nproc-per-node=cpu counts
}

TEST_CASE("cgroups of version 1 have a folder for each kind of limit") {
  const fake_node node;
  node.write("proc/self/mountinfo",
             "36 35 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
             "37 35 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "38 35 0:34 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct");
  node.write("proc/self/cgroup", "8:pids:/jobs/7\n5:cpu,cpuacct:/jobs/7\n4:memory:/jobs/7");
  node.write("proc/meminfo", "MemAvailable:   104857600 kB\n");
  node.write("sys/fs/cgroup/pids/jobs/pids.max", "500");
  node.write("sys/fs/cgroup/pids/jobs/pids.current", "480");
  node.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  node.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824");
  node.write("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "2147483648");
  node.write("sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "1073741824");
  node.write("sys/fs/cgroup/memory/jobs/7/memory.stat",
             "inactive_file 5\n"
             "total_inactive_file 536870912\n");
  node.write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "150000");
  node.write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000");
  const limit_facts facts = read_limits(node.root(), {});
  CHECK(facts.processes_left == 20);
  CHECK(facts.memory_left == 1536 * mib);
  CHECK(facts.processor_limit == 2U);
}

TEST_CASE("without cgroups the node's own memory counts") {
  const fake_node node;
  node.write("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   2048 kB\n");
  const limit_facts facts = read_limits(node.root(), {});
  CHECK(facts.memory_left == 2 * mib);
  CHECK_FALSE(facts.processes_left);
  CHECK_FALSE(facts.processor_limit);
  CHECK(facts.shared_memory.problem == "No such file or directory");
}

TEST_CASE("a folder of the state that is not made yet is judged by the one that it will be in") {
  const fake_node node;
  const std::string home = node.root().string();
  const limit_facts facts =
      read_limits(node.root(), {{"XDG_STATE_HOME", home + "/state/deeper"}, {"TMPDIR", "/tmp"}});
  REQUIRE(facts.folders.size() == 2);
  CHECK(facts.folders[1].folder == home);
  CHECK(facts.folders[1].problem.empty());
}
