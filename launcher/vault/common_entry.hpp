// Chooses the entry from which all nodes of a round go on: the newest of which each node has its
// part, or can get it from another. Nodes never go on from different entries.
//
// Each node lists what it holds, of itself and of others: this is its word. All nodes read all
// words and come to the same choice independently. The parts of several nodes belong together if
// they have the same name and were saved in the same round, by the same number of nodes. A node
// that was not in that round, or has never saved anything, needs no part. If a node has lost its
// vault, but saved a part of an entry, no node takes that entry, because it cannot be given to that
// node's workers.
//
// If every node of that round saved a part, each node that has joined since is given one of them,
// too.
//
// A word as text, as it is in the job's store:
//
//   ddprun vault 2
//   at 41233 10.0.0.2
//   token 4f1d...
//   saves 0
//   holds 0 1732606339000000000 2 7319.4 step-100
//   aside 1 1732606345000000000 step-101
//
// A node without a vault writes the first line and "without".
//
// "holds OF ORDER NODES ROUND NAME": OF is the group rank of the node whose workers saved the
// entry, NODES and ROUND are its origin (entry_origin.hpp). "aside OF ORDER NAME": an entry that no
// node may take any more, even if it has a copy.
//
#pragma once

#include "launcher/vault/vault_rules.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::vault {

inline constexpr std::size_t word_bytes_max = 1 << 20;
inline constexpr std::size_t held_max = 1000;  // entries in one word, and as many set aside

struct held_entry {
  std::uint32_t of = 0;
  version what;
  origin from;
  bool operator==(const held_entry&) const = default;
};

struct node_word {
  bool has_vault = true;           // otherwise the other fields are empty
  std::string address;             // where its copies are served; empty: nowhere
  std::uint16_t port = 0;          // 0: nowhere
  std::string token;               // that callers have to present
  std::set<std::uint32_t> savers;  // nodes that have ever saved, as far as it knows
  std::vector<held_entry> held;
  std::set<owned_version> aside;
  bool operator==(const node_word&) const = default;
};

std::string to_text(const node_word& word);
// None: the text is of another version, or damaged.
std::optional<node_word> parse_word(std::string_view text);

// The part of one node in a common entry.
struct common_part {
  std::uint32_t of = 0;  // who saved it; a node that joined later gets another node's
  version what;
  std::vector<std::uint32_t> holders;  // nodes that have it
  bool operator==(const common_part&) const = default;
};

// What all parts of one entry have in common.
struct entry_key {
  std::string name;
  origin from;
  auto operator<=>(const entry_key&) const = default;
};

struct common_choice {
  entry_key key;
  std::map<std::uint32_t, common_part> parts;  // by node; empty: there is no common entry
  std::set<std::uint32_t> savers;
  bool is_any_newer = false;  // some node has a newer one, which not all have
};

// Returns the next node after `node` that has a vault; `node` itself if there is no other.
std::uint32_t next_with_vault(const std::vector<node_word>& words, std::uint32_t node);

// The entries that any node has set aside.
std::set<owned_version> aside_of(const std::vector<node_word>& words);

// `words` is indexed by group rank. `excluded` are entries that a node could not get.
common_choice choose_common(const std::vector<node_word>& words,
                            const std::set<entry_key>& excluded);

}  // namespace ddprun::launcher::vault
