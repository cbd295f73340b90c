#include "launcher/agent/console.hpp"

#include "launcher/report/failure_words.hpp"

#include <array>
#include <cstdio>
#include <sys/time.h>
#include <time.h>
#include <utility>

namespace ddprun::launcher {
namespace {

// The wall clock, for people who compare logs; nothing is decided by it.
std::string clock_text() {
  timeval now{};
  gettimeofday(&now, nullptr);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%02d:%02d:%02d.%03d", local.tm_hour, local.tm_min,
                local.tm_sec, static_cast<int>(now.tv_usec / 1000));
  return text.data();
}

}  // namespace

console::console(std::string node, note_level least, std::function<void(std::string)> sink)
    : node_(std::move(node)), least_(least), sink_(std::move(sink)) {}

void console::say(note_level level, const std::string& text) {
  if (level < least_) return;
  std::string line = "ddprun " + node_ + " " + clock_text() + ": ";
  if (level == note_level::error) line += "error: ";
  if (level == note_level::warning) line += "warning: ";
  sink_(line + text + "\n");
}

bool console::show_failure(const cause& first_cause) {
  const bool is_workers = first_cause.rank.has_value();
  if (!is_workers || (first_cause.tail.empty() && first_cause.kind != cause_class::signal)) {
    return false;
  }
  if (tail_round_ == first_cause.round && tail_rank_ == first_cause.rank) return false;
  tail_round_ = first_cause.round;
  tail_rank_ = first_cause.rank;
  // One piece, with the node and the time once for each part: a merged log stays readable.
  std::string text;
  for (const std::string& line : failure_lines(first_cause)) {
    if (line.starts_with(' ')) {
      text += "\n" + line;
    } else {
      if (!text.empty()) say(note_level::info, text);
      text = line;
    }
  }
  if (!text.empty()) say(note_level::info, text);
  return true;
}

}  // namespace ddprun::launcher
