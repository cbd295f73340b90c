// The names in a snapshot folder, which can be sorted without opening a file:
//
//   claim-000003                      the writer of the folder, as text: "instance round\n"
//   snapshot-000003-000040/           of generation 3, at step 40
//     rank-00000.safetensors ...      one for each rank
//     model.safetensors.index.json    if several ranks write the replicated state: shares.hpp
//     manifest.json                   written last: makes the snapshot valid
//     survivors.safetensors           instead of the ranks' files: emergency.hpp
//     resumed-000004                  a job of generation 4 has resumed from it, and has not made
//                                     enough progress yet (text: "instance restarts\n")
//
// Numbers have at least this many digits, and more if needed.
//
// Pure. Thread rule: any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::worker {

// Generations count up from 1, so a name with a greater one is not ours.
constexpr std::uint64_t generation_limit = std::uint64_t{1} << 62;

constexpr std::string_view manifest_name = "manifest.json";
// Hugging Face's tools find the index by its suffix, and load it by this name.
constexpr std::string_view index_name = "model.safetensors.index.json";
constexpr std::string_view temporary_suffix = ".tmp";
// Beside snapshots in a vault: the name of the one that was resumed from, for the launcher
// (launcher/vault/vault_rules.hpp).
constexpr std::string_view resumed_from_name = ".resumed-from";
// A survivor may write while a rank that is cut off still saves the same step, so it uses other
// names.
constexpr std::string_view survivors_file_name = "survivors.safetensors";
constexpr std::string_view survivors_temporary_suffix = ".survivors.tmp";

// The content of the name. A greater order is newer.
struct snapshot_order {
  std::uint64_t generation = 0;
  std::uint64_t step = 0;
  auto operator<=>(const snapshot_order&) const = default;
};
std::string snapshot_name(snapshot_order order);
std::optional<snapshot_order> parse_snapshot_name(std::string_view name);

std::string claim_name(std::uint64_t generation);
std::optional<std::uint64_t> parse_claim_name(std::string_view name);

std::string resumed_name(std::uint64_t generation);
std::optional<std::uint64_t> parse_resumed_name(std::string_view name);

std::string rank_file_name(std::uint32_t rank);

// True for names that this program writes into the folder of a snapshot.
bool is_name_in_snapshot(std::string_view name);

// "snapshot-000003-000040.ddprun": written by ddprun 0.1, before snapshots were folders.
bool is_name_of_old_format(std::string_view name);

}  // namespace ddprun::worker
