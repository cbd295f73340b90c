#include "rendezvous/core/run/members_text.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/utf8.hpp"

#include <algorithm>

namespace ddprun::core {
namespace {

// The limits for one label and one address: a fully qualified name with a suffix, an IPv6 address
// with a zone.
constexpr std::size_t label_bytes_max = 72;
constexpr std::size_t address_bytes_max = 56;
// " and 999999 more nodes with 4294967295 workers"
constexpr std::size_t rest_bytes_max = 48;

std::string shortened(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  return std::string(first_of(text, bytes_max - 3)) + "...";
}

std::string text_of(const named_member& one, bool shows_address) {
  std::string text = std::to_string(one.rank_first);
  if (one.worker_count > 1) text += "-" + std::to_string(one.rank_first + one.worker_count - 1);
  text += " on " + shortened(one.label, label_bytes_max);
  if (shows_address && !one.address.empty()) {
    text += " (" + shortened(one.address, address_bytes_max) + ")";
  }
  return text;
}

}  // namespace

std::string members_text(const std::vector<named_member>& first, std::uint32_t nodes,
                         std::uint32_t world_size) {
  std::string text = world_size == 1 ? "rank " : "ranks ";
  std::uint32_t named = 0;
  std::uint32_t ranks = 0;
  for (const named_member& one : first) {
    if (named == members_named_max) break;
    const std::string piece = (named == 0 ? "" : ", ") + text_of(one, nodes > 1);
    if (text.size() + piece.size() + rest_bytes_max > members_text_max) break;
    text += piece;
    ++named;
    ranks += one.worker_count;
  }
  if (named >= nodes) return text;
  return text + " and " + counted(nodes - named, "more node") + " with " +
         counted(world_size - std::min(ranks, world_size), "worker");
}

std::string_view known_address(const node_addresses& node, std::string_view daemon_host) {
  if (!node.given.empty()) return unmapped(node.given);
  if (!is_host_bound(node.own)) return unmapped(node.own);
  if (!is_host_bound(node.seen)) return unmapped(node.seen);
  if (is_loopback(node.seen) && !is_host_bound(daemon_host)) return unmapped(daemon_host);
  return unmapped(node.own.empty() ? node.seen : node.own);
}

}  // namespace ddprun::core
