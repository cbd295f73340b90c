// An order is what the head hands to the ddprun that it has started on another host, over that
// one's standard input: where to run, with which variables, and its command line. Nothing of it
// stands in a command line that others can read (ps), and no shell looks at it.
//
// On the wire: a line "ddprun-order 1 BYTES\n" and so many bytes of fields, each ended by NUL: the
// directory, the number of words, the words, then variables as NAME=value.
//
// Thread rule: pure functions, but read_order, which blocks.
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
  std::vector<std::string> words;  // of the command line, without the program's own name
  environment_map variables;       // put over those that are there
};

std::string encode(const order& what);
// The fields, without the first line. None: they are not whole.
std::optional<order> decode_fields(std::string_view fields);

// Reads one from a pipe, and not a byte more. None: it has ended before, or something else came.
std::optional<order> read_order(int descriptor);

}  // namespace ddprun::launcher::ssh
