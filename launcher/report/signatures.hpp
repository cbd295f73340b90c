// The meaning of common messages of PyTorch, Gloo, NCCL, CUDA and the system in plain words, and
// what to do. One row each; specific rows come before general ones.
//
// A meaning completes "that means: ", and an advice, which begins with a verb in the imperative,
// completes "what to do: ".
#pragma once

#include <string_view>

namespace ddprun::launcher {

// What a failure with these words follows from.
enum class follows {
  nothing,  // it is a root cause
  end,      // the end of another rank, or of the network to it
  silence,  // another rank did not arrive; it may be alive
};

struct signature {
  std::string_view name;    // of the row: "gloo-peer-gone"
  std::string_view first;   // the line contains this
  std::string_view second;  // and this, anywhere; empty: anything
  follows from;
  std::string_view meaning;
  std::string_view advice;  // what to do about it

  bool is_secondary() const { return from != follows::nothing; }
  // It says what happened and not why, so any other row is better.
  bool is_crash() const { return name.starts_with("fatal-"); }
};

// The first matching row; null: none.
const signature* find_signature(std::string_view line);

// For a worker that a signal has killed without a known message; null: nothing is known.
const signature* signature_of_signal(int signal);

// For a worker that the OOM killer has killed.
const signature* signature_of_oom_kill();

// All rows, for tests.
const signature* begin_signatures();
const signature* end_signatures();

}  // namespace ddprun::launcher
