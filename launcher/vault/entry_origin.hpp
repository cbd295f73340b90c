// The origin of an entry as text, and the record of the origins of all entries in memory.
//
// The text is "2 7319.4" in a manifest, in a node's word and between nodes; "0 -" if it is unknown.
#pragma once

#include "launcher/vault/vault_rules.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher::vault {

std::string to_text(const origin& from);
// Takes the first two words off a line. None: they are no origin.
std::optional<origin> take_origin(std::string_view& line);

// The origins of the entries in memory. The record lies beside them, for an agent that takes them
// over:
//
//   ddprun vault origins 1
//   now 2 7319.4
//   of 0 1732606339000000000 1 7319.3 step-100
struct origin_record {
  origin now;  // of entries that are saved from now on
  std::map<owned_version, origin> known;

  // Returns `now` for an entry that is not in the record.
  origin of(const owned_version& which) const;
};

inline constexpr std::string_view origins_file = "origins";

std::string to_text(const origin_record& record);
// Empty: the text is damaged, or of another version.
origin_record parse_origins(std::string_view text);

}  // namespace ddprun::launcher::vault
