// An order is what the head sends to the ddprun that it has started on another host, over that
// one's standard input: its directory, its variables and its command line. This way nothing of it
// appears in a command line that other users can read (ps), and no shell interprets it.
//
// Format: a line "ddprun-order 1 BYTES", then that many bytes of fields, each ended by NUL: the
// directory, the number of words, the words, then variables as NAME=value.
//
// Thread rule: pure functions, except read_order, which blocks.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

inline constexpr std::size_t order_bytes_max = 64 * 1024 * 1024;

struct order {
  std::string directory;
  std::vector<std::string> words;  // of the command line, without the program's name
  environment_map variables;       // set in addition to the present ones, which they replace
};

std::string encode(const order& what);
// Decodes the fields, without the first line. None: they are incomplete.
std::optional<order> decode_fields(std::string_view fields);

// Reads one order from a pipe and not a byte more. None: the pipe has ended early, or something
// else came.
std::optional<order> read_order(int descriptor);

}  // namespace ddprun::launcher::ssh
