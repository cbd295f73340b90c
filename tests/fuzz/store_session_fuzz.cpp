// A whole keyspace with several clients that come, send any bytes in any order, read late or never,
// and go; all of it without a socket, driven as by store/session.hpp. Every reply, every error and
// every count of bytes must be that of the naive store.
//
// The input is a sequence of steps: a byte for client and kind of step, then what that kind reads.
#include "rendezvous/store/store_protocol.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/naive_store.hpp"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace wire = ddprun::protocol::tcpstore;
using ddprun::fuzz::input;
using ddprun::fuzz::naive_store;
using ddprun::store::store_protocol;

constexpr std::size_t clients_max = 6;
constexpr std::size_t steps_max = 400;
// Small, so that inputs reach them.
constexpr ddprun::core::store_limits limits{
    .bytes_max = 48 * 1024, .keys_max = 24, .value_bytes_max = 12 * 1024};

struct client {
  std::unique_ptr<store_protocol> talk;  // none: not connected
  wire::replies replies;
  std::string unsaid;  // what the client has still to send
  std::string unused;  // what has arrived, and no request has used
};

class play {
 public:
  explicit play(input from) : from_(from), naive_(limits, clients_max) {}

  void run() {
    for (std::size_t step = 0; step < steps_max && !from_.empty(); ++step) {
      const std::uint8_t choice = from_.byte();
      this->step(choice % clients_max, choice / clients_max);
      check_counts();
    }
    end();
  }

 private:
  void step(std::size_t who, std::size_t kind);
  void open(std::size_t who);
  void close(std::size_t who);
  void ask(std::size_t who);
  void say(std::size_t who, std::size_t bytes);
  void process(std::size_t who);
  void take(std::size_t who, std::size_t bytes);
  void deliver_wakes();
  void check_counts();
  void end();
  std::string word();

  input from_;
  ddprun::core::key_value_store values_{limits};
  naive_store naive_;
  std::array<client, clients_max> clients_;
};

void play::open(std::size_t who) {
  if (clients_[who].talk) return;
  clients_[who].talk = std::make_unique<store_protocol>(values_);
  naive_.open(who);
}

void play::close(std::size_t who) {
  if (!clients_[who].talk) return;
  clients_[who] = client();
  naive_.close(who);
  deliver_wakes();
}

// There are few keys, so that clients use the same ones, of every size that matters.
std::string play::word() {
  const std::uint8_t choice = from_.byte();
  if (choice < 200) return std::string(1, static_cast<char>('a' + choice % 8));
  if (choice < 220) return std::string(from_.bytes(from_.byte()));
  if (choice < 230) return {};
  if (choice < 240) return std::to_string(static_cast<std::int8_t>(from_.byte()));
  const std::array<std::size_t, 6> sizes{
      1023, 1024, 5000, wire::key_bytes_max, limits.value_bytes_max, limits.value_bytes_max + 1};
  return std::string(sizes[choice % sizes.size()], 'L');
}

// Some complete request, which may exceed a limit.
void play::ask(std::size_t who) {
  const auto code = static_cast<wire::opcode>(from_.below(19));
  using enum wire::opcode;
  std::size_t count = 0;
  switch (code) {
    case get_num_keys:
    case cancel_wait:
    case list_keys:
    case validate:
    case ping:
      break;
    case set:
    case append:
    case queue_push:
      count = 2;
      break;
    case compare_set:
      count = 3;
      break;
    case check:
    case wait:
    case multi_get:
    case multi_set:
      count = from_.below(6);
      if (count == 5) count = from_.byte();
      if (code == multi_set) count *= 2;
      break;
    default:
      count = 1;
  }
  std::vector<std::string> words;
  const bool one = count > 10;  // of many strings, each is the same
  for (std::size_t index = 0; index < count; ++index)
    words.push_back(one && index != 0 ? words.front() : word());
  std::int64_t number = static_cast<std::int8_t>(from_.byte());
  if (code == validate) number = wire::validate_magic;
  const std::vector<std::string_view> views(words.begin(), words.end());
  wire::append_request(clients_[who].unsaid, code, views, number);
}

void play::step(std::size_t who, std::size_t kind) {
  switch (kind % 10) {
    case 0:
      open(who);
      wire::append_request(clients_[who].unsaid, wire::opcode::validate, {}, wire::validate_magic);
      return say(who, clients_[who].unsaid.size());
    case 1:
      return open(who);
    case 2:
      return close(who);
    case 3:  // arbitrary bytes
      clients_[who].unsaid += from_.bytes(from_.byte());
      return say(who, clients_[who].unsaid.size());
    case 4:
      return say(who, from_.byte());
    case 5:
      return ask(who);
    case 6:
      ask(who);
      return say(who, from_.byte());
    case 7:
      return take(who, from_.byte());
    case 8:
      return take(who, clients_[who].replies.bytes_left());
    default:
      ask(who);
      return say(who, clients_[who].unsaid.size());
  }
}

