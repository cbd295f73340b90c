// The bytes of every TCPStore request, recorded from torch 2.11's client (BARRIER: from 2.15's).
// Spaces in the hexadecimal text are ignored.
#pragma once

#include "rendezvous/protocol/tcpstore.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::tests {

struct golden_request {
  const char* name;
  protocol::tcpstore::opcode code;
  std::vector<std::string> strings;
  std::int64_t number;
  const char* bytes;
};

inline std::string hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'A' + 10; };
  std::string bytes;
  int high = -1;
  for (const char c : text) {
    if (c == ' ') continue;
    if (high < 0) {
      high = digit(c);
    } else {
      bytes.push_back(static_cast<char>(high * 16 + digit(c)));
      high = -1;
    }
  }
  return bytes;
}

// A length, as it precedes a string.
inline std::string length_of(std::uint64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline const std::vector<golden_request>& golden_requests() {
  using enum protocol::tcpstore::opcode;
  static const std::vector<golden_request> all{
      {"VALIDATE", validate, {}, 0x3C85F7CE, "00 CEF7853C"},
      {"SET", set, {"/k", "v1"}, 0, "01 0200000000000000 2F6B 0200000000000000 7631"},
      {"SET empty", set, {"", ""}, 0, "01 0000000000000000 0000000000000000"},
      {"COMPARE_SET",
       compare_set,
       {"/k", "", "v"},
       0,
       "02 0200000000000000 2F6B 0000000000000000 0100000000000000 76"},
      {"GET", get, {"/k"}, 0, "03 0200000000000000 2F6B"},
      {"ADD", add, {"init/"}, 1, "04 0500000000000000 696E69742F 0100000000000000"},
      {"ADD negative", add, {"/c"}, -1, "04 0200000000000000 2F63 FFFFFFFFFFFFFFFF"},
      {"CHECK",
       check,
       {"/k", "/n"},
       0,
       "05 0200000000000000 0200000000000000 2F6B 0200000000000000 2F6E"},
      {"CHECK nothing", check, {}, 0, "05 0000000000000000"},
      {"WAIT", wait, {"/k"}, 0, "06 0100000000000000 0200000000000000 2F6B"},
      {"WAIT nothing", wait, {}, 0, "06 0000000000000000"},
      {"GETNUMKEYS", get_num_keys, {}, 0, "07"},
      {"DELETE_KEY", delete_key, {"/k"}, 0, "08 0200000000000000 2F6B"},
      {"APPEND", append, {"/k", "v"}, 0, "09 0200000000000000 2F6B 0100000000000000 76"},
      {"MULTI_GET", multi_get, {"/k"}, 0, "0A 0100000000000000 0200000000000000 2F6B"},
      {"MULTI_SET",
       multi_set,
       {"/k", "v", "/n", ""},
       0,
       "0B 0200000000000000 0200000000000000 2F6B 0100000000000000 76 "
       "0200000000000000 2F6E 0000000000000000"},
      {"CANCEL_WAIT", cancel_wait, {}, 0, "0C"},
      {"PING", ping, {}, 0xF0010203, "0D 030201F0"},
      {"QUEUE_PUSH", queue_push, {"/q", "v"}, 0, "0E 0200000000000000 2F71 0100000000000000 76"},
      {"QUEUE_POP", queue_pop, {"/q"}, 0, "0F 0200000000000000 2F71"},
      {"QUEUE_LEN", queue_len, {"/q"}, 0, "10 0200000000000000 2F71"},
      {"LIST_KEYS", list_keys, {}, 0, "11"},
      {"BARRIER", barrier, {"/b"}, 4, "12 0200000000000000 2F62 0400000000000000"},
  };
  return all;
}

}  // namespace ddprun::tests
