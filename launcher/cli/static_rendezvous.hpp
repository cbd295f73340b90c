// The static rendezvous of torchrun: --nnodes=2 --node-rank=R --master-addr=A --master-port=P. What
// it means together with other options is decided here.
#pragma once

#include "launcher/cli/option_table.hpp"

namespace ddprun::launcher {

// Where the options ask for it: the endpoint, who has the daemon, and that ranks are exact. One
// node has nobody to meet: --master-addr and --master-port alone are left of it.
cli::checked settle_static(options_draft& draft);

}  // namespace ddprun::launcher
