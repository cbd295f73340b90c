// torchrun's static rendezvous: --nnodes=2 --node-rank=R --master-addr=A --master-port=P. Decides
// what it means together with other options.
#pragma once

#include "launcher/cli/option_table.hpp"

namespace ddprun::launcher {

// If the options ask for it, sets the endpoint, who runs the daemon, and exact ranks. A single node
// meets nobody, so only --master-addr and --master-port remain.
cli::checked settle_static(options_draft& draft);

}  // namespace ddprun::launcher
