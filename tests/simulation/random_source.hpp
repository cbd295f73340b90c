// The only random source of a simulated world: our own splitmix64, so that a seed means the same
// schedule with every standard library.
//
// Units: durations are true time.
#pragma once

#include "rendezvous/core/messages/message_types.hpp"

#include <cstdint>

namespace ddprun::simulation {

class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t value = state_;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
  }

  // 0 to count - 1; `count` is at least 1.
  std::uint64_t below(std::uint64_t count) { return next() % count; }

  // True `percent` times in a hundred.
  bool chance(unsigned percent) { return below(100) < percent; }

  duration between(duration least, duration most) {
    const auto span = static_cast<std::uint64_t>((most - least).count());
    return least + duration(static_cast<duration::rep>(below(span + 1)));
  }

  // An independent stream, so that leaving out one fault of a plan does not change all other draws.
  random_source fork(std::uint64_t stream) {
    return random_source(state_ ^ (stream * 0xd1342543de82ef95ULL + 0x632be59bd9b4e019ULL));
  }

 private:
  std::uint64_t state_;
};

}  // namespace ddprun::simulation
