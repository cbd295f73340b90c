// survive() keeps a worker's process running when another worker has failed. With `ddprun
// --survivors on` the worker leaves the round, keeps its process, its CUDA context and its memory,
// and calls `train` again in the next round. Only the missing workers are started.
//
//   auto data = read_data();               // outside of `train`: survives
//   return worker::survive([&] {
//     auto group = worker::process_group::init();   // RANK and all others are the new round's
//     ...
//   });
//
// What belongs to a round must be created in `train`: process groups, whatever averages gradients,
// samplers, training loops. A training_loop resumes from its snapshot, which the survivors have
// saved before they leave the round, so that no finished step is lost.
//
// A process_group_error makes the worker leave the round once the launcher confirms that the round
// is over. That can take as long as the launcher needs to detect a lost node
// (DDPRUN_SURVIVORS_PATIENCE). Any other exception is rethrown, unless the round was over before. A
// rank with an NCCL group is always restarted: kernels that are already queued may use what an
// aborted collective has left half reduced. Without the option, and under other launchers, `train`
// is called once.
//
// Thread rule: call it from one thread, and not recursively. Between two rounds it changes this
// process's environment, which no other thread may read meanwhile.
// Errors: what `train` throws; std::runtime_error if this process is given no further round.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

namespace ddprun::worker {

void survive_rounds(const std::function<void()>& train);

// Returns what the last call of `train` returned.
template <std::invocable Train>
auto survive(Train&& train) {
  using value = std::invoke_result_t<Train>;
  if constexpr (std::is_void_v<value>) {
    survive_rounds([&] { train(); });
  } else {
    std::optional<value> returned;
    survive_rounds([&] { returned.emplace(train()); });
    return std::move(*returned);
  }
}

}  // namespace ddprun::worker
