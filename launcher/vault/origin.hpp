// The origin of an entry as text, and the record of all that are in memory.
//
// It reads "2 7319.4" in a manifest, in a node's word and between nodes; "0 -" where it is not
// known.
//
// Thread rule: plain values and pure functions.
#pragma once

#include "launcher/vault/vault_rules.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher::vault {

std::string to_text(const origin& from);
// The first two words of a line, taken off. None: they are none.
std::optional<origin> take_origin(std::string_view& line);

// Those of the entries that are in memory. It lies there as well, for whoever takes it over:
//
//   ddprun vault origins 1
//   now 2 7319.4
//   of 0 1732606339000000000 1 7319.3 step-100
struct origin_record {
  origin now;  // of what is saved from now on
  std::map<owned_version, origin> known;

  // Of what is not in the record: now.
  origin of(const owned_version& which) const;
};

inline constexpr std::string_view origins_file = "origins";

std::string to_text(const origin_record& record);
// Empty: it is damaged, or of another version.
origin_record parse_origins(std::string_view text);

}  // namespace ddprun::launcher::vault
