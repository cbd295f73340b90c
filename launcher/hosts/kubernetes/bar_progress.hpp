// How far a script has come, by the progress bar that it draws.
//
// Known are the bars of tqdm (PyTorch Lightning, Hugging Face) and of ddprun's own library:
//
//   Epoch 3/10:  45%|####      | 450/1000 [01:00<01:20,  7.5it/s, loss=0.43]
//   epoch 3 [=============>................]  45 % | 1210 samples/s | 3 s left | loss 0.4312
//
// "Epoch 3/10" in front of one counts: 24 % are done. A bar of one epoch alone is all that is
// known.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddprun::launcher::kubernetes {

struct bar_progress {
  std::uint32_t percent = 0;             // 0 to 100
  std::optional<std::uint64_t> seconds;  // that are left, as the bar has it; of all epochs
};

// Of the last line of `words` that is such a bar.
std::optional<bar_progress> find_bar(std::string_view words);

}  // namespace ddprun::launcher::kubernetes
