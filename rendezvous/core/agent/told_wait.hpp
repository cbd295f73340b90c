// What the daemon has said of a wait beside its words: until when it goes on, and who is missing.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <optional>
#include <string>

namespace ddprun::core {

class told_wait {
 public:
  // The newest word; of any other than a wait nothing is left.
  void hear(const desired& word, time_point now);

  // Its words, `text`, with what is left of the wait and who is missing, as of `now`.
  std::string text(const std::string& text, time_point now) const;
  // "; node-b (10.0.0.2, ranks 2 and 3) was lost 40 s ago: silent for 10 s"; empty: nobody.
  std::string gone_text(time_point now) const;

 private:
  time_point heard_;
  std::optional<time_point> until_;  // none: not known
  bool is_last_call_ = false;
  std::optional<departure> gone_;
};

}  // namespace ddprun::core
