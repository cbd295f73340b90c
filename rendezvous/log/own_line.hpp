// A program's own line, as it goes to standard error: what it begins with, or the JSON object that
// it is with --log-format=json.
//
//   {"time":"2026-11-24T22:03:05.412+01:00","level":"warning","program":"ddprun","node":"a",
//    "run_id":"job1","round":2,"message":"round 2 failed ...","lines":["b: rank 3 ..."]}
//
// Thread rule: pure functions, but that zones are those of the system.
#pragma once

#include "rendezvous/base/log_style.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <string>
#include <string_view>
#include <time.h>

namespace ddprun::log {

// What begins a line of a text of several, all but the first.
inline constexpr std::string_view detail_mark = "  | ";

// The wall clock, for people who compare logs; nothing is decided by it.
timespec wall_clock();

// Local time to the millisecond; "" for time_style::none.
std::string time_text(time_style style, const timespec& when);

// The origin of a line: what is empty is left out.
struct line_origin {
  std::string program;
  std::string node;
  std::string run_id;
};

// One line with its newline, valid UTF-8 whatever `text` is. Its first line is `message`, the
// others, without their marks, are `lines`. A round of 0 is left out.
std::string json_line(const line_origin& from, time_style style, const timespec& when,
                      note_level level, round_number round, std::string_view text);

// "debug", "info", "warning", "error".
std::string_view level_text(note_level level);
// "info:", "warning:"; in colour a warning is yellow and an error red.
std::string level_mark(note_level level, bool is_colored);

}  // namespace ddprun::log
