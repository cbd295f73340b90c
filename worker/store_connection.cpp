#include "worker/store_connection.hpp"

#include "rendezvous/base/lost_peer.hpp"
#include "rendezvous/net/net_types.hpp"
#include "worker/store_question.hpp"

#include <algorithm>
#include <random>
#include <unistd.h>
#include <utility>

namespace ddprun::worker {
namespace {

namespace wire = protocol::tcpstore;
using namespace std::chrono_literals;

constexpr duration first_pause = 20ms;
constexpr duration longest_pause = 1s;
constexpr duration last_try = 20ms;  // the time that is reserved for a last attempt

// The size of one read: never much more than has arrived, whatever length the store claims.
constexpr std::size_t read_bytes_min = 4096;
constexpr std::size_t read_bytes_max = 256 * 1024;

void shrink(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > store_connection::kept_bytes_max) std::string().swap(buffer);
}

std::string in_front(const std::string& who) {
  return who.empty() ? "" : who + ": ";
}

// Jitter keeps thousands of ranks that start together from retrying together.
duration with_jitter(duration pause) {
  static thread_local std::minstd_rand random(std::random_device{}());
  return pause / 2 + pause * std::uniform_int_distribution<int>(0, 1000)(random) / 1000;
}

bool is_stranger(error_code error) {
  return error == errc::malformed_message || error == errc::message_too_long;
}

// False if the question itself is to blame, or if the peer is not a TCPStore.
bool is_of_peer(error_code error) {
  return !is_stranger(error) && error != errc::wrong_protocol;
}

}  // namespace

result<std::shared_ptr<store_connection>> store_connection::open(const std::string& host,
                                                                 std::uint16_t port,
                                                                 const deadline& until,
                                                                 settings chosen,
                                                                 std::string& problem) {
  const time_point start = std::chrono::steady_clock::now();
  const std::string store = in_front(chosen.who) + "store at " + net::endpoint_text(host, port);
  duration delay = duration::zero();
  std::string why = "the deadline had passed before the first try";
  int tries = 0;
  for (duration pause = first_pause; !until.passed();
       pause = std::min(pause * 3 / 2, longest_pause)) {
    ++tries;
    std::string failure;
    auto stream =
        blocking_stream::dial(host, port, delay, until, failure, chosen.segment_bytes_max);
    if (stream) {
      auto made = std::make_shared<store_connection>(std::move(*stream), store, chosen);
      const auto greeted = made->ask({wire::opcode::ping, {}, made->nonce_}, until);
      if (greeted) return made;
      if (is_stranger(greeted.error())) {
        problem = store + ": what listens there is not a TCPStore";
        return errc::wrong_protocol;
      }
      failure = "connected, but " + made->over_why_;
    }
    why = failure;
    const duration left = until.left();
    if (left <= last_try) break;
    delay = std::min(with_jitter(pause), left - last_try);
  }
  // Round the time up: it was computed a moment after a deadline of whole units was set.
  const std::string span = to_text(until.at() - start + 1ms);
  problem = for_want_of_peer(store + ": not reached within " + span + " (" + std::to_string(tries) +
                             (tries == 1 ? " try): " : " tries): ") + why);
  return errc::timed_out;
}

store_connection::store_connection(blocking_stream stream, std::string place, settings chosen)
    : stream_(std::move(stream)),
      place_(std::move(place)),
      settings_(std::move(chosen)),
      nonce_(static_cast<std::uint32_t>(::getpid())) {
  wire::append_request(unsent_, wire::opcode::validate, {}, wire::validate_magic);
}

std::string store_connection::elapsed() const {
  return to_text(std::chrono::steady_clock::now() - asked_at_);
}

error_code store_connection::fail(const question& what, error_code code, const std::string& why) {
  problem_ = place_ + ": " + question_text(what.code, what.strings) + ": " + why;
  if (is_of_peer(code)) problem_ = for_want_of_peer(std::move(problem_));
  return code;
}

