#include "launcher/agent/ras_port.hpp"

#include "launcher/base/fnv_hash.hpp"
#include "launcher/evidence/ras_status.hpp"
#include "launcher/network/free_port.hpp"

#include <string>

namespace ddprun::launcher {

void give_ras_port(environment_map& environment, const evidence::keeper_options& options,
                   std::uint32_t visible_gpus, std::string_view mark) {
  const bool is_asked = options.gathering_limit > duration::zero() || options.hang_limit;
  const std::string name(evidence::ras_variable);
  if (!is_asked || visible_gpus == 0 || find_variable(environment, name) != nullptr) return;
  const std::uint16_t port = unused_static_port(fnv_hash(mark));
  if (port != 0) environment[name] = "localhost:" + std::to_string(port);
}

}  // namespace ddprun::launcher
