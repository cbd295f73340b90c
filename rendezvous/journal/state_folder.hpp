// Where a daemon keeps what must outlive it, unless a person says so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ddprun::journal {

// HOST-PORT in $STATE_DIRECTORY (systemd's StateDirectory=), else ddprun/HOST-PORT in
// $XDG_STATE_HOME or ~/.local/state: many hosts may share one home, and one service may start
// several daemons; each has its own folder. Empty: there is no home either. `variable` gives null
// where there is none of that name.
std::string default_state_folder(const std::function<const char*(const char*)>& variable,
                                 const std::string& host, std::uint16_t port);

}  // namespace ddprun::journal
