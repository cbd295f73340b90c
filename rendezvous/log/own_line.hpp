// A program's own line on standard error: its beginning, or the whole JSON object with
// --log-format=json.
//
//   {"time":"2026-11-24T22:03:05.412+01:00","level":"warning","program":"ddprun","node":"a",
//    "run_id":"job1","round":2,"message":"round 2 failed ...","lines":["b: rank 3 ..."]}
//
// Thread rule: any thread; the time zone is the system's.
#pragma once

#include "rendezvous/base/log_style.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <string>
#include <string_view>
#include <time.h>

namespace ddprun::log {

// The beginning of each line but the first in a message of several lines.
inline constexpr std::string_view detail_mark = "  | ";

// The wall clock, for people who compare logs. No decision depends on it.
timespec wall_clock();

// Local time to the millisecond; "" for time_style::none.
std::string time_text(time_style style, const timespec& when);

// The origin of a line; empty fields are left out.
struct line_origin {
  std::string program;
  std::string node;
  std::string run_id;
};

// One line with its newline, valid UTF-8 whatever `text` contains. The first line of `text` is
// `message`, the others, without their marks, are `lines`. A round of 0 is left out.
std::string json_line(const line_origin& from, time_style style, const timespec& when,
                      note_level level, round_number round, std::string_view text);

// "debug", "info", "warning", "error".
std::string_view level_text(note_level level);
// "info:", "warning:"; with colour a warning is yellow and an error red.
std::string level_mark(note_level level, bool is_colored);

}  // namespace ddprun::log
