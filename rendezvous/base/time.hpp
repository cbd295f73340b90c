// Moments and durations for all layers.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun {

// A moment on the local monotonic clock. Core code is given moments and never reads a clock, and a
// moment never leaves its host: only durations are sent.
using time_point = std::chrono::steady_clock::time_point;
using duration = std::chrono::steady_clock::duration;

// Whole microseconds, as in the wire protocol and the journal.
std::int64_t to_micros(duration value);

// "12 s", "1.5 s", "350 ms", "2 min 5 s", for sentences.
std::string to_text(duration value);

}  // namespace ddprun
