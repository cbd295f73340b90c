#include "rendezvous/core/messages/versions.hpp"

namespace ddprun::core {
namespace {

// Agents of 0.1.0 may end their version with a line feed, which was turned into a blank.
std::string_view trimmed(std::string_view version) {
  return version.substr(0, version.find_last_not_of(' ') + 1);
}

std::string speaks(std::uint32_t protocol, std::string_view version) {
  std::string text = "version " + std::to_string(protocol);
  if (!trimmed(version).empty()) text += " (ddprun " + std::string(trimmed(version)) + ")";
  return text;
}

}  // namespace

std::string protocol_problem(const hello& greeting, std::string_view daemon_version) {
  if (greeting.protocol == agent_protocol_version) return {};
  return "of the agent protocol this node speaks " + speaks(greeting.protocol, greeting.version) +
         ", the rendezvous daemon " + speaks(agent_protocol_version, daemon_version) + ": " +
         std::string(same_version_advice);
}

std::string version_warning(std::string_view node, std::string_view node_version,
                            std::string_view daemon_version) {
  const std::string_view one = trimmed(node_version);
  const std::string_view other = trimmed(daemon_version);
  if (one == other || one.empty() || other.empty()) return {};
  return std::string(node) + " is ddprun " + std::string(one) + ", the rendezvous daemon ddprun " +
         std::string(other) + ": they work together, as both speak version " +
         std::to_string(agent_protocol_version) + " of the agent protocol; still, " +
         std::string(same_version_advice);
}

}  // namespace ddprun::core
