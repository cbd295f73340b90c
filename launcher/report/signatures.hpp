// What usual messages of PyTorch, Gloo, NCCL, CUDA and the system mean, in plain words, and what to
// look at. One row each; a row that is more special stands before a more general one.
//
// The sentences go on from "that means: ".
#pragma once

#include <string_view>

namespace ddprun::launcher {

// What a failure with such words follows from.
enum class follows {
  nothing,  // it is a root cause
  end,      // the end of another rank, or of the network to it
  silence,  // that another rank did not come: it may live
};

struct signature {
  std::string_view name;    // of the row: "gloo-peer-gone"
  std::string_view first;   // the line has this in it
  std::string_view second;  // and this, anywhere; empty: nothing more
  follows from;
  std::string_view meaning;
  std::string_view advice;  // what to check, or do

  bool is_secondary() const { return from != follows::nothing; }
  // What happened, and not why: any other row says more.
  bool is_crash() const { return name.starts_with("fatal-"); }
};

// The first row that fits the line; null: none.
const signature* find_signature(std::string_view line);

// Of a worker that a signal ended without a word that is known; null: nothing is known of it.
const signature* signature_of_signal(int signal);

// Of one that the OOM killer has ended.
const signature* signature_of_oom_kill();

// All rows, for tests.
const signature* begin_signatures();
const signature* end_signatures();

}  // namespace ddprun::launcher
