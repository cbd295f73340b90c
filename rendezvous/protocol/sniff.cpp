#include "rendezvous/protocol/sniff.hpp"

#include <algorithm>
#include <array>

namespace ddprun::protocol {
namespace {

// Each with the space that must follow it in a request line.
constexpr std::array<std::string_view, 9> http_methods = {
    "GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "PATCH ", "TRACE ", "CONNECT "};

wire sniff_http(std::string_view bytes) {
  for (std::string_view method : http_methods) {
    const std::size_t common = std::min(method.size(), bytes.size());
    if (bytes.substr(0, common) != method.substr(0, common)) continue;
    return common == method.size() ? wire::http : wire::undecided;
  }
  return wire::unknown;
}

}  // namespace

wire sniff(std::string_view first_bytes) {
  if (first_bytes.empty()) return wire::undecided;
  switch (first_bytes.front()) {
    case '{':
      return wire::agent;
    case '\x00':
      return wire::tcpstore;
    case '\x16':
      return wire::tls;
    default:
      return sniff_http(first_bytes);
  }
}

agent_line sniff_agent_line(std::string_view first_bytes) {
  constexpr std::string_view tether = "{\"type\":\"tether_";
  static_assert(tether.size() == agent_sniff_bytes);
  const std::size_t common = std::min(tether.size(), first_bytes.size());
  if (first_bytes.substr(0, common) != tether.substr(0, common)) return agent_line::session;
  return common == tether.size() ? agent_line::tether : agent_line::undecided;
}

std::string_view to_string(wire value) {
  switch (value) {
    case wire::undecided:
      return "undecided";
    case wire::agent:
      return "agent protocol";
    case wire::tcpstore:
      return "TCPStore";
    case wire::http:
      return "HTTP";
    case wire::tls:
      return "TLS";
    case wire::unknown:
      return "unknown";
  }
  return "unknown";
}

}  // namespace ddprun::protocol
