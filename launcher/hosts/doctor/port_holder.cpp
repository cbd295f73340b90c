#include "launcher/hosts/doctor/port_holder.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/base/text.hpp"

#include <spdlog/fmt/fmt.h>

#include <set>
#include <sstream>

namespace ddprun::launcher::doctor {
namespace {

namespace fs = std::filesystem;

// Sockets as they appear in a process's descriptors: "socket:[4711]".
using socket_names = std::set<std::string>;

// Reads lines such as "0: 0100007F:72D8 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0
// 4711 ...", with port and state (0A: listening) in hexadecimal.
void add_listening(const std::string& table, std::uint16_t port, socket_names& found) {
  const std::string wanted = fmt::format(":{:04X}", port);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, tries, user, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> tries >> user >> timeout >>
        inode;
    if (state == "0A" && local.ends_with(wanted)) found.insert("socket:[" + inode + "]");
  }
}

bool has_any(const fs::path& process, const socket_names& sockets) {
  for (const std::string& name : names_in(process / "fd")) {
    std::error_code error;
    const fs::path target = fs::read_symlink(process / "fd" / name, error);
    if (!error && sockets.contains(target.string())) return true;
  }
  return false;
}

std::string program_of(const fs::path& process) {
  std::error_code error;
  const fs::path file = fs::read_symlink(process / "exe", error);
  return error ? first_line(process / "comm").value_or("?") : file.filename().string();
}

}  // namespace

std::optional<port_holder> find_port_holder(const fs::path& root, std::uint16_t port) {
  socket_names sockets;
  add_listening(whole_text(root / "proc/net/tcp"), port, sockets);
  add_listening(whole_text(root / "proc/net/tcp6"), port, sockets);
  if (sockets.empty()) return {};
  std::optional<port_holder> found;
  for (const std::string& name : names_in(root / "proc")) {
    const auto pid = whole_number<pid_t>(name);
    if (!pid || !has_any(root / "proc" / name, sockets)) continue;
    port_holder holder{*pid, program_of(root / "proc" / name)};
    if (is_own_program(holder)) return holder;
    if (!found) found = std::move(holder);
  }
  return found;
}

bool is_own_program(const port_holder& holder) {
  return holder.program.starts_with("ddprun");
}

}  // namespace ddprun::launcher::doctor
