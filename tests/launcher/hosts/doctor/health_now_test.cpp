// The reasons to keep a node out of the next round that can be found without running a command.
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

TEST_CASE("a driver that says what its GPUs need is told from one that does not") {
  CHECK(says_recovery("0, None\n"));
  CHECK(says_recovery("0, [N/A]\n1, Reset\n"));
  CHECK_FALSE(says_recovery(""));
  CHECK_FALSE(says_recovery("0, [N/A]\n"));
  CHECK_FALSE(says_recovery("Field \"gpu_recovery_action\" is not a valid field to query.\n"));
}

TEST_CASE("memory with errors is named where the driver does not say what a GPU needs") {
  CHECK(
      judge_gpu_memory("0, No, 0\n1, [N/A], [N/A]\n", "00000000:07:00.0, No, No\n", false).empty());
  CHECK(judge_gpu_memory("0, Yes, 0\n1, [N/A], 2\n", "00000000:07:00.0, Yes, No\n", false) ==
        "GPU 0 needs a reset: retired_pages.pending (nvidia-smi); "
        "GPU 1: uncorrected memory errors since its last reset: 2 (nvidia-smi, "
        "ecc.errors.uncorrected.volatile.total); "
        "GPU 00000000:07:00.0 needs a reset: remapped_rows.pending (nvidia-smi)");
  CHECK(judge_gpu_memory("0, Yes, 2\n", "00000000:07:00.0, Yes, No\n", true).empty());
}

TEST_CASE("a GPU that cannot remap its memory any more is named by whichever driver") {
  for (const bool knows_recovery : {false, true}) {
    CHECK(judge_gpu_memory("", "00000000:07:00.0, No, No\n00000000:0A:00.0, Yes, Yes\n",
                           knows_recovery) ==
          "GPU 00000000:0A:00.0 has to be replaced: remapped_rows.failure (nvidia-smi)");
  }
}

TEST_CASE("what is no answer says nothing of a GPU's memory") {
  for (const char* const text : {"No devices were found\n", "0\n", "a, b, c\n", ", , \n", "\n,,\n",
                                 "Field \"retired_pages.pending\" is not a valid field to query.\n",
                                 "0, No, 18446744073709551616\n", "-1, Yes, 3\n"}) {
    CAPTURE(text);
    CHECK(judge_gpu_memory(text, text, false).empty());
  }
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
