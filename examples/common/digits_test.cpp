#include "examples/common/digits_test.hpp"

namespace examples {

ddprun::worker::meter test(ddprun::worker::process_group& group, Network& network,
                           digits& pictures) {
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(pictures.labels.size());
  const auto mine = torch::arange(group.rank(), count, group.world_size());
  ddprun::worker::meter accuracy;
  if (mine.numel() > 0) {
    const auto answers = network->forward(images_of(pictures).index_select(0, mine)).argmax(1);
    const auto right = answers.eq(labels_of(pictures).index_select(0, mine)).to(torch::kDouble);
    accuracy.add(right.mean().item<double>(), static_cast<double>(mine.numel()));
  }
  ddprun::worker::average_over_ranks(group, {&accuracy});
  return accuracy;
}

}  // namespace examples
