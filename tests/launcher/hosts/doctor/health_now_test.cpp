// What keeps a node out of the next round, as it can be seen without asking anybody.
#include "launcher/hosts/doctor/health_now.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher::doctor;

TEST_CASE("a GPU that has to be reset is named with what it needs") {
  CHECK(judge_recovery("0, None\n1, None\n").empty());
  CHECK(judge_recovery("0, None\n3, Reset\n") ==
        "GPU 3 needs: Reset (nvidia-smi, gpu_recovery_action)");
  CHECK(judge_recovery("0, Drain and Reset\r\n1, Reboot\r\n") ==
        "GPU 0 needs: Drain and Reset; GPU 1 needs: Reboot (nvidia-smi, gpu_recovery_action)");
}

TEST_CASE("a driver that does not know what its GPUs need says nothing of them") {
  CHECK(judge_recovery("").empty());
  CHECK(judge_recovery("0, [N/A]\n1, [Not Supported]\n").empty());
  CHECK(judge_recovery("Field \"gpu_recovery_action\" is not a valid field to query.\n").empty());
  CHECK(judge_recovery("a line, with words, and commas\n3\n,\n , Reset\n-1, Reset\n0x3, Reset\n")
            .empty());
}

TEST_CASE("of what the doctor finds a full disk and full shared memory keep a node out") {
  const findings found = {
      {"disk", health::error, "/tmp: 0 free", "remove something"},
      {"disk", health::warning, "/home: 200 MiB free", "remove something"},
      {"shared memory", health::error, "1 MiB free of 64 MiB", "more"},
      {"NCCL_SOCKET_IFNAME", health::error, "eth9 is not an interface here", "unset it"}};
  CHECK(errors_of(found) == "disk: /tmp: 0 free; shared memory: 1 MiB free of 64 MiB");
  CHECK(errors_of({}).empty());
}
