// Which entry all nodes of a round go on from: the newest that each of them has, or can have from
// another. Never one on this node and another on that.
//
// Each node says what lies with it, of itself and of others: that is its word. All nodes read all
// words and come to the same choice by themselves. Entries of several nodes belong together where
// they have the same name and were saved in the same round, of as many nodes; nobody is asked for
// the part of a node that was not in that round. A node that has never saved anything is not asked
// for anything. What a node without a vault has had a part of no node takes, as it cannot give that
// to its workers.
//
// Where every node of that round had a part, each that has come since is given one of them, too.
//
// A word as text, as it stands in the job's store:
//
//   ddprun vault 2
//   at 41233 10.0.0.2
//   token 4f1d...
//   saves 0
//   holds 0 1732606339000000000 2 7319.4 step-100
//   aside 1 1732606345000000000 step-101
//
// or, of a node without a vault, the first line and "without".
//
// "holds OF ORDER NODES ROUND NAME": OF is the group rank of the node whose workers saved it, NODES
// and ROUND are its origin (origin.hpp). "aside OF ORDER NAME": one that no node may take any more,
// whoever still has it.
//
// Thread rule: plain values and pure functions.
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
inline constexpr std::size_t held_max = 1000;  // named in one word; and so many that are aside

struct held_entry {
  std::uint32_t of = 0;
  version what;
  origin from;
  bool operator==(const held_entry&) const = default;
};

struct node_word {
  bool has_vault = true;           // else nothing more is said
  std::string address;             // where its copies are served; empty: nowhere
  std::uint16_t port = 0;          // likewise
  std::string token;               // that it asks for
  std::set<std::uint32_t> savers;  // who has ever saved anything, as far as it knows
  std::vector<held_entry> held;
  std::set<owned_version> aside;
  bool operator==(const node_word&) const = default;
};

std::string to_text(const node_word& word);
// None: it is of another version, or damaged.
std::optional<node_word> parse_word(std::string_view text);

// The part of one node in a common entry.
struct common_part {
  std::uint32_t of = 0;  // whose it is; not the node's own where it has come later
  version what;
  std::vector<std::uint32_t> holders;  // the nodes that have it
  bool operator==(const common_part&) const = default;
};

// What the parts of one entry have in common.
struct entry_key {
  std::string name;
  origin from;
  auto operator<=>(const entry_key&) const = default;
};

struct common_choice {
  entry_key key;
  std::map<std::uint32_t, common_part> parts;  // by node; empty: there is none
  std::set<std::uint32_t> savers;
  bool is_any_newer = false;  // some node has one that not all have
};

// The next node of the round after that one that has a vault; itself where there is no other.
std::uint32_t next_with_vault(const std::vector<node_word>& words, std::uint32_t node);

// What any of them has set aside.
std::set<owned_version> aside_of(const std::vector<node_word>& words);

// `words`: by group rank. `excluded`: what could not be had after all.
common_choice choose_common(const std::vector<node_word>& words,
                            const std::set<entry_key>& excluded);

}  // namespace ddprun::launcher::vault
