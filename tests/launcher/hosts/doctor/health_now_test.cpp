// The reasons to keep a node out of the next round that can be found without running a command.
#include "launcher/hosts/doctor/health_now.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/node_of_files.hpp"
#include "tests/support/temporary_folder.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

using namespace ddprun::launcher;
using namespace ddprun::launcher::doctor;

namespace {

constexpr pid_t agent_process = 4700;
constexpr const char* killed = "0000000000000100";
constexpr const char* not_killed = "0000000000000000";

// A node with two GPUs, and a program in the place of nvidia-smi, which is found by this process's
// PATH.
struct node_with_gpus {
  node_with_gpus() {
    files.write("proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27");
    std::filesystem::create_directories(files.root() / "dev/shm");
    for (const char* const device : {"nvidiactl", "nvidia0", "nvidia1"})
      files.write(std::string("dev/") + device, "");
    ::setenv("PATH", (programs.path + ":" + path).c_str(), 1);
  }
  ~node_with_gpus() { ::setenv("PATH", path.c_str(), 1); }

  void put_nvidia_smi(const std::string& commands) const {
    programs.file("nvidia-smi", "#!/bin/sh\necho \"$@\" >>" + asked + "\n" + commands + "\n", 0755);
  }
  // In the place of the process that asks NVML.
  void put_nvml(const std::string& commands) const {
    programs.file("ddprun", "#!/bin/sh\ntest \"$*\" = --ddprun-asks-nvml || exit\n" + commands,
                  0755);
  }
  // What it prints where it is asked for that.
  void put_answers(const std::string& recovery, const std::string& errors,
                   const std::string& remapped) const {
    const std::string folder = programs.path + "/";
    put_nvidia_smi("case \"$*\" in\n*gpu_recovery_action*) cat " +
                   programs.file("recovery", recovery, 0600) + ";;\n*ecc.errors*) cat " +
                   programs.file("errors", errors, 0600) + ";;\n*remapped_rows*) cat " +
                   programs.file("remapped", remapped, 0600) + ";;\n*) exit 2;;\nesac");
  }
  void put_process(pid_t number, pid_t parent, const std::string& name, const char* signals,
                   bool has_gpu = true, const char* state = "R (running)") const {
    const std::string folder = "proc/" + std::to_string(number);
    files.write(folder + "/comm", name);
    files.write(folder + "/status", "Name:\t" + name + "\nState:\t" + state + "\nPPid:\t" +
                                        std::to_string(parent) +
                                        "\nSigPnd:\t0000000000000000\nShdPnd:\t" + signals + "\n");
    std::filesystem::create_directories(files.root() / folder / "fd");
    if (has_gpu) std::filesystem::create_symlink("/dev/nvidia0", files.root() / folder / "fd/7");
  }

  node_look look(const ddprun::environment_map& environment = {}) const {
    return health_now(files.root(), environment, agent_process, {nvml, limit});
  }

  ddprun::tests::node_of_files files;
  ddprun::tests::temporary_folder programs;
  std::string asked = programs.path + "/asked";
  std::string path = std::getenv("PATH");
  std::string nvml = programs.path + "/ddprun";  // not there, unless put_nvml() was called
  ddprun::duration limit = std::chrono::seconds(60);
};

}  // namespace

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

TEST_CASE("a GPU that has to be reset makes its node unhealthy") {
  const node_with_gpus node;
  node.put_answers("0, None\n1, Reset\n", "0, Yes, 7\n", "00000000:07:00.0, Yes, No\n");
  CHECK(node.look().unhealthy == "GPU 1 needs: Reset (nvidia-smi, gpu_recovery_action)");
  node.put_answers("0, None\n1, None\n", "0, No, 0\n", "00000000:07:00.0, No, No\n");
  CHECK(node.look().unhealthy == "");
}

TEST_CASE("where the driver does not say what its GPUs need, errors of their memory count") {
  const node_with_gpus node;
  const std::string found =
      "GPU 1: uncorrected memory errors since its last reset: 2 (nvidia-smi, "
      "ecc.errors.uncorrected.volatile.total); GPU 00000000:0A:00.0 has to be replaced: "
      "remapped_rows.failure (nvidia-smi)";
  for (const char* const recovery :
       {"0, [N/A]\n1, [N/A]\n", "Field \"gpu_recovery_action\" is not a valid field to query.\n"}) {
    node.put_answers(recovery, "0, No, 0\n1, No, 2\n", "00000000:0A:00.0, No, Yes\n");
    CHECK(node.look().unhealthy == found);
  }
}

TEST_CASE("nvidia-smi that hangs is given up, and says nothing of the GPUs") {
  node_with_gpus node;
  node.limit = std::chrono::milliseconds(200);
  SECTION("at once") {
    node.put_nvidia_smi("exec sleep 1000");
  }
  SECTION("after some words") {
    node.put_nvidia_smi("echo '1, Reset'; exec sleep 1000");
  }
  CHECK(node.look().unhealthy == "");
  // Each further question would take as long.
  CHECK(ddprun::tests::content_of(node.asked) ==
        "--query-gpu=index,gpu_recovery_action --format=csv,noheader\n");
}

