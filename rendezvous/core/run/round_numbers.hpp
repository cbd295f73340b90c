// The numbers of a run's rounds: the newest that was chosen or heard of, the floor that the next is
// above as well, and up to which they are reserved in the record of the run.
//
// Always: a number is given once in an instance, and only when it is reserved. The floor is of the
// run, the others are of the instance.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

namespace ddprun::core {

inline constexpr round_number rounds_block = 16;  // so many numbers are reserved together

class round_numbers {
 public:
  explicit round_numbers(round_number before_first = 0) : newest_(before_first) {}

  round_number newest() const { return newest_; }
  round_number floor() const { return floor_; }
  round_number highest() const;                        // that may have been given
  round_number reserved() const { return reserved_; }  // inclusive

  void begin_instance(round_number before_first);
  // Chooses a round.
  void take_next();
  // Half a block is reserved ahead, so that no round waits for that.
  void reserve_ahead();

  // What others say, or a record: more may have been given than is known here.
  void raise_newest(round_number said);
  void raise_floor(round_number said);
  void drop_floor() { floor_ = 0; }
  void set_reserved(round_number recorded) { reserved_ = recorded; }

 private:
  void reserve(round_number least);

  round_number newest_;
  round_number floor_ = 0;
  round_number reserved_ = 0;
};

}  // namespace ddprun::core
