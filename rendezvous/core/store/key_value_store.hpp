// A key value store is one keyspace of a TCPStore: values, counters, queues, and the clients that
// wait for keys to appear. It has no socket and knows no protocol; store/store_protocol.hpp does.
//
// Values are shared, reference-counted buffers: what `get` returns does not change, whatever is
// stored under the key later. Keys and values are arbitrary bytes.
//
// A wait counts the keys that are absent when it arrives, and is over when each of them has come
// into existence once, even if it was deleted again meanwhile. A key exists when it has a value or
// a queue that is not empty. Setting a key that exists wakes no client. A client has at most one
// wait: a newer one replaces it. Clients whose wait is over are appended to `woken()`; the caller
// answers them and clears it.
//
// Memory is bounded by `store_limits`; a call that would exceed them fails with errc::limit_reached
// and changes nothing. A value counts until its last holder lets go: otherwise a reader that takes
// nothing could keep every value that a key has ever had, without being counted. Nor may such a
// reader keep others from storing: see `on_shortage`.
//
// Ownership: everything that was handed out must be released before the store is destroyed.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/store/key_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun::core {

using shared_bytes = std::shared_ptr<const std::string>;

// Everything in the keyspace is counted: keys, values, queued items and registrations of waits,
// each with the overhead of glibc's allocator, or a little more, because a user who sets the limit
// means the memory of the process.
struct store_limits {
  std::size_t bytes_max = std::size_t{1} << 30;
  std::size_t keys_max = std::size_t{1} << 22;         // with a value, a queue or a waiter
  std::size_t value_bytes_max = std::size_t{1} << 26;  // of one value, however it has grown
};

inline constexpr std::size_t store_key_overhead_bytes = 128;
inline constexpr std::size_t store_value_overhead_bytes = 80;  // a queued item's too
inline constexpr std::size_t store_item_overhead_bytes = 32;   // its entry in the queue
inline constexpr std::size_t store_queue_overhead_bytes = 704;
inline constexpr std::size_t store_list_overhead_bytes = 128;  // the first that waits for a key
inline constexpr std::size_t store_wait_overhead_bytes = 48;   // one key of one client's wait

// A short string is stored in its own object, a longer one in a block of the allocator.
constexpr std::size_t store_string_bytes(std::size_t size) {
  return size <= 15 ? size : size + 24;
}
constexpr std::size_t store_key_bytes(std::size_t size) {
  return store_key_overhead_bytes + store_string_bytes(size);
}
constexpr std::size_t store_value_bytes(std::size_t size) {
  return store_value_overhead_bytes + store_string_bytes(size);
}

enum class wait_outcome { over, waiting };

class key_value_store {
 public:
  using client_id = std::uint32_t;

  explicit key_value_store(store_limits limits = {}, hash_seed seed = {});
  key_value_store(const key_value_store&) = delete;
  key_value_store& operator=(const key_value_store&) = delete;

  // A client is anything that may wait. The id of a detached client, whose waits are dropped, is
  // used again for a later one.
  client_id attach();
  void detach(client_id client);

  // Null when there is no value.
  shared_bytes get(std::string_view key) const;
  // Its bytes, valid until the next change; empty: there is no value.
  std::string_view peek(std::string_view key) const;
  bool exists(std::string_view key) const;
  error_code set(std::string_view key, std::string_view value);
  error_code append(std::string_view key, std::string_view value);
  // The number of values removed, 0 or 1.
  std::int64_t erase(std::string_view key);

  // Stores `desired` when the value equals `expected`, or when there is none and `expected` is
  // empty. Returns what the reply holds: desired when stored, the current value when it differs,
  // `expected` when there is no value and one was expected.
  result<shared_bytes> compare_set(std::string_view key, std::string_view expected,
                                   std::string_view desired);

  // Adds to a decimal number that is stored as text; no value counts as 0. A leading number counts
  // ("12ab" is 12). errc::invalid_argument, and no change, if there is none or the sum overflows.
  result<std::int64_t> add(std::string_view key, std::int64_t delta);

  // Queues are separate from values: only `exists` and `wait` see both.
  error_code queue_push(std::string_view key, std::string_view value);
  // Null when the queue is empty. `length` is the length before the pop.
  shared_bytes queue_pop(std::string_view key, client_id client, std::int64_t& length);
  std::int64_t queue_length(std::string_view key) const;

  // Over at once when all keys exist.
  result<wait_outcome> wait(client_id client, std::span<const std::string_view> keys);
  // Counts one arrival at `key`. It is over when `world_size` have arrived, and then all waiting
  // clients are woken.
  result<wait_outcome> barrier(client_id client, std::string_view key, std::int64_t world_size);
  // Ends the wait without an answer; harmless if there is none.
  void cancel_wait(client_id client);
  bool waits(client_id client) const;

  std::vector<client_id>& woken() { return woken_; }

  // Called repeatedly while memory is short and values are held that no longer belong to a key. It
  // lets go of some, and must not do anything else to this store. False: there are none to let go
  // of.
  void on_shortage(std::function<bool()> let_go) { let_go_ = std::move(let_go); }