TEST_CASE("NVIDIA's library is asked first, and nvidia-smi where that does not answer") {
  const node_with_gpus node;
  node.put_answers("0, None\n1, Reset\n", "", "");
  node.put_nvml(
      "echo 'recovery 0, None'; echo 'errors 0, No, 7'; echo 'remapped 0:07:00.0, No, Yes'");
  CHECK(node.look().unhealthy == "GPU 0:07:00.0 has to be replaced: remapped_rows.failure (NVML)");
  CHECK_FALSE(std::filesystem::exists(node.asked));
  node.put_nvml("echo 'recovery 0, [N/A]'; echo 'recovery 1, Reset'; echo 'errors 0, Yes, 2'");
  CHECK(node.look().unhealthy == "GPU 1 needs: Reset (NVML, gpu_recovery_action)");
  node.put_nvml("echo 'recovery 0, [N/A]'; echo 'errors 0, Yes, 2'");
  CHECK(node.look().unhealthy ==
        "GPU 0 needs a reset: retired_pages.pending (NVML); GPU 0: uncorrected memory errors since "
        "its last reset: 2 (NVML, ecc.errors.uncorrected.volatile.total)");
  CHECK_FALSE(std::filesystem::exists(node.asked));
  node.put_nvml("exit 0");
  CHECK(node.look().unhealthy == "GPU 1 needs: Reset (nvidia-smi, gpu_recovery_action)");
}

TEST_CASE("where NVIDIA's library hangs nvidia-smi is not asked, which would hang, too") {
  node_with_gpus node;
  node.put_answers("0, Reset\n", "", "");
  node.put_nvml("exec sleep 1000");
  node.limit = std::chrono::milliseconds(200);
  CHECK(node.look().unhealthy == "");
  CHECK_FALSE(std::filesystem::exists(node.asked));
}

TEST_CASE("what is no answer of nvidia-smi keeps no node out") {
  const node_with_gpus node;
  SECTION("a driver that does not answer it") {
    node.put_nvidia_smi(
        "echo 'NVIDIA-SMI has failed because it could not communicate with the "
        "NVIDIA driver.'; exit 9");
  }
  SECTION("bytes without end") {
    node.put_nvidia_smi("exec cat /dev/urandom");
  }
  SECTION("words without end") {
    node.put_nvidia_smi("exec yes '0, , , Reset'");
  }
  SECTION("nothing") {
    node.put_nvidia_smi("exit 0");
  }
  SECTION("it is not there") {
    ::setenv("PATH", node.programs.path.c_str(), 1);
  }
  CHECK(node.look().unhealthy == "");
}

TEST_CASE("without NVIDIA's driver no program is asked") {
  const node_with_gpus node;
  node.put_answers("0, Reset\n", "", "");
  std::filesystem::remove(node.files.root() / "proc/driver/nvidia/version");
  CHECK(node.look().unhealthy == "");
  CHECK_FALSE(std::filesystem::exists(node.asked));
}

TEST_CASE("a process outside this job that has a GPU open is warned of") {
  const node_with_gpus node;
  node.put_nvidia_smi("exit 0");
  CHECK(node.look().warning.empty());
  node.put_process(4701, agent_process, "python3", not_killed);  // a worker
  node.put_process(4702, 4701, "python3", not_killed);           // what it has started
  node.put_process(1, 0, "systemd", not_killed, false);
  node.put_process(800, 1, "nvidia-persiste", not_killed);
  CHECK(node.look().warning.empty());
  node.put_process(4600, 1, "python3", killed);  // an old job has left it
  const node_look found = node.look();
  CHECK(found.warning.starts_with(
      "processes that are not of this job have GPUs open: 4600 python3 ("));
  CHECK(
      found.warning.ends_with("); their memory is not free for it: end what an old job has left"));
  CHECK(found.unhealthy == "");
  CHECK(node.look({{"CUDA_VISIBLE_DEVICES", "0"}}).warning.empty());  // it may have the other one
}

TEST_CASE("a worker that SIGKILL has not ended yet, and that has a GPU open, is named") {
  const node_with_gpus node;
  node.put_answers("0, None\n", "", "");
  node.put_process(4701, agent_process, "python3", not_killed);
  node.put_process(4702, agent_process, "sh", killed, false);
  CHECK(node.look().dying.empty());
  node.put_process(4703, agent_process, "python3", killed);
  const node_look found = node.look();
  REQUIRE(found.dying.size() == 1);
  CHECK(found.dying[0].process == 4703);
  CHECK(found.dying[0].program == "python3");
  // How long it has been so decides whether that is a fault.
  CHECK(found.unhealthy == "");
  CHECK(found.warning.empty());
}

TEST_CASE("a process that has ended and waits to be reaped has no GPU open") {
  const node_with_gpus node;
  node.put_answers("0, None\n", "", "");
  node.put_process(4703, agent_process, "python3", killed, true, "Z (zombie)");
  node.put_process(4600, 1, "python3", killed, true, "X (dead)");  // of another job
  const node_look found = node.look();
  CHECK(found.dying.empty());
  CHECK(found.warning.empty());
}
