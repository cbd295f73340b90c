// How well a network knows pictures that it was not trained on.
#pragma once

#include "examples/common/digits_network.hpp"
#include "worker/torch/metrics.hpp"

namespace examples {

// Every rank looks at its share of the pictures; none is looked at twice. On all ranks the average
// is the share of right answers, the sum their number, the weight that of the pictures.
ddprun::worker::meter test(ddprun::worker::process_group& group, Network& network,
                           digits& pictures);

}  // namespace examples
