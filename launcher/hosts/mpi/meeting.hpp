// The members of a job agree on where they meet: each says on the launcher's exchange by which
// addresses it may be reached; the one with rank 0 chooses the address of its own from which the
// others are reached, a free port and a run id, and says so.
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

// What each member says of its host.
struct card {
  std::vector<address> addresses;
  bool tags_lines = false;  // the launcher was told, in its sight, to begin each line with a tag
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

// What a host says of itself.
struct host_words {
  std::vector<address> addresses;  // all of this host's
  // The own address from which this host would send to that one; none: there is no way.
  std::function<std::optional<address>(const address& other)> towards;
  std::function<std::uint16_t()> free_port;  // 0: there is none
  std::function<std::string()> new_run_id;
  bool tags_lines = false;
};

// Those that another host may use: neither loopback nor of one link only. As many as fit.
card card_of(const host_words& host);

// The own address from which most of the others are reached; loopback where all of them are on this
// host. None: no other host can be reached.
std::optional<address> reachable_address(const host_words& host, const std::vector<card>& others);

// `size` is at least 2.
cli::parsed<meeting> meet(exchange& board, std::uint32_t rank, std::uint32_t size,
                          const host_words& host);

}  // namespace ddprun::launcher::hosts::mpi
