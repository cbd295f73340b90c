// A client of a store on loopback.
#pragma once

#include "tests/rendezvous/store/loopback.hpp"
#include "worker/store_client.hpp"

#include <string>
#include <utility>

namespace ddprun::tests {

template <typename Server>
worker::store_client client_of(Server&& server, const std::string& who = "") {
  std::string problem;
  auto client = worker::store_client::connect("127.0.0.1", server.port(), patience, problem, who);
  INFO(problem);
  REQUIRE(client.has_value());
  return std::move(*client);
}

}  // namespace ddprun::tests
