#include "rendezvous/journal/state_folder.hpp"

#include <algorithm>

namespace ddprun::journal {

std::string default_state_folder(const std::function<const char*(const char*)>& variable,
                                 const std::string& host, std::uint16_t port) {
  // "The paths must be absolute" (XDG Base Directory Specification 0.8).
  const auto path_in = [&](const char* name) {
    const char* const value = variable(name);
    return value != nullptr && value[0] == '/' ? std::string(value) : std::string();
  };
  // systemd separates several folders by colons; take the first.
  std::string folder = path_in("STATE_DIRECTORY");
  std::string name = host;
  std::replace(name.begin(), name.end(), '/', '_');
  name += "-" + std::to_string(port);
  if (!folder.empty()) return folder.substr(0, folder.find(':')) + "/" + name;
  folder = path_in("XDG_STATE_HOME");
  if (folder.empty()) {
    folder = path_in("HOME");
    if (folder.empty()) return {};
    folder += "/.local/state";
  }
  return folder + "/ddprun/" + name;
}

}  // namespace ddprun::journal
