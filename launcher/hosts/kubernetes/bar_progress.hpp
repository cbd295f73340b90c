// Reads a script's progress from the progress bar that it draws.
//
// It knows the bars of tqdm (PyTorch Lightning, Hugging Face) and of ddprun's own library:
//
//   Epoch 3/10:  45%|####      | 450/1000 [01:00<01:20,  7.5it/s, loss=0.43]
//   epoch 3 [=============>................]  45 % | 1210 samples/s | 3 s left | loss 0.4312
//
// "Epoch 3/10" before a bar counts: 24 % are done. Without it, the bar alone counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddprun::launcher::kubernetes {

struct bar_progress {
  std::uint32_t percent = 0;             // 0 to 100
  std::optional<std::uint64_t> seconds;  // remaining, from the bar; for all epochs
};

// The progress from the last line of `words` with such a bar.
std::optional<bar_progress> find_bar(std::string_view words);

}  // namespace ddprun::launcher::kubernetes
