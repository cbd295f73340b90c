// The command line of ddprun-rendezvous: turns arguments into options, a text to show, or an error
// line.
#pragma once

#include "rendezvous/cli/command_line.hpp"
#include "rendezvous/cli/log_options.hpp"
#include "rendezvous/cli/values.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/messages/settings.hpp"
#include "rendezvous/core/store/key_value_store.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::server {

struct daemon_options {
  std::string bind_address;                         // numeric; empty: all
  std::uint16_t port = cli::default_endpoint_port;  // 0 picks a free one
  std::string port_file;                            // empty: none
  // The journal's folder; "none": no journal; empty: chosen from the environment.
  std::optional<std::string> state_folder;
  cli::log_options log;
  color_mode color = color_mode::automatic;
  duration recovery_window = timers().recovery_window;
  bool allows_other_users = false;                               // users of this host
  std::size_t store_bytes_max = core::store_limits{}.bytes_max;  // for the daemon's own TCPStore
};

using daemon_outcome = std::variant<daemon_options, cli::show_text, cli::usage_error>;

// `arguments` do not include the program's name.
daemon_outcome parse_daemon_options(const std::vector<std::string>& arguments);

}  // namespace ddprun::server
