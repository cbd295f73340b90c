// Decides how long a node that keeps becoming unhealthy sits out after its checks pass again: a GPU
// or disk with an intermittent fault would fail one round after the other.
//
// The first time costs nothing: the node is back as soon as its checks pass. After the second time
// within an hour they must have passed for `step`, and for twice as long after each further one, up
// to 32 times `step`. After an hour without a failure it starts over.
//
// Thread rule: pure; times must not go backwards.
#pragma once

#include "rendezvous/base/time.hpp"

#include <string>

namespace ddprun::launcher {

class health_cool_down {
 public:
  explicit health_cool_down(duration step) : step_(step) {}

  // `found` is the result of the checks; empty: healthy. Returns what the other nodes have to know:
  // `found`, or, while the node still sits out, what was found last and why that counts; empty: the
  // node is healthy.
  std::string judge(const std::string& found, time_point now);

 private:
  duration pause() const;

  duration step_;
  std::string last_;  // what was found last; empty: the node is well
  unsigned times_ = 0;
  time_point last_seen_;  // the last moment at which something was found
};

}  // namespace ddprun::launcher
