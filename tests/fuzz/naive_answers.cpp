// The half of naive_store that makes replies.
#include "rendezvous/protocol/tcpstore_replies.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/naive_store.hpp"

#include <cstring>
#include <utility>

namespace ddprun::fuzz {

namespace wire = protocol::tcpstore;

void naive_store::say(client who, std::string bytes) {
  client_state& state = clients_[who];
  state.unsent += bytes.size();
  state.copied += bytes.size();
  if (bytes.empty()) return;
  if (state.expected.empty() || state.expected.back().is_list) state.expected.emplace_back();
  state.expected.back().bytes += bytes;
}

void naive_store::say_number(client who, std::int64_t value) {
  std::string bytes;
  wire::append_i64(bytes, value);
  say(who, std::move(bytes));
}

// Null is sent as the empty string.
void naive_store::say_value(client who, const text_value& said) {
  client_state& state = clients_[who];
  const std::size_t size = said ? said->size() : 0;
  const bool is_held =
      size >= (state.copied < wire::replies::copied_bytes_max ? wire::replies::shared_from_bytes
                                                              : wire::replies::always_copied_bytes);
  std::string bytes;
  wire::append_string(bytes, said ? *said : "");
  say(who, std::move(bytes));
  if (!is_held) return;
  state.copied -= size;
  state.held.push_back({said, state.sent + state.unsent});
}

void naive_store::say_keys(client who) {
  expected_piece piece;
  piece.is_list = true;
  wire::append_i64(piece.bytes, static_cast<std::int64_t>(now_.values.size()));
  for (const auto& [key, value] : now_.values)
    wire::append_string(piece.bytes, key);
  clients_[who].unsent += piece.bytes.size();
  clients_[who].copied += piece.bytes.size();
  clients_[who].expected.push_back(std::move(piece));
}

namespace {

// The strings of a list of keys, in the order of the map.
std::string sorted_list(std::string_view bytes) {
  std::multiset<std::string> keys;
  const auto take = [&](std::size_t count) {
    FUZZ_CHECK(count <= bytes.size());
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  };
  const auto integer = [&] {
    std::int64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  };
  std::string sorted;
  const std::int64_t count = integer();
  wire::append_i64(sorted, count);
  for (std::int64_t left = count; left > 0; --left)
    keys.insert(std::string(take(static_cast<std::size_t>(integer()))));
  FUZZ_CHECK(bytes.empty());
  for (const std::string& key : keys)
    wire::append_string(sorted, key);
  return sorted;
}

}  // namespace

void naive_store::check_sent(client who, std::string_view sent) {
  client_state& state = clients_[who];
  FUZZ_CHECK(sent.size() <= state.unsent);
  state.unsent -= sent.size();
  state.sent += sent.size();
  if (state.unsent == 0) state.copied = 0;
  while (!state.held.empty() && state.held.front().until <= state.sent)
    state.held.pop_front();
  while (!sent.empty()) {
    expected_piece& piece = state.expected.front();
    const std::string_view part = sent.substr(0, piece.bytes.size() - state.received.size());
    sent.remove_prefix(part.size());
    if (!piece.is_list) {
      FUZZ_CHECK(part == std::string_view(piece.bytes).substr(state.received.size(), part.size()));
    }
    state.received += part;
    if (state.received.size() != piece.bytes.size()) continue;
    if (piece.is_list) FUZZ_CHECK(sorted_list(state.received) == piece.bytes);
    state.received.clear();
    state.expected.pop_front();
  }
}

}  // namespace ddprun::fuzz
