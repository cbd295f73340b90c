// The names in a snapshot folder, for a folder that can be sorted without opening a file:
//
//   claim-000003                      who writes here: its text is "instance round\n"
//   snapshot-000003-000040/           of generation 3, at step 40
//     rank-00000.safetensors ...      one a rank
//     model.safetensors.index.json    where several ranks write what all have alike: shares.hpp
//     manifest.json                   the last one to come: with it the snapshot is there
//     survivors.safetensors           in place of the ranks' files: emergency.hpp
//     resumed-000004                  a job of generation 4 went on from it, and has not come far
//                                     yet (text: "instance restarts\n")
//
// Numbers have at least so many digits, and more where they need them.
//
// Pure. Thread rule: any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::worker {

// Generations go up by one from 1: a name with a greater one is none of ours.
constexpr std::uint64_t generation_limit = std::uint64_t{1} << 62;

constexpr std::string_view manifest_name = "manifest.json";
// Hugging Face's tools find it by its end, and load it by this name.
constexpr std::string_view index_name = "model.safetensors.index.json";
constexpr std::string_view temporary_suffix = ".tmp";
// A survivor writes while a rank that is cut off may still save the same step: under other names.
constexpr std::string_view survivors_file_name = "survivors.safetensors";
constexpr std::string_view survivors_temporary_suffix = ".survivors.tmp";

// What the name says: `newer` is greater.
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

// One that this program writes into the folder of a snapshot.
bool is_name_in_snapshot(std::string_view name);

// "snapshot-000003-000040.ddprun": what ddprun 0.1 wrote before snapshots were folders.
bool is_name_of_old_format(std::string_view name);

}  // namespace ddprun::worker
