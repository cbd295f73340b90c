// How long a node that becomes unhealthy again and again sits out, though its checks pass by now: a
// GPU or a disk that comes and goes would fail one round after the other.
//
// Once costs nothing: the node is back as soon as its checks pass. After the second time within an
// hour they must have passed for `step`, and for twice as long with each time more, 32 times `step`
// at most. An hour without trouble, and all is forgotten.
//
// Thread rule: pure; moments do not go back.
#pragma once

#include "rendezvous/base/time.hpp"

#include <string>

namespace ddprun::launcher {

class health_cool_down {
 public:
  explicit health_cool_down(duration step) : step_(step) {}

  // What the checks have found now. Empty: nothing. Returns what the others are to know of it:
  // that, or, as long as the node has to sit out all the same, what was found last and why that
  // counts.
  std::string judge(const std::string& found, time_point now);

 private:
  duration pause() const;

  duration step_;
  std::string last_;  // what was found last; empty: the node is well
  unsigned times_ = 0;
  time_point last_seen_;  // the last moment at which something was found
};

}  // namespace ddprun::launcher
