#include "rendezvous/store/store_protocol.hpp"

#include <algorithm>
#include <vector>

namespace ddprun::store {

using protocol::tcpstore::opcode;
using protocol::tcpstore::request;
using protocol::tcpstore::request_parser;
using tcpstore_replies = protocol::tcpstore::replies;

namespace {

std::vector<std::string_view> keys_of(const request& request) {
  std::vector<std::string_view> keys;
  keys.reserve(request.size());
  for (std::size_t index = 0; index < request.size(); ++index)
    keys.push_back(request[index]);
  return keys;
}

}  // namespace

store_protocol::store_protocol(core::key_value_store& values)
    : values_(values), id_(values.attach()) {}

store_protocol::~store_protocol() {
  values_.detach(id_);
}

result<std::size_t> store_protocol::on_bytes(std::string_view bytes, tcpstore_replies& replies) {
  std::size_t used = 0;
  while (used < bytes.size() && replies.bytes_left() <= unsent_bytes_max) {
    // The first byte is enough to recognise a stranger, whatever follows.
    if (!validated_ && bytes[used] != static_cast<char>(opcode::validate)) {
      return errc::wrong_protocol;
    }
    request parsed;
    const auto outcome = parser_.parse(bytes.substr(used), parsed);
    if (outcome == request_parser::outcome::incomplete) break;
    if (outcome == request_parser::outcome::failed) return parser_.error();
    if (const error_code error = apply(parsed, replies)) return error;
    used += parser_.consumed();
    has_used_ = has_used_ || (parsed.code != opcode::validate && parsed.code != opcode::ping);
    if (!values_.woken().empty()) answer_own_wake(replies);
  }
  return used;
}

void store_protocol::on_woken(tcpstore_replies& replies) {
  replies.add_byte(protocol::tcpstore::reply_stop_waiting);
}

// A client may end its own wait with a later request. Its answers keep the order of the requests.
void store_protocol::answer_own_wake(tcpstore_replies& replies) {
  const auto count = std::erase(values_.woken(), id_);
  for (std::size_t index = 0; index < count; ++index)
    on_woken(replies);
}

error_code store_protocol::apply(const request& request, tcpstore_replies& replies) {
  switch (request.code) {
    case opcode::validate:
      if (validated_ || request.number != protocol::tcpstore::validate_magic) {
        return errc::wrong_protocol;
      }
      validated_ = true;
      return {};
    case opcode::set:
      return values_.set(request[0], request[1]);
    case opcode::compare_set: {
      const auto value = values_.compare_set(request[0], request[1], request[2]);
      if (!value) return value.error();
      replies.add_value(*value);
      return {};
    }
    case opcode::get:
      answer_value(request[0], replies);
      return {};
    case opcode::add: {
      const auto sum = values_.add(request[0], request.number);
      if (!sum) return sum.error();
      replies.add_i64(*sum);
      return {};
    }
    case opcode::get_num_keys:
      replies.add_i64(static_cast<std::int64_t>(values_.size()));
      return {};
    case opcode::delete_key:
      replies.add_i64(values_.erase(request[0]));
      return {};
    case opcode::append:
      return values_.append(request[0], request[1]);
    case opcode::multi_get:
      for (std::size_t index = 0; index < request.size(); ++index) {
        answer_value(request[index], replies);
      }
      return {};
    // A limit may be met half-way. Then the client is disconnected, and the pairs before that stay.
    case opcode::multi_set:
      for (std::size_t index = 0; index < request.size(); index += 2) {
        if (const error_code error = values_.set(request[index], request[index + 1])) return error;
      }
      return {};
    case opcode::ping:
      replies.add_u32(static_cast<std::uint32_t>(request.number));
      return {};
    case opcode::queue_push:
      return values_.queue_push(request[0], request[1]);
    case opcode::queue_pop: {
      std::int64_t length = 0;
      const core::shared_bytes value = values_.queue_pop(request[0], id_, length);
      replies.add_i64(length);
      if (value) replies.add_value(value);
      return {};
    }
    case opcode::queue_len:
      replies.add_i64(values_.queue_length(request[0]));
      return {};
    case opcode::list_keys:
      return list_keys(replies);
    case opcode::check:
    case opcode::wait:
    case opcode::cancel_wait:
    case opcode::barrier:
      return apply_waits(request, replies);
  }
  return errc::unknown_message;
}

void store_protocol::answer_value(std::string_view key, tcpstore_replies& replies) const {
  // A small value is copied from where it lies. A large one is shared instead, which keeps it
  // alive, and counted, until it has been sent.
  const std::string_view value = values_.peek(key);
  if (replies.copies(value.size())) return replies.add_string(value);
  replies.add_value(values_.get(key));
}

error_code store_protocol::apply_waits(const request& request, tcpstore_replies& replies) {
  switch (request.code) {
    case opcode::check: {
      bool ready = true;
      for (std::size_t index = 0; ready && index < request.size(); ++index) {
        ready = values_.exists(request[index]);
      }
      replies.add_byte(ready ? protocol::tcpstore::reply_ready
                             : protocol::tcpstore::reply_not_ready);
      return {};
    }
    case opcode::cancel_wait:
      values_.cancel_wait(id_);
      replies.add_byte(protocol::tcpstore::reply_wait_canceled);
      return {};
    default:
      break;
  }
  result<core::wait_outcome> outcome = core::wait_outcome::waiting;
  if (request.code == opcode::barrier) {
    outcome = values_.barrier(id_, request[0], request.number);
  } else if (request.size() == 1) {
    // A wait for one key needs no list.
    const std::string_view key = request[0];
    outcome = values_.wait(id_, std::span(&key, 1));
  } else {
    outcome = values_.wait(id_, keys_of(request));
  }
  if (!outcome) return outcome.error();
  if (*outcome == core::wait_outcome::over) on_woken(replies);
  return {};
}

error_code store_protocol::list_keys(tcpstore_replies& replies) const {
  // Bounded like a request: a key may be long, and there may be millions.
  const std::size_t bytes = values_.value_keys_bytes() + values_.size() * sizeof(std::int64_t);
  if (bytes > protocol::tcpstore::request_bytes_max) return errc::limit_reached;
  replies.reserve(bytes + sizeof(std::int64_t));
  replies.add_i64(static_cast<std::int64_t>(values_.size()));
  values_.for_each_key([&](std::string_view key) { replies.add_string(key); });
  return {};
}

}  // namespace ddprun::store
