#include "launcher/hosts/engines.hpp"

#include "launcher/hosts/kubernetes/pod_placement.hpp"
#include "launcher/hosts/mpi/placement.hpp"
#include "launcher/hosts/slurm/slurm.hpp"

#include <initializer_list>

namespace ddprun::launcher::hosts {
namespace {

using engine = placement_outcome (*)(const environment_map&);

// Innermost first.
constexpr std::initializer_list<engine> engines = {
    mpi::find_mpi_placement,
    slurm::find,
    kubernetes::find_pod_placement,
};

}  // namespace

placement_outcome find_placement(const environment_map& environment) {
  for (const engine find : engines) {
    placement_outcome outcome = find(environment);
    if (!std::holds_alternative<std::monostate>(outcome)) return outcome;
  }
  return {};
}

}  // namespace ddprun::launcher::hosts
