// Processes that have NVIDIA's GPUs open, as far as /proc shows them: all of them to root, else
// those of the same user.
//
// Thread rule: any thread; reads /proc, and never the memory of a process.
#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

struct gpu_holder {
  pid_t process = 0;
  std::string program;
  std::string user;  // a name, or a number
};

// `root`: "/", or where a test has its /proc. Zombies hold nothing.
std::vector<gpu_holder> find_gpu_holders(const std::filesystem::path& root);

// Programs of the system that have every GPU open and use nothing of it (nvidia-persistenced, DCGM,
// exporters).
bool is_gpu_service(const gpu_holder& one);

// Whether it was started by `ancestor`, or by what that has started.
bool descends_from(const std::filesystem::path& root, pid_t process, pid_t ancestor);

// SIGKILL was sent to it, and it has not died of it yet.
bool is_being_killed(const std::filesystem::path& root, pid_t process);

// "4711 python (alice), 4712 python (alice) and 3 more".
std::string holders_text(const std::vector<gpu_holder>& holders);

}  // namespace ddprun::launcher
