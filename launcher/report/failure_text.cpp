#include "launcher/report/failure_text.hpp"

#include "launcher/report/output_lines.hpp"
#include "rendezvous/base/utf8.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <limits>
#include <sstream>

namespace ddprun::launcher {
namespace {

constexpr std::size_t frames_max = 3;
constexpr std::size_t raw_lines_max = 12;
constexpr std::size_t shown_line_bytes_max = 200;

std::string cut(std::string text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  return std::string(first_of(text, bytes_max)) + " ...";
}

// True if something else has killed the process, so that earlier output is not the reason. A crash
// signal may come from the process's own exit.
bool is_ended_from_outside(const cause& value) {
  if (value.kind != cause_class::signal) return false;
  for (const int crash : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP}) {
    if (value.code == crash) return false;
  }
  return true;
}

// How many lines may follow the reason of a program's end. After an uncaught exception (exit code
// 1) only output of exit handlers follows, and that may be long.
struct nearness {
  std::size_t uncaught;
  std::size_t other;
};
constexpr nearness anywhere = {std::numeric_limits<std::size_t>::max(),
                               std::numeric_limits<std::size_t>::max()};

nearness nearness_of(const cause& value) {
  if (is_ended_from_outside(value)) return {3, 3};
  const bool is_exceptions = value.kind == cause_class::exit && value.code == 1;
  return {is_exceptions ? 40U : 10U, 10};
}

// Finds the chain that has ended the program; null: none has.
const python_chain* reason_in(const std::vector<python_chain>& chains, const nearness& near) {
  const python_chain* reason = nullptr;
  for (const python_chain& chain : chains) {
    const bool is_uncaught = chain.by == printed_by::interpreter;
    if (chain.lines_after > (is_uncaught ? near.uncaught : near.other)) continue;
    // Of equal rank, the last one counts: earlier ones were survived.
    if (reason == nullptr || chain.by <= reason->by) reason = &chain;
  }
  return reason;
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

bool says_more(const signature& one, const signature& than) {
  if (one.is_crash() || than.is_crash()) return !one.is_crash();
  return !one.is_secondary() || than.is_secondary();
}

// Among the lines near the end: the first one that is a root cause, otherwise the first one known.
const signature* known_in(std::string_view text, const nearness& near) {
  const std::vector<std::string_view> lines = output_lines(text);
  const signature* best = nullptr;
  std::size_t after = 0;
  for (auto line = lines.rbegin(); line != lines.rend() && after <= near.other; ++line) {
    if (!is_of_way_out(*line)) ++after;
    const signature* const found = find_signature(*line);
    if (found != nullptr && (best == nullptr || says_more(*found, *best))) best = found;
  }
  return best;
}

// True for errors whose message continues in the following lines.
bool is_of_group(std::string_view text) {
  return text.starts_with("torch.distributed.") || text.starts_with("RuntimeError: ");
}

// NCCL's own last error says more than PyTorch's sentence above it.
const signature* known_of(const python_error& error) {
  const auto mark = std::find(error.more.begin(), error.more.end(), "Last error:");
  if (mark != error.more.end() && std::next(mark) != error.more.end()) {
    const signature* const last = find_signature(*std::next(mark));
    if (last != nullptr) return last;
  }
  const signature* const own = find_signature(error.text);
  if (own != nullptr || !is_of_group(error.text)) return own;
  for (const std::string& line : error.more) {
    if (const signature* const below = find_signature(line)) return below;
  }
  return nullptr;
}

bool is_secondary(const python_error& error) {
  const signature* const known = known_of(error);
  return known != nullptr && known->is_secondary();
}

// The first exception of a chain decides whether the failure is secondary. The one that is reported
// is what ended the program, not a failure on its way out.
void take_chain(failure_text& words, const std::vector<python_error>& chain) {
  words.is_secondary = is_secondary(chain.front()) && !chain.front().has_lost_origin;
  // The way out may fail because peers are gone, so secondary errors at the end are skipped.
  const auto last = std::find_if_not(chain.rbegin(), chain.rend(), is_secondary);
  const python_error& told = words.is_secondary || last == chain.rend() ? chain.front() : *last;
  words.error = cut(told.text, shown_line_bytes_max);
  words.frames = last_own_frames(told.frames);
  words.known = known_of(told);
  for (const python_error& error : chain) {
    if (words.known == nullptr && !is_secondary(error)) words.known = known_of(error);
  }
}

failure_text read_text(std::string_view text, const nearness& near) {
  failure_text words;
  const std::vector<python_chain> chains = find_python_chains(text);
  if (const python_chain* const reason = reason_in(chains, near)) {
    take_chain(words, reason->errors);
  } else {
    words.frames = last_own_frames(find_dumped_frames(text));
    words.known = known_in(text, near);
    words.is_secondary = words.known != nullptr && words.known->is_secondary();
  }
  return words;
}

std::vector<std::string> last_lines(const std::string& tail) {
  std::vector<std::string> lines;
  std::istringstream stream(tail);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(cut(line, shown_line_bytes_max));
  if (lines.size() > raw_lines_max) lines.erase(lines.begin(), lines.end() - raw_lines_max);
  return lines;
}

}  // namespace

failure_text read_failure(const cause& value) {
  failure_text words = read_text(value.tail, nearness_of(value));
  // A process killed from outside, or never started, follows from no other rank.
  if (is_ended_from_outside(value) || value.kind == cause_class::start) words.is_secondary = false;
  if (value.kind == cause_class::signal && value.text.starts_with("out of memory: ")) {
    words.known = signature_of_oom_kill();
  } else if (words.known == nullptr && value.kind == cause_class::signal) {
    words.known = signature_of_signal(value.code);
  }
  return words;
}

failure_text read_log(std::string_view text) {
  return read_text(text, anywhere);
}

std::vector<std::string> failure_lines(const cause& value) {
  return failure_lines(read_failure(value), value.tail);
}

std::vector<std::string> failure_lines(const failure_text& words, const std::string& tail) {
  std::vector<std::string> lines;
  if (!words.frames.empty()) {
    lines.emplace_back("where it failed, the innermost last:");
    for (const python_frame& frame : words.frames) {
      lines.push_back("  " + cut(frame.place, shown_line_bytes_max) +
                      (frame.code.empty() ? "" : ": " + cut(frame.code, shown_line_bytes_max)));
    }
  } else if (!tail.empty()) {
    lines.emplace_back("the last lines that it wrote to stderr:");
    for (const std::string& line : last_lines(tail))
      lines.push_back("  " + line);
  }
  if (words.known != nullptr) {
    lines.push_back("that means: " + std::string(words.known->meaning) +
                    "; what to do: " + std::string(words.known->advice));
  }
  return lines;
}

}  // namespace ddprun::launcher
