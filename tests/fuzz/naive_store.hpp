// A second TCPStore keyspace, in maps and lists that are searched from the start each time. The
// replies that it expects, and the bytes that it counts, must be those of store/store_protocol.hpp
// and core/store/key_value_store.hpp.
//
// It is written from the rules in their headers, and not from their code.
#pragma once

#include "rendezvous/core/store/key_value_store.hpp"
#include "tests/fuzz/naive_parser.hpp"

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::fuzz {

// Bytes that a client should get. A list of keys may come in any order, and is sorted here.
struct expected_piece {
  std::string bytes;
  bool is_list = false;
};

class naive_store {
 public:
  using client = std::size_t;

  naive_store(core::store_limits limits, std::size_t clients_max);

  void open(client who);
  void close(client who);

  // Takes of a client's `unused` bytes as many as store_protocol has to take while at most
  // `unsent_max` bytes wait to be sent. Returns how many these are, or the error that ends the
  // client.
  result<std::size_t> on_bytes(client who, std::string_view unused, std::size_t unsent_max);

  // `sent` was sent to the client, and must be what was expected.
  void check_sent(client who, std::string_view sent);

  bool waits(client who) const { return !clients_[who].missing.empty(); }
  std::size_t unsent(client who) const { return clients_[who].unsent; }
  std::size_t bytes_used() const;
  std::size_t keys_used() const;
  std::size_t size() const { return now_.values.size(); }
  std::vector<std::string> queued_keys() const;

 private:
  // Each stored value is another object.
  using text_value = std::shared_ptr<const std::string>;
  // A value that a reply holds until this total of bytes has been sent.
  struct held_value {
    text_value what;
    std::size_t until;
  };
  struct client_state {
    bool validated = false;
    std::vector<std::string> missing;  // keys, or the one barrier
    bool at_barrier = false;
    std::size_t registered = 0;  // keys of the wait that were absent when it came
    std::optional<std::string> offer;
    std::deque<expected_piece> expected;
    std::string received;    // of the first of `expected`
    std::size_t unsent = 0;  // bytes of `expected` that `check_sent` has not seen
    std::size_t sent = 0;    // bytes that it has
    std::size_t copied = 0;  // bytes that hold no value, since nothing was unsent
    std::deque<held_value> held;
  };
  using lists = std::map<std::string, std::vector<client>>;  // in the order of arrival
  // What a request that exceeds a limit must not change. No queue and no list is empty.
  struct contents {
    std::map<std::string, text_value> values;
    std::map<std::string, std::deque<text_value>> queues;
    lists waiting;
    lists at_barrier;
  };

  error_code apply(client who, const naive_request& request);
  error_code apply_value(client who, const naive_request& request);
  error_code apply_queue(client who, const naive_request& request);
  error_code apply_wait(client who, const naive_request& request);

  bool exists(const std::string& key) const;
  bool within_limits() const;
  bool has_room(std::size_t bytes) const;
  std::set<std::string> keys() const;
  text_value find(const std::string& key) const;  // null: none
  error_code set_value(const std::string& key, const std::string& text);
  result<std::int64_t> add_number(const std::string& key, std::int64_t delta);
  client arrive(lists& waiters, const std::string& key);
  void offer_one(const std::string& key);
  void cancel(client who);
  void answer_woken();

  void say(client who, std::string bytes);
  void say_number(client who, std::int64_t value);
  void say_value(client who, const text_value& said);
  void say_keys(client who);

  core::store_limits limits_;
  contents now_;
  std::vector<client_state> clients_;
  std::vector<client> woken_;
  std::size_t lent_ = 0;  // bytes that must be available, and are given back
};

}  // namespace ddprun::fuzz
