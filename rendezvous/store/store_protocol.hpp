// A store_protocol is the conversation of one TCPStore client with one keyspace: it turns the
// client's bytes into changes of the keyspace and into replies. It is the store's hot path and does
// no I/O: sockets, buffers and time belong to store/session.hpp.
//
// The first request must be VALIDATE, and no other may be. Anything else, and any request that
// breaks a rule of protocol/tcpstore.hpp or a limit of the keyspace, is an error after which the
// connection must be closed. Nothing of that request has been applied, except the pairs of a
// MULTI_SET before the one that exceeded a limit.
//
// Thread rule: the keyspace's thread. Ownership: the keyspace must outlive the store_protocol.
#pragma once

#include "rendezvous/core/store/key_value_store.hpp"
#include "rendezvous/protocol/tcpstore.hpp"
#include "rendezvous/protocol/tcpstore_replies.hpp"

#include <cstddef>
#include <string_view>

namespace ddprun::store {

class store_protocol {
 public:
  // While more unsent bytes than this wait, no further request is handled.
  static constexpr std::size_t unsent_bytes_max = 1024 * 1024;

  explicit store_protocol(core::key_value_store& values);
  ~store_protocol();
  store_protocol(const store_protocol&) = delete;
  store_protocol& operator=(const store_protocol&) = delete;

  // Applies all complete requests at the start of `bytes` and appends their replies, until the
  // bytes or the room for replies are used up. Returns how many bytes were used; pass the rest
  // again with what has arrived since. `values.woken()` names other clients whose waits have ended.
  result<std::size_t> on_bytes(std::string_view bytes, protocol::tcpstore::replies& replies);

  // This client's wait has ended: appends the reply.
  void on_woken(protocol::tcpstore::replies& replies);

  bool validated() const { return validated_; }
  // It has sent something beyond VALIDATE and PING, which any stranger may send.
  bool has_used() const { return has_used_; }
  core::key_value_store::client_id id() const { return id_; }
  // The fewest bytes that `on_bytes` needs before it can use any.
  std::size_t bytes_wanted() const { return parser_.bytes_wanted(); }
  // The memory that it holds of an incomplete request.
  std::size_t memory() const { return parser_.memory(); }

 private:
  error_code apply(const protocol::tcpstore::request& request,
                   protocol::tcpstore::replies& replies);
  error_code apply_waits(const protocol::tcpstore::request& request,
                         protocol::tcpstore::replies& replies);
  void answer_own_wake(protocol::tcpstore::replies& replies);
  void answer_value(std::string_view key, protocol::tcpstore::replies& replies) const;
  error_code list_keys(protocol::tcpstore::replies& replies) const;

  core::key_value_store& values_;
  protocol::tcpstore::request_parser parser_;
  core::key_value_store::client_id id_;
  bool validated_ = false;
  bool has_used_ = false;
};

}  // namespace ddprun::store
