// survive() lets a worker live on when another one has failed: with `ddprun --survivors on` it
// leaves the round, keeps its process, its CUDA context and what it has in memory, and calls
// `train` again in the next round. Only the workers that are gone are started.
//
//   auto data = read_data();               // outside of it: lives on
//   return worker::survive([&] {
//     auto group = worker::process_group::init();   // RANK and all else are those of this round
//     ...
//   });
//
// What belongs to a round is made in `train`: process groups, what averages gradients, samplers,
// training loops. A training_loop goes on from its snapshot, which the ranks that are left have
// saved before they leave, so that no finished step is lost.
//
// The round is left upon a process_group_error, once the launcher confirms that the round is over;
// that can take until it knows of a lost node (DDPRUN_SURVIVORS_PATIENCE). Another exception goes
// through, unless the round was over before it. A rank with a group of NCCL is started again: what
// a GPU has half reduced when a collective is aborted may be used by the kernels behind it.
// Without the option, and under other launchers, it calls `train` once.
//
// Thread rule: one thread, which calls it once at a time. Between two rounds it changes this
// process's environment: no other thread may read it then.
// Errors: what `train` throws; std::runtime_error where no other round comes.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

namespace ddprun::worker {

void survive_rounds(const std::function<void()>& train);

// What the last call of `train` returns.
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
