// A store client is a worker's access to the job's TCPStore without LibTorch, whether PyTorch or
// ddprun serves it. Values are exchanged with Python under the same keys (`store.set("k", ...)`).
//
//   std::string problem;
//   auto store = store_client::from_environment(read_environment(), 60s, problem);
//   if (!store) ...                                     // problem: one line for a person
//   if (const error_code error = store->set("address", mine, 10s)) ... store->problem() ...
//   const auto leader = store->get("leader", 60s);      // waits for the key
//
// Every call blocks, takes a deadline (worker/deadline.hpp), and returns by then, whatever the
// store does. Success means that the store has executed the request, also for writes, to which
// TCPStore itself does not reply. If a reply is late, the connection is ended, because it is
// unknown whether the request was executed; only a wait is cancelled instead, and the client can go
// on.
//
// Copies, and clients made by `with_prefix`, share one connection. A lost connection is not
// re-established: a store that is gone has lost its keys too.
//
// Thread rule: one thread at a time for all clients that share a connection; connect once for each
// thread.
// Errors: timed_out; wrong_protocol (the peer is not a TCPStore); connection_closed; and those of
// worker/store_connection.hpp. No exceptions. `problem()` names the rank, the question, the time it
// took and the reason. A store closes the connection if a request exceeds its limits, or if ADD
// finds a value that is not a number.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/deadline.hpp"
#include "worker/environment.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::worker {

class store_connection;

class store_client {
 public:
  using key_list = std::span<const std::string>;
  using pair_list = std::span<const std::pair<std::string, std::string>>;

  // `address` is a name or an address (IPv6 with or without brackets). Retries until the deadline,
  // since the store may not listen yet. `who` prefixes every problem: "rank 3 of 4". With
  // `segment_bytes_max` no packet is larger than that, for networks that lose large ones.
  static result<store_client> connect(const std::string& address, std::uint16_t port,
                                      const deadline& until, std::string& problem,
                                      const std::string& who = "", int segment_bytes_max = 0);
  // Connects to MASTER_ADDR:MASTER_PORT as this rank.
  static result<store_client> from_environment(const environment& here, const deadline& until,
                                               std::string& problem);

  // A client of the same keys with a connection of its own, for another thread.
  result<store_client> on_new_connection(const environment& here, const deadline& until,
                                         std::string& problem) const;

  // A view of the keys that begin with "prefix/", like PyTorch's PrefixStore. Prefixes nest.
  store_client with_prefix(std::string_view prefix) const;

  error_code set(std::string_view key, std::string_view value, const deadline& until);
  error_code append(std::string_view key, std::string_view value, const deadline& until);
  error_code multi_set(pair_list pairs, const deadline& until);
  // Waits for the key.
  result<std::string> get(std::string_view key, const deadline& until);
  // Waits for all keys. The values are in the order of the keys.
  result<std::vector<std::string>> multi_get(key_list keys, const deadline& until);
  // Returns the sum. A missing value counts as 0.
  result<std::int64_t> add(std::string_view key, std::int64_t delta, const deadline& until);
  // Sets `desired` if the value is `expected`, or if there is no value and `expected` is empty.
  // Returns the value after that, or `expected` if there is still none.
  result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired, const deadline& until);
  // True if all keys exist. (As with every result, `if (answer)` asks whether the call succeeded,
  // and `*answer` is what it returned.)
  result<bool> check(key_list keys, const deadline& until);
  // Waits until every key has existed. Use `check` to look without waiting.
  error_code wait(key_list keys, const deadline& until);
  error_code wait(const std::string& key, const deadline& until);
  // True if there was a value.
  result<bool> delete_key(std::string_view key, const deadline& until);
  // The number of keys with a value in the whole store, whatever the prefix.
  result<std::int64_t> num_keys(const deadline& until);
  // The keys with this client's prefix, without the prefix, in no particular order.
  result<std::vector<std::string>> list_keys(const deadline& until);

  // Queues are separate from the values of the same keys; `check` and `wait` see both.
  error_code queue_push(std::string_view key, std::string_view value, const deadline& until);
  // Waits for an item.
  result<std::string> queue_pop(std::string_view key, const deadline& until);
  // None if the queue is empty.
  result<std::optional<std::string>> try_queue_pop(std::string_view key, const deadline& until);
  result<std::int64_t> queue_len(std::string_view key, const deadline& until);

  // Waits until `world_size` clients have called it with this key. The key then lets everybody
  // through, so use a new one for each barrier. PyTorch's store supports BARRIER since 2.12; that
  // of 2.11 closes the connection.
  error_code barrier(std::string_view key, std::uint32_t world_size, const deadline& until);
  // Counts this client as a worker, as PyTorch's own client does at its start if it is told the
  // world size; PyTorch's server waits for them. Returns the count.
  result<std::int64_t> count_in(const deadline& until);

  const std::string& problem() const;
  // False once the connection is lost: then no call can succeed any more.
  bool is_connected() const;

 private:
  explicit store_client(std::shared_ptr<store_connection> connection)
      : connection_(std::move(connection)) {}

  std::string wire_key(std::string_view key) const;
  std::vector<std::string> wire_keys(key_list keys) const;
  std::shared_ptr<store_connection> connection_;
  std::string prefix_;  // empty, or ends with "/"
};

}  // namespace ddprun::worker
