// Reads the replies of a TCPStore, as its client does: the counterpart of tcpstore.hpp.
//
// A reply does not say what it is; only its request does: a byte, a number, a string, a counted
// list, or nothing. A parser reads one reply from bytes that may arrive in any pieces. The server
// is not trusted: a length or count beyond its limit fails as soon as its eight bytes have arrived,
// and so does a number that no TCPStore sends.
//
// Errors: message_too_long (a limit below), malformed_message (nonsense). After an error the
// connection cannot be used any more.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/protocol/tcpstore.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::protocol::tcpstore {

// APPEND may have made a value longer than one request can carry.
inline constexpr std::size_t reply_value_bytes_max = 64 * 1024 * 1024;
inline constexpr std::size_t reply_bytes_max = 256 * 1024 * 1024;  // all of one reply
inline constexpr std::size_t listed_keys_max = std::size_t{1} << 22;

// One complete reply. `number` is the sum (ADD), the count (GETNUMKEYS, DELETE_KEY, QUEUE_LEN), the
// length before the pop (QUEUE_POP), the echo (PING) or the byte (CHECK, WAIT, CANCEL_WAIT,
// BARRIER). The strings are the values (GET, COMPARE_SET, MULTI_GET; QUEUE_POP: empty if the queue
// was) or the keys (LIST_KEYS); they are views of the parsed bytes.
struct reply {
  std::int64_t number = 0;
  std::vector<std::string_view> strings;
};

class reply_parser {
 public:
  enum class outcome { complete, incomplete, failed };

  // Reads the reply to one request; `keys` is the number of keys of a MULTI_GET. Requests without a
  // reply (VALIDATE, SET, APPEND, MULTI_SET, QUEUE_PUSH) are complete at once.
  explicit reply_parser(opcode code, std::size_t keys = 0);

  // Reads the reply at the start of `bytes`. After `incomplete` it must be called with the same
  // bytes and some more, and continues where it stopped; they may lie elsewhere in memory.
  outcome parse(std::string_view bytes, reply& parsed);

  // After `complete`: the size of the reply in bytes.
  std::size_t consumed() const { return scanned_; }
  // After `incomplete`: the fewest bytes needed before anything new can be read. Never more than
  // reply_bytes_max, but claimed by the peer: allocate only as bytes arrive.
  std::size_t bytes_wanted() const { return wanted_; }
  // Valid after `failed`.
  error_code error() const { return error_; }

 private:
  outcome want(std::size_t bytes);
  outcome fail(errc error);
  outcome scan_number(std::string_view bytes);
  outcome scan_strings(std::string_view bytes);

  opcode code_;
  bool number_pending_;
  std::int64_t number_ = 0;
  std::size_t strings_total_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // offset and length of each string
  std::size_t scanned_ = 0;                                  // bytes that were parsed
  std::size_t wanted_ = 0;
  error_code error_;
};

}  // namespace ddprun::protocol::tcpstore
