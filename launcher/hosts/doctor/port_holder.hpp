// Which process of this node listens on a port: what an old job has left there would keep the next
// one out.
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
  std::string program;  // its file's name
};

// Of several that share the socket, one of ddprun's programs where there is one. None: nobody
// listens there, or only processes that this user may not look at.
std::optional<port_holder> find_port_holder(const std::filesystem::path& root, std::uint16_t port);

// Whether it is a program of ddprun's, whatever its version.
bool is_own_program(const port_holder& holder);

}  // namespace ddprun::launcher::doctor
