// A whole daemon on a real loopback port, and its event loop.
#pragma once

#include "rendezvous/server/server.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {

struct daemon_fixture {
  boost::asio::io_context io{1};
  std::vector<std::string> log;
  std::optional<server::server> daemon;
  std::uint16_t port = 0;

  explicit daemon_fixture(server::server_options options = {}, duration recovery_window = {}) {
    options.bind_address = "127.0.0.1";
    options.port = 0;
    options.daemon.recovery_window = recovery_window;
    options.daemon.log = [this](note_level, const std::string& text) { log.push_back(text); };
    daemon.emplace(io.get_executor(), std::move(options));
    std::string problem;
    const auto opened = daemon->start(problem);
    INFO(problem);
    REQUIRE(opened.has_value());
    port = *opened;
  }

  // Runs until the peer has received a text that contains `words`.
  bool hears(raw_peer& peer, const std::string& words) {
    return run_until(io, [&] { return peer.heard().find(words) != std::string::npos; });
  }
  bool closes(raw_peer& peer) {
    return run_until(io, [&] { return peer.closed(); });
  }
};

}  // namespace ddprun::tests
