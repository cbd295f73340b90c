// Finds our own cgroup from the system's files about cgroups and mounts.
#include "launcher/base/cgroup_folders.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

std::optional<std::string> folder(const std::string& cgroups, const std::string& mounts) {
  std::istringstream first(cgroups), second(mounts);
  return own_cgroup_folder(first, second);
}

const std::string unified =
    "23 30 0:21 / /sys rw,nosuid - sysfs sysfs rw\n"
    "35 23 0:30 / /sys/fs/cgroup rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw\n";

}  // namespace

TEST_CASE("the folder of our cgroup is found below where version 2 is mounted") {
  CHECK(folder("0::/user.slice/session-3.scope\n", unified) ==
        "/sys/fs/cgroup/user.slice/session-3.scope");
  CHECK(folder("0::/\n", unified) == "/sys/fs/cgroup");
  // Mounted beside version 1.
  CHECK(folder("12:pids:/a\n1:name=systemd:/b\n0::/c\n",
               "36 35 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
               "37 35 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n") ==
        "/sys/fs/cgroup/unified/c");
}

TEST_CASE("a mount of a part of the cgroups counts from that part on") {
  const std::string part = "35 23 0:30 /docker/12ab /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
  CHECK(folder("0::/docker/12ab\n", part) == "/sys/fs/cgroup");
  CHECK(folder("0::/docker/12ab/inner\n", part) == "/sys/fs/cgroup/inner");
  CHECK_FALSE(folder("0::/docker/12abc\n", part));
  CHECK(folder("0::/\n", "35 23 0:30 / /my\\040groups rw - cgroup2 none rw\n") == "/my groups");
}

TEST_CASE("without version 2, or outside our namespace, there is no folder") {
  CHECK_FALSE(folder("4:pids:/a\n", unified));
  CHECK_FALSE(folder("0::/a\n", "36 35 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"));
  CHECK_FALSE(folder("0::/../a\n", unified));
  CHECK_FALSE(folder("", ""));
  CHECK_FALSE(folder("0::/a\n", "35 - cgroup2 \n\n - cgroup2 "));
}

TEST_CASE("the folders round ours are listed from the innermost to the mount") {
  using list = std::vector<std::string>;
  const tests::temporary_folder node;
  const auto write = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories(node.path + "/proc/self");
    std::ofstream(node.path + "/proc/self/" + file) << text;
  };
  const std::string groups = node.path + "/sys/fs/cgroup";
  CHECK(own_cgroup_folders(node.path).empty());
  write("mountinfo", unified);
  CHECK(own_cgroup_folders(node.path).empty());
  write("cgroup", "5:memory:/m\n0::/pod/job\n");
  CHECK(own_cgroup_folders(node.path) == list{groups + "/pod/job", groups + "/pod", groups});
  CHECK(own_cgroup_folders(node.path, "memory").empty());  // that is not mounted
  write("cgroup", "0::/\n");
  CHECK(own_cgroup_folders(node.path) == list{groups});
  // In a container whose cgroup is outside of what it sees, only the mount is left.
  write("cgroup", "0::/../pod\n");
  CHECK(own_cgroup_folders(node.path) == list{groups});
}

TEST_CASE("a controller of version 1 is known by its whole name") {
  const std::string mounts =
      "36 35 0:32 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
      "37 35 0:33 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
  std::istringstream first("4:cpuset:/a\n3:cpu,cpuacct:/b\n"), second(mounts);
  CHECK(own_cgroup_folder(first, second, "cpu") == "/cg/cpu,cpuacct/b");
}