void play::say(std::size_t who, std::size_t bytes) {
  client& one = clients_[who];
  if (!one.talk) return one.unsaid.clear();
  one.unused += one.unsaid.substr(0, bytes);
  one.unsaid.erase(0, bytes);
  process(who);
}

void play::process(std::size_t who) {
  client& one = clients_[who];
  // A copy of exactly these bytes, so that a sanitizer notices a read beyond them.
  const std::unique_ptr<char[]> copy(new char[one.unused.size()]);
  std::copy(one.unused.begin(), one.unused.end(), copy.get());
  const auto expected = naive_.on_bytes(who, one.unused, store_protocol::unsent_bytes_max);
  const auto used = one.talk->on_bytes({copy.get(), one.unused.size()}, one.replies);
  FUZZ_CHECK(used.has_value() == expected.has_value());
  if (!used) {
    FUZZ_CHECK(used.error() == expected.error());
    deliver_wakes();
    return close(who);
  }
  FUZZ_CHECK(*used == *expected);
  one.unused.erase(0, *used);
  deliver_wakes();
  if (!one.unused.empty() && one.replies.bytes_left() <= store_protocol::unsent_bytes_max) {
    FUZZ_CHECK(one.talk->bytes_wanted() > one.unused.size());
  }
}

// The client reads so many bytes of its replies, in pieces of any number.
void play::take(std::size_t who, std::size_t bytes) {
  client& one = clients_[who];
  std::array<std::string_view, 5> pieces;
  const std::size_t pieces_max = 1 + bytes % pieces.size();
  while (bytes != 0 && !one.replies.empty()) {
    const std::size_t count = one.replies.gather(std::span(pieces).first(pieces_max));
    FUZZ_CHECK(count != 0);
    std::string sent;
    for (std::size_t index = 0; index < count; ++index) {
      FUZZ_CHECK(!pieces[index].empty());
      sent += pieces[index].substr(0, bytes - sent.size());
    }
    naive_.check_sent(who, sent);
    one.replies.consume(sent.size());
    bytes -= sent.size();
  }
  if (one.talk && !one.unused.empty()) process(who);
}

void play::deliver_wakes() {
  for (const auto id : std::exchange(values_.woken(), {})) {
    bool found = false;
    for (client& one : clients_) {
      if (!one.talk || one.talk->id() != id) continue;
      one.talk->on_woken(one.replies);
      found = true;
    }
    FUZZ_CHECK(found);
  }
}

void play::check_counts() {
  FUZZ_CHECK(values_.bytes_used() == naive_.bytes_used());
  FUZZ_CHECK(values_.keys_used() == naive_.keys_used());
  FUZZ_CHECK(values_.size() == naive_.size());
  FUZZ_CHECK(values_.bytes_used() <= limits.bytes_max);
  FUZZ_CHECK(values_.keys_used() <= limits.keys_max);
  for (std::size_t who = 0; who < clients_max; ++who) {
    const client& one = clients_[who];
    if (!one.talk) continue;
    FUZZ_CHECK(one.replies.bytes_left() == naive_.unsent(who));
    FUZZ_CHECK(values_.waits(one.talk->id()) == naive_.waits(who));
  }
}

// All clients read their replies and go. Only values and queues are left then, and nothing once
// these are erased, too.
void play::end() {
  for (std::size_t who = 0; who < clients_max; ++who) {
    while (!clients_[who].replies.empty())
      take(who, clients_[who].replies.bytes_left());
    close(who);
    check_counts();
  }
  std::vector<std::string> keys;
  values_.for_each_key([&](std::string_view key) { keys.emplace_back(key); });
  FUZZ_CHECK(keys.size() == values_.size());
  for (const std::string& key : keys)
    FUZZ_CHECK(values_.erase(key) == 1);
  const auto cleaner = values_.attach();
  for (const std::string& key : naive_.queued_keys()) {
    for (std::int64_t length = 2; length > 1;)
      FUZZ_CHECK(values_.queue_pop(key, cleaner, length) != nullptr);
  }
  FUZZ_CHECK(values_.bytes_used() == 0);
  FUZZ_CHECK(values_.keys_used() == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  play(input(data, size)).run();
  return 0;
}
