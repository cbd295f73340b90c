#include "launcher/agent/descriptor_needs.hpp"

#include "rendezvous/net/descriptor_limit.hpp"

namespace ddprun {
namespace {

constexpr std::uint64_t own_descriptors = 64;  // session, guardian, libraries, one spawn under way

}  // namespace

bool has_descriptors_for_nodes(std::uint64_t nodes) {
  return own_descriptors + nodes <= net::descriptor_limit();
}

std::string descriptor_problem(const core::open_service& wanted, std::uint64_t own_workers) {
  // PyTorch connects once for the default group; scripts that clone the store connect again. A
  // worker of this node has two pipes and a handle.
  const std::uint64_t needed = own_descriptors + std::uint64_t{2} * wanted.world_size +
                               wanted.group_world_size + 3 * own_workers;
  const std::uint64_t allowed = net::descriptor_limit();
  if (needed <= allowed) return {};
  return "too few file descriptors: the job store of " + std::to_string(wanted.world_size) +
         " workers needs " + std::to_string(needed) + " descriptors and this process may open " +
         std::to_string(allowed) + "; raise the hard limit (ulimit -Hn) and start again";
}

}  // namespace ddprun
