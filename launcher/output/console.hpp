// The console prints ddprun's own messages: one line each, on standard error, through the same
// writer as the workers' output, so that lines never mix.
//
//   ddprun node-a 02:13:05.412: rank 3 (local rank 1) ended with exit code 7
//
// or as JSON (log/own_line.hpp).
//
// Thread rule: the main thread; the sink must be cheap (it queues).
#pragma once

#include "rendezvous/cli/log_options.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/log/own_line.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

class console {
 public:
  // `sink` takes whole lines with their newline. `node` is part of each line.
  console(std::string node, std::string run_id, cli::log_options options,
          std::function<void(std::string)> sink);

  // Sets the round of the following messages.
  void enter(round_number round) { round_ = round; }

  // In a message of several lines, all but the first begin with log::detail_mark.
  void say(note_level level, const std::string& text);

  // What a terminal of so many columns shows for a lasting state, instead of a line for each
  // change; empty: it is filtered out by level, or a program reads the output.
  std::optional<std::string> state_line(const std::string& text, std::size_t columns) const;

  // From now on "warning:" is yellow and "error:" red.
  void use_color() { is_colored_ = true; }

  // Shows why a worker failed, by its last output, once for each round and rank: the same cause
  // comes with the stop and with the close. Returns false if it was shown before or there is
  // nothing to show.
  bool show_failure(const cause& root_cause);

 private:
  std::string beginning(const timespec& now) const;

  log::line_origin origin_;
  cli::log_options options_;
  bool is_colored_ = false;
  std::function<void(std::string)> sink_;
  round_number round_ = 0;
  round_number tail_round_ = 0;
  std::optional<std::uint32_t> tail_rank_;
};

}  // namespace ddprun::launcher
