// A store client is a worker's way to the job's TCPStore, without LibTorch: PyTorch's own server or
// ddprun's. Values go to and come from Python, where the keys are the same (`store.set("k", ...)`).
//
//   std::string problem;
//   auto store = store_client::from_environment(read_environment(), 60s, problem);
//   if (!store) ...                                     // problem: one line for a person
//   if (const error_code error = store->set("address", mine, 10s)) ... store->problem() ...
//   const auto leader = store->get("leader", 60s);      // waits for the key
//
// Every call blocks and takes a deadline (worker/deadline.hpp), and is back by then, whatever the
// store does. Success means that the store has done it, also for writes, which TCPStore itself does
// not answer. What a call has no reply to in time, a wait excepted, ends the connection: whether it
// was done is not known. A wait is taken back, and the client goes on.
//
// Copies, and clients `with_prefix`, share one connection. It is not made anew when it is lost: a
// store that is gone has taken its keys along.
//
// Thread rule: one thread at a time for all that share a connection; connect once a thread.
// Errors: timed_out; wrong_protocol (no TCPStore listens there); connection_closed; and those of
// worker/store_connection.hpp. No exceptions. `problem()` tells who, what, how long and why. A
// store closes the connection when a request breaks its limits, and upon ADD to what is no number.
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

  // Names and addresses (IPv6 with or without brackets). Tries again until the deadline, since the
  // store may not listen yet. `who` stands in front of every problem: "rank 3 of 4". With
  // `segment_bytes_max` all that is said passes a network that loses larger packets.
  static result<store_client> connect(const std::string& address, std::uint16_t port,
                                      const deadline& until, std::string& problem,
                                      const std::string& who = "", int segment_bytes_max = 0);
  // At MASTER_ADDR:MASTER_PORT, as this rank.
  static result<store_client> from_environment(const environment& here, const deadline& until,
                                               std::string& problem);

  // A view of the keys that begin with "prefix/", as PyTorch's PrefixStore; inside of this one's.
  store_client with_prefix(std::string_view prefix) const;

  error_code set(std::string_view key, std::string_view value, const deadline& until);
  error_code append(std::string_view key, std::string_view value, const deadline& until);
  error_code multi_set(pair_list pairs, const deadline& until);
  // Waits for the key.
  result<std::string> get(std::string_view key, const deadline& until);
  // Waits for all keys; values in the order of the keys.
  result<std::vector<std::string>> multi_get(key_list keys, const deadline& until);
  // The sum. No value counts as 0.
  result<std::int64_t> add(std::string_view key, std::int64_t delta, const deadline& until);
  // Sets `desired` where the value is `expected`, or where there is none and `expected` is empty.
  // Returns the value then; `expected` where there is still none.
  result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired, const deadline& until);
  // True if all keys exist. (As with every result, `if (answer)` asks whether there is an answer,
  // `*answer` which.)
  result<bool> check(key_list keys, const deadline& until);
  // Until all keys have come into existence, each once. To look without waiting, `check`.
  error_code wait(key_list keys, const deadline& until);
  error_code wait(const std::string& key, const deadline& until);
  // True if there was a value.
  result<bool> delete_key(std::string_view key, const deadline& until);
  // Keys with a value in the whole store, whatever the prefix.
  result<std::int64_t> num_keys(const deadline& until);
  // Those with this client's prefix, without it, in no order.
  result<std::vector<std::string>> list_keys(const deadline& until);

  // Queues live beside the values of the same keys; `check` and `wait` see both.
  error_code queue_push(std::string_view key, std::string_view value, const deadline& until);
  // Waits for an item.
  result<std::string> queue_pop(std::string_view key, const deadline& until);
  // None when the queue is empty.
  result<std::optional<std::string>> try_queue_pop(std::string_view key, const deadline& until);
  result<std::int64_t> queue_len(std::string_view key, const deadline& until);

  // Waits until `world_size` have called it with this key, which then lets everybody through: a
  // key for each barrier. PyTorch's store knows BARRIER since 2.12; that of 2.11 closes.
  error_code barrier(std::string_view key, std::uint32_t world_size, const deadline& until);
  // Counts this client among the workers, as PyTorch's own does at its start when it is told the
  // world size; PyTorch's server waits for them. Returns the count.
  result<std::int64_t> count_in(const deadline& until);

  const std::string& problem() const;
  // False when the connection is lost; no call can succeed any more.
  bool is_connected() const;

 private:
  explicit store_client(std::shared_ptr<store_connection> connection)
      : connection_(std::move(connection)) {}

  std::string wire_key(std::string_view key) const;
  std::vector<std::string> wire_keys(key_list keys) const;
  std::shared_ptr<store_connection> connection_;
  std::string prefix_;  // empty, or with "/" at its end
};

}  // namespace ddprun::worker
