// The manifest of a vault's entry on disk: its name, and its files with their checksums.
//
//   ddprun vault 1
//   order 1732606339000000000
//   name step-100
//   saved 2 7319.4
//   file 4096 8cb35e5f24a1c0de 1732606338000000000 step-100/model.pt
//   ...
//   end 03aa6f6d3b1f2c55
//
// "saved" is there if the origin is known (entry_origin.hpp). Sizes are in bytes, checksums are
// XXH3 with 64 bits in hexadecimal, times in ns since 1970; the marker is the last file. "end" has
// the checksum of all lines above it.
#pragma once

#include "launcher/vault/vault_rules.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::vault {

inline constexpr std::string_view manifest_file = "ddprun-vault.manifest";
// The entry's files are below it, under their names in the vault.
inline constexpr std::string_view files_folder = "files";

struct kept_file {
  std::string path;
  std::uint64_t size = 0;
  std::uint64_t checksum = 0;
  std::int64_t modified_ns = 0;
  bool operator==(const kept_file&) const = default;
};

struct manifest {
  version what;
  std::vector<kept_file> files;
  origin from;
  bool operator==(const manifest&) const = default;
};

std::string to_text(const manifest& written);
// None: the text is damaged, of another version, or has an unsafe path.
std::optional<manifest> parse_manifest(std::string_view text);

}  // namespace ddprun::launcher::vault
