#include "launcher/report/failure_words.hpp"

#include "rendezvous/base/utf8.hpp"

#include <algorithm>
#include <csignal>
#include <sstream>

namespace ddprun::launcher {
namespace {

constexpr std::size_t frames_max = 3;
constexpr std::size_t raw_lines_max = 12;
constexpr std::size_t line_bytes_max = 200;

std::string cut(std::string text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  return std::string(first_of(text, bytes_max)) + " ...";
}

// A process that did something forbidden has a reason of its own, whatever it has printed.
bool is_own_fault(const cause& value) {
  return value.kind == cause_class::signal && value.code != SIGABRT;
}

std::vector<python_frame> last_own_frames(const std::vector<python_frame>& frames) {
  std::vector<python_frame> own;
  for (const python_frame& frame : frames) {
    if (frame.is_users) own.push_back(frame);
  }
  if (own.empty() && !frames.empty()) own.push_back(frames.back());
  if (own.size() > frames_max) own.erase(own.begin(), own.end() - frames_max);
  return own;
}

const signature* known_in(std::string_view text, bool only_effects) {
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) {
    const signature* const found = find_signature(line);
    if (found != nullptr && (!only_effects || found->is_effect())) return found;
  }
  return nullptr;
}

// NCCL's own last error says more than PyTorch's sentence above it.
const signature* known_of(const python_error& error) {
  const signature* const below = find_signature(error.last_error);
  return below != nullptr ? below : find_signature(error.text);
}

bool is_effect(const python_error& error) {
  const signature* const known = known_of(error);
  return known != nullptr && known->is_effect();
}

std::vector<std::string> last_lines(const std::string& tail) {
  std::vector<std::string> lines;
  std::istringstream stream(tail);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(cut(line, line_bytes_max));
  if (lines.size() > raw_lines_max) lines.erase(lines.begin(), lines.end() - raw_lines_max);
  return lines;
}

}  // namespace

failure_words read_failure(const cause& value) {
  failure_words words;
  const std::vector<python_error> chain = find_python_errors(value.tail);
  if (!chain.empty()) {
    // What happened first says whether it is an effect. Told is what ended the program, but not
    // that its way out failed, too.
    words.is_effect = is_effect(chain.front()) && !chain.front().has_lost_origin;
    const auto last = std::find_if_not(chain.rbegin(), chain.rend(), is_effect);
    const python_error& told = words.is_effect || last == chain.rend() ? chain.front() : *last;
    words.error = cut(told.text, line_bytes_max);
    words.frames = last_own_frames(told.frames);
    words.known = known_of(told);
  } else {
    words.known = known_in(value.tail, false);
    const signature* const effect = known_in(value.tail, true);
    words.is_effect = words.known != nullptr && words.known == effect;
  }
  if (is_own_fault(value) || value.kind == cause_class::start) words.is_effect = false;
  if (words.known == nullptr && value.kind == cause_class::signal) {
    words.known = signature_of_signal(value.code);
  }
  return words;
}

std::vector<std::string> failure_lines(const cause& value) {
  const failure_words words = read_failure(value);
  std::vector<std::string> lines;
  if (!words.frames.empty()) {
    lines.emplace_back("where it failed, the innermost last:");
    for (const python_frame& frame : words.frames) {
      lines.push_back("  " + cut(frame.place, line_bytes_max) +
                      (frame.code.empty() ? "" : ": " + cut(frame.code, line_bytes_max)));
    }
  } else if (!value.tail.empty()) {
    lines.emplace_back("the last lines that it wrote to stderr:");
    for (const std::string& line : last_lines(value.tail))
      lines.push_back("  " + line);
  }
  if (words.known != nullptr) {
    lines.push_back("that means: " + std::string(words.known->meaning) +
                    "; check: " + std::string(words.known->advice));
  }
  return lines;
}

}  // namespace ddprun::launcher
