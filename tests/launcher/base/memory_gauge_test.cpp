// How much memory is left, according to the files of a node.
#include "launcher/base/memory_gauge.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/node_of_files.hpp"

#include <unistd.h>

using namespace ddprun::launcher;
using namespace ddprun::tests;

namespace {

constexpr std::uint64_t mib = 1024 * 1024;

const std::string version_two =
    "35 23 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw";

}  // namespace

TEST_CASE("the machine says what is left of its memory, and how long processes waited for it") {
  const node_of_files node;
  node.write("proc/meminfo", "MemTotal:  4096 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB");
  node.write("proc/pressure/memory",
             "some avg10=50.00 avg60=1.00 avg300=0.10 total=9\n"
             "full avg10=12.50 avg60=1.00 avg300=0.10 total=5");
  const auto levels = memory_gauge(node.root()).read();
  REQUIRE(levels.size() == 1);
  CHECK(levels[0].where == "this machine");
  CHECK(levels[0].left == 2 * mib);
  CHECK(levels[0].most == 4 * mib);
  CHECK(levels[0].stalled_percent == 12.5);
}

TEST_CASE("each cgroup with a limit is told, without what is cached of files") {
  const node_of_files node;
  node.write("proc/self/mountinfo", version_two);
  node.write("proc/self/cgroup", "0::/pod/container");
  node.write("sys/fs/cgroup/pod/memory.max", "max");
  node.write("sys/fs/cgroup/pod/memory.high", "max");
  node.write("sys/fs/cgroup/pod/memory.current", "5");
  node.write("sys/fs/cgroup/pod/container/memory.max", std::to_string(2000 * mib));
  node.write("sys/fs/cgroup/pod/container/memory.high", std::to_string(1000 * mib));
  node.write("sys/fs/cgroup/pod/container/memory.current", std::to_string(990 * mib));
  node.write("sys/fs/cgroup/pod/container/memory.stat",
             "anon 5\ninactive_file " + std::to_string(100 * mib) + "\nactive_file " +
                 std::to_string(200 * mib) + "\n");
  node.write("sys/fs/cgroup/pod/container/memory.pressure", "full avg10=1.00 avg60=0.00");
  const auto levels = memory_gauge(node.root()).read();
  REQUIRE(levels.size() == 1);
  CHECK(levels[0].where == "cgroup /sys/fs/cgroup/pod/container");
  CHECK(levels[0].left == 310 * mib);  // from where on the kernel slows them down
  CHECK(levels[0].most == 1000 * mib);
  CHECK(levels[0].stalled_percent == 1);
}

TEST_CASE("a cgroup that holds more than its limit has nothing left") {
  const node_of_files node;
  node.write("proc/self/mountinfo", version_two);
  node.write("proc/self/cgroup", "0::/");
  node.write("sys/fs/cgroup/memory.max", "1000");
  node.write("sys/fs/cgroup/memory.current", "1200");
  const auto levels = memory_gauge(node.root()).read();
  REQUIRE(levels.size() == 1);
  CHECK(levels[0].left == 0);
}

TEST_CASE("of version 1 the limits are told that are some, with what lies below them") {
  const node_of_files node;
  node.write("proc/self/mountinfo",
             "37 35 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");
  node.write("proc/self/cgroup", "4:memory:/jobs/7");
  for (const auto& [group, limit] :
       {std::pair{"", "9223372036854771712"}, std::pair{"/jobs/7", "1000000"}}) {
    const std::string folder = std::string("sys/fs/cgroup/memory") + group;
    node.write(folder + "/memory.limit_in_bytes", limit);
    node.write(folder + "/memory.usage_in_bytes", "700000");
    node.write(folder + "/memory.stat",
               "inactive_file 7\ntotal_inactive_file 100000\n"
               "total_active_file 50000");
  }
  const auto levels = memory_gauge(node.root()).read();
  REQUIRE(levels.size() == 1);
  CHECK(levels[0].where == "cgroup /sys/fs/cgroup/memory/jobs/7");
  CHECK(levels[0].left == 450'000);
}

TEST_CASE("where nothing can be read nothing is known") {
  const node_of_files node;
  CHECK(memory_gauge(node.root()).read().empty());
}

TEST_CASE("this machine has a gauge, and this process holds memory of its own") {
  CHECK_FALSE(memory_gauge().read().empty());
  CHECK(anonymous_memory(::getpid()) > 0);
  CHECK(anonymous_memory(-1) == 0);
}
