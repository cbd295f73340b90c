// The console carries ddprun's own words to the person: one line each, on standard error, through
// the same writer as the workers' output, so that lines never mix.
//
//   ddprun node-a 02:13:05.412: rank 3 (local rank 1) ended with exit code 7
//
// Thread rule: the main thread; the sink must be cheap (it queues).
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

class console {
 public:
  // `sink` takes whole lines with their newline. `node` stands in front of each.
  console(std::string node, note_level least, std::function<void(std::string)> sink);

  void say(note_level level, const std::string& text);

  // Why a worker failed, by its own last words, once for each round and slot: the same cause comes
  // with the stop and with the close. False: it was shown before, or there is none.
  bool show_failure(const cause& first_cause);

 private:
  std::string node_;
  note_level least_;
  std::function<void(std::string)> sink_;
  round_number tail_round_ = 0;
  std::optional<std::uint32_t> tail_rank_;
};

}  // namespace ddprun::launcher
