#include "rendezvous/core/run/round_numbers.hpp"

#include "rendezvous/base/error.hpp"

#include <algorithm>

namespace ddprun::core {

round_number round_numbers::highest() const {
  return std::max(newest_, floor_);
}

void round_numbers::begin_instance(round_number before_first) {
  newest_ = before_first;
  reserved_ = 0;
  reserve_ahead();
}

void round_numbers::take_next() {
  newest_ = highest() + 1;
  reserve(0);
  DDPRUN_ASSERT(newest_ <= reserved_);
}

void round_numbers::reserve_ahead() {
  reserve(rounds_block / 2);
}

// So many are left after this.
void round_numbers::reserve(round_number least) {
  if (highest() + least > reserved_ || reserved_ == 0) reserved_ = highest() + rounds_block;
}

void round_numbers::raise_newest(round_number said) {
  newest_ = std::max(newest_, said);
}

void round_numbers::raise_floor(round_number said) {
  floor_ = std::max(floor_, said);
}

}  // namespace ddprun::core
