#include "rendezvous/core/run/master_address.hpp"

#include <cctype>

namespace ddprun::core {
namespace {

bool starts_with_no_case(std::string_view text, std::string_view prefix) {
  if (text.size() < prefix.size()) return false;
  for (std::size_t index = 0; index < prefix.size(); ++index) {
    if (std::tolower(static_cast<unsigned char>(text[index])) != prefix[index]) return false;
  }
  return true;
}

// fe80::/10, with or without a zone.
bool is_link_local(std::string_view address) {
  if (address.starts_with("169.254.")) return true;
  return starts_with_no_case(address, "fe8") || starts_with_no_case(address, "fe9") ||
         starts_with_no_case(address, "fea") || starts_with_no_case(address, "feb");
}

bool is_ipv6(std::string_view address) {
  return address.find(':') != std::string_view::npos;
}

bool on_another_host(const node_addresses& leader, const node_addresses& member) {
  const std::string_view seen_leader = unmapped(leader.seen);
  const std::string_view seen_member = unmapped(member.seen);
  if (seen_leader == seen_member) return false;
  // Both on the daemon's host, one by loopback, the other by an address of that host.
  const auto on_daemon_host = [](const node_addresses& node) {
    return is_loopback(unmapped(node.seen)) || unmapped(node.seen) == unmapped(node.local);
  };
  return !(on_daemon_host(leader) && on_daemon_host(member));
}

}  // namespace

std::string_view unmapped(std::string_view address) {
  constexpr std::string_view prefix = "::ffff:";
  if (starts_with_no_case(address, prefix) && address.find('.') != std::string_view::npos) {
    address.remove_prefix(prefix.size());
  }
  return address;
}

bool is_loopback(std::string_view address) {
  address = unmapped(address);
  return address == "::1" || address.starts_with("127.") || address == "localhost";
}

bool is_host_bound(std::string_view address) {
  address = unmapped(address);
  if (address.empty() || address == "0.0.0.0" || address == "::") return true;
  return is_loopback(address) ||
         (is_ipv6(address) ? is_link_local(address) : address.starts_with("169.254."));
}

std::string choose_master_address(const std::vector<node_addresses>& members) {
  if (members.empty()) return {};
  const node_addresses& leader = members.front();
  if (!leader.given.empty()) return std::string(unmapped(leader.given));

  const node_addresses* stranger = nullptr;
  for (const node_addresses& member : members) {
    if (on_another_host(leader, member)) {
      stranger = &member;
      break;
    }
  }
  const std::string_view own = unmapped(leader.own);
  const std::string_view seen = unmapped(leader.seen);
  if (members.size() == 1) return is_loopback(own) ? std::string(own) : "127.0.0.1";
  if (stranger == nullptr) {
    if (!own.empty() && own != "0.0.0.0" && own != "::") return std::string(own);
    return std::string(seen);
  }
  if (!is_host_bound(own)) return std::string(own);
  if (!is_host_bound(seen)) return std::string(seen);
  // The leader shares the daemon's host, so the other members reach it where they reached the
  // daemon.
  const std::string_view reached = unmapped(stranger->local);
  if (is_loopback(seen) && !is_host_bound(reached)) return std::string(reached);
  return std::string(own.empty() ? seen : own);
}

}  // namespace ddprun::core
