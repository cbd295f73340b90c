// The default state folder of a daemon.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ddprun::journal {

// HOST-PORT in $STATE_DIRECTORY (systemd's StateDirectory=), else ddprun/HOST-PORT in
// $XDG_STATE_HOME or ~/.local/state: hosts may share a home, and one service may start several
// daemons, so each daemon has its own folder. Empty if there is no home either. `variable` returns
// null for an unset variable.
std::string default_state_folder(const std::function<const char*(const char*)>& variable,
                                 const std::string& host, std::uint16_t port);

}  // namespace ddprun::journal
