#include "worker/store_question.hpp"

#include "rendezvous/base/utf8.hpp"

#include <algorithm>
#include <array>

namespace ddprun::worker {
namespace {

namespace wire = protocol::tcpstore;
using enum wire::opcode;

constexpr std::size_t shown_keys_max = 3;
constexpr std::size_t shown_bytes_max = 64;

constexpr std::array<const char*, 19> names{
    "VALIDATE",   "SET",       "COMPARE_SET", "GET",       "ADD",       "CHECK",       "WAIT",
    "GETNUMKEYS", "DELETE",    "APPEND",      "MULTI_GET", "MULTI_SET", "CANCEL_WAIT", "PING",
    "QUEUE_PUSH", "QUEUE_POP", "QUEUE_LEN",   "LIST_KEYS", "BARRIER"};

// The distance between keys among the strings; 0 if only the first string is a key.
std::size_t key_stride(wire::opcode code) {
  switch (code) {
    case check:
    case wait:
    case multi_get:
      return 1;
    case multi_set:
      return 2;
    default:
      return 0;
  }
}

bool is_key(wire::opcode code, std::size_t index) {
  const std::size_t stride = key_stride(code);
  return stride == 0 ? index == 0 : index % stride == 0;
}

std::string shown(std::string_view key) {
  if (key.starts_with('/')) key.remove_prefix(1);
  // A character has at most four bytes, so the cut here never removes what the one below keeps.
  const bool cut = key.size() > shown_bytes_max;
  std::string text = to_valid_utf8(key.substr(0, shown_bytes_max + 4));
  if (cut) text = std::string(first_of(text, shown_bytes_max)) + "...";
  std::replace_if(
      text.begin(), text.end(), [](unsigned char byte) { return byte < ' ' || byte == 0x7f; }, '?');
  return "'" + text + "'";
}

}  // namespace

bool has_no_reply(wire::opcode code) {
  return code == set || code == append || code == multi_set || code == queue_push;
}

bool is_wait(wire::opcode code) {
  return code == wait || code == barrier;
}

std::string broken_limit(wire::opcode code, std::span<const std::string_view> strings) {
  std::size_t total = 17;  // the opcode, the count, the number
  std::size_t keys = 0;
  for (std::size_t index = 0; index < strings.size(); ++index) {
    const std::size_t bytes = strings[index].size();
    const bool key = is_key(code, index);
    const std::size_t limit = key ? wire::key_bytes_max : wire::value_bytes_max;
    if (bytes > limit) {
      return std::string(key ? "a key" : "a value") + " of " + std::to_string(bytes) +
             " bytes, at most " + std::to_string(limit) + " are allowed";
    }
    keys += key ? 1 : 0;
    total += 8 + bytes;
  }
  if (keys > wire::keys_per_request_max) {
    return std::to_string(keys) + " keys at once, at most " +
           std::to_string(wire::keys_per_request_max) + " are allowed";
  }
  if (total > wire::request_bytes_max) {
    return std::to_string(total) + " bytes at once, at most " +
           std::to_string(wire::request_bytes_max) + " are allowed";
  }
  return "";
}

std::string question_text(wire::opcode code, std::span<const std::string_view> strings) {
  std::string text = names[static_cast<std::uint8_t>(code)];
  std::size_t keys = 0;
  for (std::size_t index = 0; index < strings.size(); ++index) {
    if (!is_key(code, index)) continue;
    if (keys < shown_keys_max) text += (keys == 0 ? " " : ", ") + shown(strings[index]);
    ++keys;
  }
  if (keys > shown_keys_max) text += " and " + std::to_string(keys - shown_keys_max) + " more";
  return text;
}

}  // namespace ddprun::worker
