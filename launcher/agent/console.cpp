#include "launcher/agent/console.hpp"

#include <array>
#include <cstdio>
#include <sstream>
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

std::vector<std::string> failure_lines(const cause& first_cause) {
  std::vector<std::string> lines;
  if (first_cause.tail.empty()) return lines;
  lines.push_back("the last lines that it wrote to stderr:");
  std::istringstream stream(first_cause.tail);
  for (std::string line; std::getline(stream, line);)
    lines.push_back("  | " + line);
  return lines;
}

console::console(std::string node, note_level least, std::function<void(std::string)> sink)
    : node_(std::move(node)), least_(least), sink_(std::move(sink)) {}

void console::say(note_level level, const std::string& text) {
  if (level < least_) return;
  std::string line = "ddprun " + node_ + " " + clock_text() + ": ";
  if (level == note_level::error) line += "error: ";
  if (level == note_level::warning) line += "warning: ";
  sink_(line + text + "\n");
}

bool console::show_tail(const cause& first_cause) {
  if (first_cause.tail.empty()) return false;
  if (tail_round_ == first_cause.round && tail_rank_ == first_cause.rank) return false;
  tail_round_ = first_cause.round;
  tail_rank_ = first_cause.rank;
  for (const std::string& line : failure_lines(first_cause))
    say(note_level::info, line);
  return true;
}

}  // namespace ddprun::launcher
