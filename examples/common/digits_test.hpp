// Measures how well a network recognises pictures that it was not trained on.
#pragma once

#include "examples/common/digits_network.hpp"
#include "worker/torch/metrics.hpp"

namespace examples {

// Each rank tests its share of the pictures, so that none is counted twice. The result is the same
// on all ranks: its average is the accuracy, its sum the number of right answers, its weight the
// number of pictures.
ddprun::worker::meter test(ddprun::worker::process_group& group, Network& network,
                           digits& pictures);

}  // namespace examples
