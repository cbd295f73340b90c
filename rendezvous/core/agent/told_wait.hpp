// What the daemon has said about a wait beside its text: how long it goes on, and which nodes are
// missing.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <optional>
#include <string>

namespace ddprun::core {

class told_wait {
 public:
  // The newest `desired`; if it is not a wait, what was known is dropped.
  void hear(const desired& message, time_point now);

  // `text`, with what is left of the wait and which nodes are missing, as of `now`.
  std::string text(const std::string& text, time_point now) const;
  // "; node-b (10.0.0.2, ranks 2 and 3) was lost 40 s ago: silent for 10 s"; empty: no node is
  // missing.
  std::string gone_text(time_point now) const;

 private:
  time_point heard_;
  std::optional<time_point> until_;  // none: not known
  bool is_last_call_ = false;
  std::optional<departure> gone_;
};

}  // namespace ddprun::core
