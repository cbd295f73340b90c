#include "launcher/agent/worker_cause.hpp"

#include "launcher/report/failure_text.hpp"
#include "rendezvous/base/utf8.hpp"

#include <chrono>
#include <variant>

namespace ddprun::launcher {
namespace {

// A worker that has printed more than this after an exception has gone on with its work.
constexpr std::size_t last_words_max = 512;

constexpr std::size_t sentence_bytes_max = 200;

// Finds the exception with which it was exiting when it was stopped.
bool take_failure_before_stop(cause& why, const worker_end& end) {
  if (end.tail_before_stop.empty()) return false;
  cause before = why;
  before.kind = cause_class::exit;
  before.code = 1;  // as that exception would have ended it
  before.tail = end.tail_before_stop;
  const failure_text words = read_failure(before);
  if (words.error.empty() || words.is_secondary) return false;
  const std::size_t at = before.tail.rfind(words.error.substr(0, words.error.find(" ...")));
  if (at == std::string::npos || before.tail.size() - at > words.error.size() + last_words_max) {
    return false;
  }
  why.was_failing = true;
  why.text = words.error;
  why.tail = end.tail_before_stop;
  return true;
}

// Not a failure unless it was tried: another worker could not be started, or the round was stopped
// first.
cause cause_of_no_start(const worker_end& end) {
  cause why;
  why.local_rank = end.local_rank;
  why.kind = cause_class::start;
  if (const auto* const failure = std::get_if<start_failure>(&end.how)) {
    why.code = failure->error;
    why.text = failure->describe();
  } else {
    why.by_our_stop = true;
    why.text = "not started, because the round was over";
  }
  return why;
}

}  // namespace

cause cause_of(const worker_end& end, const std::string& recorded) {
  if (!end.was_started()) return cause_of_no_start(end);
  const exit_status& status = end.status();
  cause why;
  why.rank = end.rank;
  why.local_rank = end.local_rank;
  why.process = end.pid;
  why.kind = status.signal != 0 ? cause_class::signal : cause_class::exit;
  why.code = status.signal != 0 ? status.signal : status.code;
  why.age = std::chrono::steady_clock::now() - end.ended_at;
  if (status.success() || take_failure_before_stop(why, end)) return why;
  why.tail = end.tail;
  failure_text words = read_failure(why);
  if (!recorded.empty()) {
    cause kept = why;
    kept.tail = recorded;
    if (failure_text more = read_failure(kept); !more.error.empty()) {
      words = std::move(more);
      why.tail = recorded;
    } else if (words.error.empty() && !words.is_secondary) {
      // Not an exception, but a sentence of a program that writes the file itself.
      words.error = first_of(recorded.substr(0, recorded.find('\n')), sentence_bytes_max);
    }
  }
  why.is_secondary = words.is_secondary;
  why.text = words.error;
  if (status.core_dumped) why.text += why.text.empty() ? "core dumped" : " (core dumped)";
  return why;
}

}  // namespace ddprun::launcher
