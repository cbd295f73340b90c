// The rows of the option table for a vault: a folder in memory for what workers save.
#pragma once

#include "launcher/base/text.hpp"
#include "launcher/cli/option_table.hpp"

#include <array>
#include <limits>
#include <optional>

namespace ddprun::launcher {

// Reads "512M", "8G" or "8GiB" as bytes; a plain number means MiB. Empty: not a size.
inline std::optional<std::uint64_t> read_size(std::string_view text) {
  if (text.ends_with("iB")) {
    text.remove_suffix(2);
  } else if (text.ends_with("B")) {
    text.remove_suffix(1);
  }
  unsigned shift = 20;
  constexpr std::string_view units = "KMGT";
  if (!text.empty() && units.find(text.back()) != std::string_view::npos) {
    shift = 10 * (static_cast<unsigned>(units.find(text.back())) + 1);
    text.remove_suffix(1);
  }
  const auto number = whole_number<std::uint64_t>(text);
  if (!number || *number > (std::numeric_limits<std::uint64_t>::max() >> 1) >> shift)
    return std::nullopt;
  return *number << shift;
}

inline cli::checked apply_size(std::uint64_t& size, const cli::given_option& option) {
  const auto read = read_size(cli::without_blanks(option.value));
  if (!read) return cli::wrong(option, "write a size: 512M, 8G");
  size = *read;
  return {};
}

inline cli::checked apply_vault(options_draft& draft, const cli::given_option& option) {
  if (option.value.empty()) return cli::wrong(option, "write the folder that copies go to");
  draft.options.vault.disk = option.value;
  return {};
}

inline cli::checked apply_vault_size(options_draft& draft, const cli::given_option& option) {
  const cli::checked wrong = apply_size(draft.options.vault.size, option);
  if (!wrong && draft.options.vault.size == 0) return cli::wrong(option, "write a size above 0");
  return wrong;
}

inline cli::checked apply_vault_rate(options_draft& draft, const cli::given_option& option) {
  return apply_size(draft.options.vault.rate, option);
}

inline cli::checked apply_vault_port(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.vault.port,
                   cli::read_port(option.given, option.value, "0 for one that is free"));
}

inline cli::checked apply_vault_memory(options_draft& draft, const cli::given_option& option) {
  if (!option.value.starts_with('/')) return cli::wrong(option, "write a whole path: /dev/shm");
  draft.options.vault.memory = option.value;
  return {};
}

inline constexpr std::array vault_rows = {
    cli::option<options_draft>{
        {"vault", "DIR", "Failures",
         "give workers a folder in memory to save to, DDPRUN_VAULT; the newest\n"
         "entry with a marker is copied to DIR, at once when a worker dies, and\n"
         "restored when a node has lost its memory; nodes also keep copies for\n"
         "each other"},
        apply_vault},
    cli::option<options_draft>{{"vault-size", "SIZE", "Failures",
                                "memory that it may take: 512M, 8G (half of what there is)"},
                               apply_vault_size},
    cli::option<options_draft>{
        {"vault-rate", "SIZE", "Failures",
         "copied per second while workers run; 0: as fast as it goes (200M)"},
        apply_vault_rate},
    cli::option<options_draft>{{"vault-port", "PORT", "Failures",
                                "where other nodes have their copies kept here (one that is free)"},
                               apply_vault_port},
    cli::option<options_draft>{
        {"vault-memory", "FOLDER", "Failures", "a file system in memory to use for it (/dev/shm)"},
        apply_vault_memory},
};

}  // namespace ddprun::launcher
