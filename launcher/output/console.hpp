// The console carries ddprun's own words to the person: one line each, on standard error, through
// the same writer as the workers' output, so that lines never mix.
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
  // `sink` takes whole lines with their newline. `node` stands in front of each, or in it.
  console(std::string node, std::string run_id, cli::log_options options,
          std::function<void(std::string)> sink);

  // The round that the next words are of.
  void enter(round_number round) { round_ = round; }

  // Of several lines all but the first begin with log::detail_mark.
  void say(note_level level, const std::string& text);

  // What a terminal of so many columns shows while it is so, instead of a line each time; none:
  // nobody wants to see it, or a program reads.
  std::optional<std::string> state_line(const std::string& text, std::size_t columns) const;

  // "warning:" and "error:" are yellow and red from now on.
  void use_color() { is_colored_ = true; }

  // Why a worker failed, by its own last words, once for each round and group rank: the same cause
  // comes with the stop and with the close. False: it was shown before, or there is none.
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
