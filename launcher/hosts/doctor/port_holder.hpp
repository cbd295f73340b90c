// Finds the process of this node that listens on a port: one left over from an old job would keep
// the next one out.
//
// Thread rule: any thread. It reads all of /proc, which takes milliseconds on a busy host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>

namespace ddprun::launcher::doctor {

struct port_holder {
  pid_t pid = -1;
  std::string program;  // name of its file
};

// If several processes share the socket, prefers a ddprun program. Empty: nobody listens there, or
// only processes that this user may not inspect.
std::optional<port_holder> find_port_holder(const std::filesystem::path& root, std::uint16_t port);

// True if it is a ddprun program of any version.
bool is_own_program(const port_holder& holder);

}  // namespace ddprun::launcher::doctor
