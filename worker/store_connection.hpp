// A store connection asks a TCPStore one question at a time over a blocking stream, and returns by
// the deadline with the whole reply or with an error.
//
// It deals with requests and replies (rendezvous/protocol); store_client knows what they are for.
// Requests that TCPStore does not reply to (SET, APPEND, MULTI_SET, QUEUE_PUSH) are sent with a
// PING behind them in the same segment, so that success means that the store has executed them.
//
// If the deadline of a WAIT or BARRIER passes, it is cancelled with CANCEL_WAIT at once. The reply
// to that is read before the next question's reply; if the wait was answered meanwhile, its own
// reply comes first and is skipped. Any other question that is not answered in time ends the
// connection, because a late reply could not be distinguished from the next one.
//
// Memory: a reply is buffered as it arrives, up to protocol::tcpstore::reply_bytes_max. At the next
// question a buffer larger than `kept_bytes_max` is freed.
//
// Thread rule: one thread at a time.
// Errors: timed_out; message_too_long, before anything is sent, if the question exceeds a limit of
// the protocol; connection_closed; connection_silent if a CANCEL_WAIT is not answered for
// `silence_limit`; malformed_message or message_too_long if the peer does not answer as a TCPStore
// does; otherwise the system's error. `problem()` says in one line which question failed, after
// what time, and why.
#pragma once

#include "rendezvous/protocol/tcpstore_reply_parser.hpp"
#include "worker/blocking_stream.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ddprun::worker {

class store_connection {
 public:
  static constexpr std::size_t kept_bytes_max = 1024 * 1024;

  struct settings {
    std::string who;  // prefixes every problem; may be empty
    duration silence_limit = std::chrono::seconds(30);
    int segment_bytes_max = 0;  // TCP segments in both directions; 0: the kernel's choice
  };

  // Retries until the deadline, since the store may not listen yet, but fails at once with
  // errc::wrong_protocol if the peer is not a TCPStore.
  static result<std::shared_ptr<store_connection>> open(const std::string& host, std::uint16_t port,
                                                        const deadline& until, settings chosen,
                                                        std::string& problem);

  store_connection(blocking_stream stream, std::string place, settings chosen);

  struct question {
    protocol::tcpstore::opcode code;
    std::span<const std::string_view> strings;  // as sent on the wire
    std::int64_t number = 0;
  };

  // The strings of the reply are valid until the next question.
  result<protocol::tcpstore::reply> ask(const question& what, const deadline& until);

  // Describes the last question that failed.
  const std::string& problem() const { return problem_; }
  // True once no further question can be answered.
  bool is_over() const { return bool(over_); }

 private:
  error_code fail(const question& what, error_code code, const std::string& why);
  error_code end(const question& what, error_code code);
  error_code take_back(const question& what, const deadline& until);
  error_code settle_cancel(const question& what, const deadline& until);
  result<protocol::tcpstore::reply> read_reply(const question& what, const deadline& until);
  std::string elapsed() const;

  blocking_stream stream_;
  std::string place_;  // such as "rank 3 of 4: store at node-a:29500"
  settings settings_;
  std::string problem_;
  error_code over_;
  std::string over_why_;
  std::string received_;
  std::string unsent_;  // the next request; at first the greeting too
  time_point asked_at_{};
  time_point cancelled_at_{};
  bool cancel_pending_ = false;  // a CANCEL_WAIT was sent and is not answered yet
  bool crossed_ = false;         // the wait that it cancels was answered meanwhile
  std::uint32_t nonce_;
};

}  // namespace ddprun::worker
