// PyTorch's TCPStore protocol: requests as a client writes them (torch 2.11 to 2.15,
// torch/csrc/distributed/c10d/TCPStoreBackend.hpp and TCPStoreLibUvBackend.cpp).
//
// A request is an opcode byte and its fields, without a frame: strings are a 64-bit length and
// their bytes, and all integers are little-endian. A parser reads one request at a time from bytes
// that may arrive in any pieces; nothing is applied before the request is complete. A length beyond
// its limit fails as soon as its eight bytes have arrived, before anything is allocated for it.
//
// Errors: unknown_message (no such opcode), message_too_long (a limit below), malformed_message (a
// negative count). After an error the connection cannot be used any more.
#pragma once

#include "rendezvous/base/error.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::protocol::tcpstore {

enum class opcode : std::uint8_t {
  validate = 0,      // number: the magic
  set = 1,           // key, value
  compare_set = 2,   // key, expected, desired
  get = 3,           // key
  add = 4,           // key, number
  check = 5,         // keys
  wait = 6,          // keys
  get_num_keys = 7,  //
  delete_key = 8,    // key
  append = 9,        // key, value
  multi_get = 10,    // keys
  multi_set = 11,    // key, value, key, value, ...
  cancel_wait = 12,  //
  ping = 13,         // number: echoed
  queue_push = 14,   // key, value
  queue_pop = 15,    // key
  queue_len = 16,    // key
  list_keys = 17,    //
  barrier = 18,      // key, number: the world size (since torch 2.12)
};

inline constexpr std::uint32_t validate_magic = 0x3C85F7CE;
inline constexpr std::size_t length_bytes = 8;  // before each string
inline constexpr std::size_t key_bytes_max = 8192;
inline constexpr std::size_t value_bytes_max = 8 * 1024 * 1024;
inline constexpr std::size_t keys_per_request_max = 131072;
inline constexpr std::size_t request_bytes_max = 64 * 1024 * 1024;  // all of one request

// The one-byte replies to CHECK, and to WAIT, BARRIER and CANCEL_WAIT.
inline constexpr char reply_ready = 0;
inline constexpr char reply_not_ready = 1;
inline constexpr char reply_stop_waiting = 0;
inline constexpr char reply_wait_canceled = 1;

// One complete request: a view of the bytes it was parsed from.
class request {
 public:
  opcode code = opcode::validate;
  std::int64_t number = 0;  // ADD: delta, BARRIER: world size, VALIDATE and PING: 32 unsigned bits

  std::size_t size() const { return size_; }  // number of strings
  std::string_view operator[](std::size_t index) const {
    const place at = size_ <= few_.size() ? few_[index] : many_[index];
    return {bytes_ + at.offset, at.length};
  }

 private:
  friend class request_parser;
  struct place {
    std::uint32_t offset;
    std::uint32_t length;
  };
  const char* bytes_ = nullptr;
  std::size_t size_ = 0;
  std::array<place, 4> few_;  // if there are at most four
  std::vector<place> many_;
};

struct request_shape;

class request_parser {
 public:
  enum class outcome { complete, incomplete, failed };

  // Reads the request at the start of `bytes`. After `incomplete` it must be called with the same
  // bytes and some more; they may lie elsewhere in memory.
  outcome parse(std::string_view bytes, request& parsed);

  // After `complete`: the size of the request in bytes.
  std::size_t consumed() const { return consumed_; }
  // After `incomplete`: the fewest bytes needed before anything new can be read. Never more than
  // request_bytes_max, but claimed by the peer: allocate only as bytes arrive.
  std::size_t bytes_wanted() const { return wanted_; }
  // The memory held for an unfinished request: the positions of many strings.
  std::size_t memory() const {
    return many_ ? sizeof(progress) + many_->strings.capacity() * sizeof(request::place) : 0;
  }
  // Valid after `failed`.
  error_code error() const { return error_; }

 private:
  // How far a request with many strings has been read. One with few is read again each time.
  struct progress {
    std::vector<request::place> strings;
    std::size_t total = 0;
    std::size_t scanned = 0;  // bytes
  };

  outcome want(std::size_t bytes);
  outcome fail(errc error);
  outcome parse_count(std::string_view bytes, const request_shape& form, std::size_t& total);
  outcome parse_string(std::string_view bytes, bool is_key, std::size_t& scanned,
                       request::place& place);
  outcome parse_many(std::string_view bytes, const request_shape& form, request& parsed);
  outcome complete(std::string_view bytes, const request_shape& form, std::size_t scanned,
                   request& parsed);

  std::unique_ptr<progress> many_;
  std::uint32_t consumed_ = 0;
  std::uint32_t wanted_ = 1;
  errc error_ = errc::success;
};

// Appends one request to `out`, as PyTorch's client writes it: the number of keys (or pairs, for
// MULTI_SET) comes first if the opcode has one, and `number` last if it has one.
void append_request(std::string& out, opcode code, std::span<const std::string_view> strings,
                    std::int64_t number = 0);
void append_request(std::string& out, opcode code,
                    std::initializer_list<std::string_view> strings = {}, std::int64_t number = 0);

// Little-endian integers and length-prefixed strings, as in replies.
void append_u32(std::string& out, std::uint32_t value);
void append_i64(std::string& out, std::int64_t value);
void append_string(std::string& out, std::string_view value);

}  // namespace ddprun::protocol::tcpstore
