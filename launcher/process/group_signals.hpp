// Tells a signal that a batch system has sent to every process of a node from one that only the
// agent got: in the first case the guardian gets it too, at about the same time, before or after
// the agent.
//
// The kernel merges signals of one kind that are still pending, for the agent or for the guardian.
// So one report of the guardian covers all that the agent has received until it was judged by that
// report. Of several reports the first is used up, together with those so old that the agent's own
// signal has surely been received by now. A recent report is kept, because the agent may receive
// its own signal only after this.
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

// A manager that signals the processes of a node one by one is done within this time.
inline constexpr auto group_signal_limit = std::chrono::seconds(1);
// How long to wait for the guardian's report before a signal is judged.
inline constexpr auto guardian_answer_limit = std::chrono::milliseconds(200);

class group_signals {
 public:
  static constexpr std::size_t words_max = 16;  // per signal, the newest

  void guardian_heard(int signal, time_point at) {
    kind& of = kinds_[signal];
    of.words.push_back(at);
    if (of.words.size() > words_max) of.words.pop_front();
  }

  // True: the signal that the agent received at `heard` was sent to every process. Call it once for
  // each signal, in the order in which they were received.
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
    std::deque<time_point> words;  // the guardian's reports, the oldest first
    time_point
        heard_until{};  // all that the agent has received until then was sent to every process
  };

  std::map<int, kind> kinds_;
};

}  // namespace ddprun::launcher
