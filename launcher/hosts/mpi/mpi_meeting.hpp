// The members of a job agree on where they meet: each publishes in the launcher's exchange by which
// addresses it can be reached; rank 0 chooses the one of its own addresses from which the others
// are reached, a free port and a run id, and publishes these.
//
// Thread rule: one thread; `meet` blocks as the exchange does. The rest is pure.
#pragma once

#include "launcher/hosts/mpi/exchange.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::hosts::mpi {

using boost::asio::ip::address;

// What each member publishes about its host.
struct card {
  std::vector<address> addresses;
  bool tags_lines = false;  // the launcher, as seen there, prefixes lines
};

struct meeting {
  std::string host;
  std::uint16_t port = 0;
  std::string run_id;
  bool tags_lines = false;
};

std::string to_text(const card& said);
cli::parsed<card> read_card(std::string_view text);
std::string to_text(const meeting& said);
cli::parsed<meeting> read_meeting(std::string_view text);

// What a host knows about itself.
struct host_facts {
  std::vector<address> addresses;  // all of this host's
  // The own address from which this host would send to `other`; empty: no route.
  std::function<std::optional<address>(const address& other)> towards;
  std::function<std::uint16_t()> free_port;  // 0: there is none
  std::function<std::string()> new_run_id;
  bool tags_lines = false;
};

// The addresses that another host can use: neither loopback nor link-local. As many as fit.
card card_of(const host_facts& host);

// The own address from which most of the others are reached; loopback if all of them are on this
// host. Empty: no other host can be reached.
std::optional<address> reachable_address(const host_facts& host, const std::vector<card>& others);

// `size` must be at least 2.
cli::parsed<meeting> meet(exchange& board, std::uint32_t rank, std::uint32_t size,
                          const host_facts& host);

}  // namespace ddprun::launcher::hosts::mpi