// Closes the connection: no further question can be answered.
error_code store_connection::end(const question& what, error_code code) {
  if (code == errc::timed_out) {
    over_why_ = "no answer within " + elapsed();
  } else if (code == errc::connection_closed) {
    over_why_ = "the store closed the connection after " + elapsed();
  } else if (code == errc::connection_silent) {
    over_why_ = "the store is silent for longer than " + to_text(settings_.silence_limit);
  } else if (is_stranger(code)) {
    over_why_ = "the answer is not one that a TCPStore gives (" + code.message() + ")";
  } else {
    over_why_ = code.message() + " after " + elapsed();
  }
  over_ = code;
  stream_.close();
  shrink(received_);
  fail(what, code, over_why_);
  over_why_ += ", to " + question_text(what.code, what.strings);
  return code;
}

// Cancels a wait whose deadline has passed.
error_code store_connection::take_back(const question& what, const deadline& until) {
  const std::string why = "still waiting after " + elapsed();
  std::string cancel;
  wire::append_request(cancel, wire::opcode::cancel_wait);
  if (const error_code error = stream_.send(cancel, until)) return end(what, error);
  cancel_pending_ = true;
  crossed_ = false;
  cancelled_at_ = std::chrono::steady_clock::now();
  return fail(what, errc::timed_out, why);
}

// Reads the reply to the last CANCEL_WAIT, and before it the reply to the wait if the two crossed.
error_code store_connection::settle_cancel(const question& what, const deadline& until) {
  while (cancel_pending_) {
    const error_code error = stream_.receive(received_, read_bytes_min, until);
    if (error == errc::timed_out) {
      const duration silent = std::chrono::steady_clock::now() - cancelled_at_;
      if (silent >= settings_.silence_limit) return end(what, errc::connection_silent);
      return fail(
          what, error,
          "not sent: the store has not answered the end of the last wait for " + to_text(silent));
    }
    if (error) return end(what, error);
    for (const char byte : std::exchange(received_, {})) {
      // The reply to CANCEL_WAIT is the last that may come.
      if (!cancel_pending_) return end(what, errc::malformed_message);
      if (byte == wire::reply_wait_canceled) {
        cancel_pending_ = false;
      } else if (byte == wire::reply_stop_waiting && !crossed_) {
        crossed_ = true;
      } else {
        return end(what, errc::malformed_message);
      }
    }
  }
  return {};
}

result<wire::reply> store_connection::ask(const question& what, const deadline& until) {
  asked_at_ = std::chrono::steady_clock::now();
  if (over_) return fail(what, over_, "the connection was closed: " + over_why_);
  if (const std::string limit = broken_limit(what.code, what.strings); !limit.empty()) {
    return fail(what, errc::message_too_long, limit);
  }
  if (until.passed()) return fail(what, errc::timed_out, "not sent: the deadline had passed");
  shrink(received_);
  if (const error_code error = settle_cancel(what, until)) return error;
  wire::append_request(unsent_, what.code, what.strings, what.number);
  if (has_no_reply(what.code)) wire::append_request(unsent_, wire::opcode::ping, {}, ++nonce_);
  const error_code error = stream_.send(unsent_, until);
  shrink(unsent_);
  if (error) return end(what, error);
  return read_reply(what, until);
}

result<wire::reply> store_connection::read_reply(const question& what, const deadline& until) {
  using outcome = wire::reply_parser::outcome;
  const wire::opcode answered = has_no_reply(what.code) ? wire::opcode::ping : what.code;
  wire::reply_parser parser(answered, what.strings.size());
  wire::reply parsed;
  while (true) {
    const outcome now = parser.parse(received_, parsed);
    if (now == outcome::failed) return end(what, parser.error());
    if (now == outcome::complete) break;
    const std::size_t missing = parser.bytes_wanted() - received_.size();
    const std::size_t room = std::clamp(missing, read_bytes_min, read_bytes_max);
    // Bytes that keep coming must not carry the call beyond its deadline.
    const bool late = !received_.empty() && until.passed();
    const error_code error =
        late ? make_error_code(errc::timed_out) : stream_.receive(received_, room, until);
    if (error == errc::timed_out && is_wait(what.code)) return take_back(what, until);
    if (error) return end(what, error);
  }
  // Only one reply was asked for, so nothing may follow it.
  const std::int64_t nonce = has_no_reply(what.code) ? nonce_ : what.number;
  const bool echoes = answered != wire::opcode::ping || parsed.number == nonce;
  if (parser.consumed() != received_.size() || !echoes) return end(what, errc::malformed_message);
  return parsed;
}

}  // namespace ddprun::worker
