// NCCL's RAS server listens at one port for all jobs of a user, and any process there answers. So
// that an agent hears of its own ranks only, its workers get a port of their own (NCCL_RAS_ADDR),
// unless the user has named one.
//
// Thread rule: the main thread. Errors: where no port is free, NCCL's own default is left.
#pragma once

#include "launcher/evidence/evidence_keeper.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <string_view>

namespace ddprun::launcher {

// `options`: who asks; nobody does where nothing is gathered and no hang is ended. `mark`: the
// agent's, from which the port follows, outside the range of outgoing connections.
void give_ras_port(environment_map& environment, const evidence::keeper_options& options,
                   std::uint32_t visible_gpus, std::string_view mark);

}  // namespace ddprun::launcher
