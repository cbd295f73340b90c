// A store connection asks a TCPStore one question at a time, over a blocking stream, and is back by
// the deadline with the whole reply or with an error.
//
// It knows requests and replies (rendezvous/protocol), not what they are for: store_client does.
// Requests without a reply of their own (SET, APPEND, MULTI_SET, QUEUE_PUSH) are sent with a PING
// behind them in the same segment, so that success means that the store has done it.
//
// A WAIT or BARRIER whose deadline passes is taken back with CANCEL_WAIT at once; the answer to
// that, with or without the one that crossed it, is read in front of the next reply. Any other
// question that is not answered in time ends the connection: its answer could no longer be told
// from the next one.
//
// Memory: a reply takes what has arrived of it, at most protocol::tcpstore::reply_bytes_max, and is
// given back at the next question beyond `kept_bytes_max`.
//
// Thread rule: one thread at a time.
// Errors: timed_out; message_too_long, before anything is sent, when the question breaks a limit of
// the protocol; connection_closed; connection_silent, when a CANCEL_WAIT stays unanswered for
// `silence_limit`; malformed_message or message_too_long when the answer is none that a TCPStore
// gives; the system's own. `problem()` says which question, how long, and why, in one line.
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
    std::string who;  // put in front of every problem; may be empty
    duration silence_limit = std::chrono::seconds(30);
    int segment_bytes_max = 0;  // of TCP, in both directions; 0: as the kernel has it
  };

  // Tries until the deadline, since the store may not listen yet. errc::wrong_protocol at once,
  // when what listens is no TCPStore.
  static result<std::shared_ptr<store_connection>> open(const std::string& host, std::uint16_t port,
                                                        const deadline& until, settings chosen,
                                                        std::string& problem);

  store_connection(blocking_stream stream, std::string place, settings chosen);

  struct question {
    protocol::tcpstore::opcode code;
    std::span<const std::string_view> strings;  // as on the wire
    std::int64_t number = 0;
  };

  // The strings of the reply are valid until the next question.
  result<protocol::tcpstore::reply> ask(const question& what, const deadline& until);

  // Of the last question that failed.
  const std::string& problem() const { return problem_; }
  // True when no further question can be answered.
  bool is_over() const { return bool(over_); }

 private:
  error_code fail(const question& what, error_code code, const std::string& why);
  error_code end(const question& what, error_code code);
  error_code take_back(const question& what, const deadline& until);
  error_code settle_cancel(const question& what, const deadline& until);
  result<protocol::tcpstore::reply> read_reply(const question& what, const deadline& until);
  std::string elapsed() const;

  blocking_stream stream_;
  std::string place_;  // "rank 3 of 4: store at node-a:29500"
  settings settings_;
  std::string problem_;
  error_code over_;
  std::string over_why_;
  std::string received_;
  std::string unsent_;  // of the question; starts with the greeting
  time_point asked_at_{};
  time_point cancelled_at_{};
  bool cancel_pending_ = false;  // a CANCEL_WAIT has been sent and is not answered
  bool crossed_ = false;         // the wait that it takes back was answered meanwhile
  std::uint32_t nonce_;
};

}  // namespace ddprun::worker
