#include "launcher/hosts/doctor/start_check.hpp"

#include "tests/launcher/hosts/doctor/doctor_support.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <sys/stat.h>

using namespace ddprun::launcher::doctor;
using namespace ddprun::tests::doctor;
using namespace std::chrono_literals;

TEST_CASE("the driver's version, as the kernel module says it") {
  CHECK(
      driver_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 UTC 2023") ==
      "535.54.03");
  CHECK(driver_in("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release "
                  "Build") == "580.65.06");
  CHECK(driver_in("").empty());
  CHECK(driver_in("something else").empty());
}

TEST_CASE("a driver that is older than PyTorch's CUDA") {
  CHECK(
      line_of(judge_driver("535.54.03", "2.15.0+cu132"), "driver") ==
      "warning: PyTorch 2.15.0+cu132 needs NVIDIA's driver 580 or newer, and 535.54.03 is loaded: "
      "install that, or a PyTorch that is built for an older CUDA");
  CHECK(judge_driver("580.65.06", "2.15.0+cu132").empty());
  CHECK(judge_driver("535.54.03", "2.15.0+cu128").empty());
  CHECK(judge_driver("470.1", "2.15.0+cu128").size() == 1);
  CHECK(judge_driver("535.54.03", "2.15.0+cpu").empty());
  CHECK(judge_driver("535.54.03", "2.15.0+cu999").empty());
  CHECK(judge_driver("", "2.15.0+cu132").empty());
}

TEST_CASE("PyTorch beside a Python, by its files") {
  const fake_node node;
  node.write("venv/lib/python3.11/site-packages/torch/version.py",
             "from typing import Optional\n__version__ = '2.15.0+cu132'\ndebug = False");
  CHECK(torch_beside(node.root() / "venv/bin/python") == "2.15.0+cu132");
  CHECK(torch_beside(node.root() / "elsewhere/bin/python").empty());
}

TEST_CASE("what is wrong with a node at the start of a job") {
  const fake_node node;
  node.write("proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 UTC 2021");
  node.write("venv/bin/python", "#!/bin/sh");
  chmod((node.root() / "venv/bin/python").c_str(), 0755);
  node.write("venv/lib/python3.11/site-packages/torch/version.py", "__version__ = '2.15.0+cu132'");
  const ddprun::environment_map environment = {
      {"GLOO_SOCKET_IFNAME", "eth99"}, {"PYTHON_EXEC", (node.root() / "venv/bin/python").string()}};
  const findings found = check_start(node.root(), environment);
  CHECK(line_of(found, "GLOO_SOCKET_IFNAME")
            .starts_with("error: eth99 is not an interface with an address on this host: "));
  CHECK(line_of(found, "driver").starts_with("warning: PyTorch 2.15.0+cu132 needs "));
  CHECK(line_of(found, "shared memory").starts_with("error: "));  // this node has no /dev/shm
  CHECK(line_of(found, "clock") == "nothing");
  CHECK(line_of(found, "disk") == "nothing");  // folders that are not there cannot be written to
  CHECK(line_of(found, "host name") == "nothing");
  const auto lines = *start_look(60s, node.root(), environment).take(true);
  REQUIRE(lines.size() == found.size());
  CHECK(lines[0].starts_with("GLOO_SOCKET_IFNAME: eth99 is not an interface "));
}

TEST_CASE("a file that hangs delays nothing") {
  const fake_node node;
  node.write("proc/driver/nvidia/x", "");
  const std::string pipe = (node.root() / "proc/driver/nvidia/version").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  start_look look(1ms, node.root(), {});
  CHECK(look.take(true)->empty());
  CHECK(look.take(true)->empty());
  node.write("proc/driver/nvidia/version", "");  // lets the reader go
}