  std::size_t size() const { return values_; }  // keys with a value
  std::size_t bytes_used() const { return memory_.used; }
  std::size_t keys_used() const { return entries_.size(); }
  // The bytes of all keys that have a value.
  std::size_t value_keys_bytes() const { return value_keys_bytes_; }
  // Every key with a value, in no order.
  void for_each_key(const std::function<void(std::string_view)>& visit) const;

 private:
  struct entry;
  using item = std::pair<const std::string, entry>;

  // One key of one wait.
  struct registration {
    client_id client;
    std::uint32_t slot;  // in its client's `missing_at`
    std::uint64_t
        wait_number;  // of its client; if it is not the current one, the wait was withdrawn
  };
  // The clients that wait for one key, in the order in which they came. N ranks may wait for N keys
  // each, so they are in one block: adding and waking a client touches next to nothing. A list
  // always has a live entry.
  struct wait_list {
    std::vector<registration> all;
    std::size_t next = 0;  // the entries before it have had their turn
    std::size_t live = 0;  // how many of the others have not been withdrawn
  };
  struct memory {
    std::size_t used = 0;
    std::size_t let_go = 0;  // the part of it in values that no key has any more
  };
  // Bytes that count as used as long as they exist.
  class counted_bytes {
   public:
    counted_bytes(std::string_view value, memory& uses) : text(value), uses_(uses) {
      uses_.used += cost();
    }
    ~counted_bytes() {
      uses_.used -= cost();
      if (let_go_) uses_.let_go -= cost();
    }
    counted_bytes(const counted_bytes&) = delete;
    counted_bytes& operator=(const counted_bytes&) = delete;

    // Only for what fits in the buffer: a new buffer would be twice as large as what is counted.
    void assign(std::string_view value) {
      const std::size_t before = cost();
      text.assign(value);
      uses_.used += cost() - before;  // unsigned, so a smaller value wraps round and back
    }
    // `more` is the cost of what is appended.
    void append(std::string_view value, std::size_t more) {
      if (value.size() > text.capacity() - text.size()) grow(text.size() + value.size());
      text.append(value);
      uses_.used += more;
    }
    // It no longer belongs to a key.
    void let_go() {
      let_go_ = true;
      uses_.let_go += cost();
    }
    std::size_t cost() const { return store_value_bytes(text.size()); }

    std::string text;

   private:
    void grow(std::size_t wanted);

    memory& uses_;
    bool let_go_ = false;
  };
  using counted = std::shared_ptr<counted_bytes>;

  // An entry without value, queue and waiters is removed at once.
  struct entry {
    counted value;
    std::unique_ptr<std::deque<counted>> queue;
    std::unique_ptr<wait_list> waiting;     // for the key to exist
    std::unique_ptr<wait_list> at_barrier;  // for the barrier to be complete
    bool has_queue() const { return queue && !queue->empty(); }
  };
  struct client_state {
    bool attached = false;
    bool has_offer = false;
    bool at_barrier = false;        // whether it waits at a barrier, if it waits
    std::uint64_t wait_number = 0;  // counts up, over all clients of this id
    std::size_t missing = 0;        // keys still absent; 0: no wait
    std::vector<item*> missing_at;  // null once the key has come into existence
    std::string queue_offered;      // woken by a push to this queue, and has not popped
  };

  item* find(std::string_view key);
  const item* find(std::string_view key) const;
  item* find_or_create(std::string_view key);
  item* create(std::string_view key);
  void drop_if_unused(item* at);
  static shared_bytes shared(const counted& value) { return {value, &value->text}; }
  counted make_value(std::string_view value) {
    return std::make_shared<counted_bytes>(value, memory_);
  }
  static shared_bytes take(counted&& value);
  // Whether to write `value` into the buffer of `current`, which nobody else holds.
  static bool fits(const counted& current, std::string_view value);
  bool has_room(std::size_t bytes);
  bool charge(std::size_t bytes);
  void release(std::size_t bytes);
  error_code store(std::string_view key, item* at, std::string_view value);
  void value_appeared(item* at);
  static std::unique_ptr<wait_list>& list_of(item* at, bool at_barrier) {
    return at_barrier ? at->second.at_barrier : at->second.waiting;
  }
  bool add_wait(client_id client, item* at);
  std::vector<item*> end_wait(client_id client);
  void drop_list(std::unique_ptr<wait_list>& list);
  bool is_live(const registration& one) const {
    return clients_[one.client].wait_number == one.wait_number;
  }
  void sweep(wait_list& list) const;
  bool arrived(const registration& one);
  void wake_all(std::unique_ptr<wait_list>& list);
  void offer_item(item* at);
  void pass_offer_on(client_id client);

  store_limits limits_;
  memory memory_;  // before the values, whose destructors change it
  std::function<bool()> let_go_;
  std::unordered_map<std::string, entry, key_hash, std::equal_to<>> entries_;
  std::vector<client_state> clients_;
  std::vector<client_id> free_clients_;
  std::vector<client_id> woken_;
  std::size_t values_ = 0;
  std::size_t value_keys_bytes_ = 0;
};

}  // namespace ddprun::core
