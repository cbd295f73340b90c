// Tells a signal that was sent to every process of a node, by a batch system, from one that the
// agent alone was sent: of the former the guardian hears, too, at about the same time, whoever of
// the two is first.
//
// Signals of one kind that come before the last was heard are heard as one, by the agent or by the
// guardian. So a word of the guardian's stands for all that the agent has heard until it was judged
// by that word; and of several words the first is used up, with those that are so old that the
// agent's own are surely among what was heard. A word that came just now is kept: the agent's own
// signal may be heard only after this.
//
// Times are those at which the signals came.
#pragma once

#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <map>

namespace ddprun::launcher {

// A manager that signals all processes of a node, one by one, has done it within this time.
inline constexpr auto group_signal_limit = std::chrono::seconds(1);
// When a signal is judged: what the guardian has to say of it is here that long after it.
inline constexpr auto guardian_answer_limit = std::chrono::milliseconds(200);

class group_signals {
 public:
  static constexpr std::size_t words_max = 16;  // of each signal: the newest

  void guardian_heard(int signal, time_point at) {
    kind& of = kinds_[signal];
    of.words.push_back(at);
    if (of.words.size() > words_max) of.words.pop_front();
  }

  // True: the signal that the agent heard at `heard` was sent to every process. In the order in
  // which they were heard, each once.
  bool take(int signal, time_point heard, time_point now) {
    kind& of = kinds_[signal];
    std::erase_if(of.words, [&](time_point at) { return at < heard - group_signal_limit; });
    if (of.words.empty()) return heard < of.heard_until;
    of.words.pop_front();
    std::erase_if(of.words, [&](time_point at) { return at < now - guardian_answer_limit / 2; });
    of.heard_until = now;
    return true;
  }

 private:
  struct kind {
    std::deque<time_point> words;  // the guardian's, the oldest first
    time_point heard_until{};      // what the agent had heard by then was sent to all
  };

  std::map<int, kind> kinds_;
};

}  // namespace ddprun::launcher
