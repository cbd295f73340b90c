// Moments and durations, as all layers use them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun {

// A moment on the local monotonic clock. Core code is handed moments and never reads a clock, and
// no moment ever leaves its host: only durations travel.
using time_point = std::chrono::steady_clock::time_point;
using duration = std::chrono::steady_clock::duration;

// Whole microseconds, as durations are written on the wire and in the journal.
std::int64_t to_micros(duration value);

// "12 s", "1.5 s", "350 ms", "2 min 5 s": for sentences read by people.
std::string to_text(duration value);

}  // namespace ddprun
