// The command line of ddprun-rendezvous: arguments in, options or one line out.
//
// Thread rule: pure functions.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/messages/types.hpp"
#include "rendezvous/core/store/key_value_store.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::server {

struct daemon_options {
  enum class action { serve, help, version };
  action what = action::serve;
  std::string bind_address;    // numeric; empty: all
  std::uint16_t port = 29400;  // 0 picks one
  std::string port_file;       // empty: none
  // Where what is decided outlives the daemon; "none": nowhere; none given: by the environment.
  std::optional<std::string> state_folder;
  note_level log_level = note_level::info;
  duration recovery_window = std::chrono::seconds(10);
  std::size_t store_bytes_max = core::store_limits{}.bytes_max;  // of the daemon's own TCPStore
};

// `arguments` without the program's name. On failure `problem` is one line for the person.
result<daemon_options> parse_daemon_options(const std::vector<std::string>& arguments,
                                            std::string& problem);

std::string_view daemon_help();

}  // namespace ddprun::server
