// Jobs whose nodes have vaults, on the threads of one process.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/broadcast_of_threads.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"
#include "worker/snapshot/checksum.hpp"
#include "worker/snapshot/snapshots.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {

using namespace ddprun::worker;

inline constexpr auto vault = snapshot_place::vault;

// Without the note for the launcher.
inline std::set<std::string> names_below(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(folder))
    names.insert(each.path().filename());
  names.erase(".resumed-from");
  return names;
}

// Nodes with as many ranks each, each with a vault of its own.
struct vault_job : job_under_test {
  std::uint32_t on_each_node = 1;
  std::size_t keep = 3, vault_keep = 2;
  bool distrust = true;
  std::set<std::uint32_t> nodes_without;          // a vault
  std::unique_ptr<broadcast_of_threads> between;  // none: ranks have no other way

  std::string vault_of(std::uint32_t node) const {
    return place.path + "/node-" + std::to_string(node);
  }
  std::string in_vault(std::uint32_t node, const std::string& name = "") const {
    const std::string folder_there =
        vault_of(node) + "/snapshots-" + checksum_text(checksum_of(folder));
    return name.empty() ? folder_there : folder_there + "/" + name;
  }
  std::vector<rank_result> open(round_number round, std::uint32_t world_size) {
    std::vector<rank_result> ranks(world_size);
    for (std::uint32_t node = 0; node * on_each_node < world_size; ++node)
      std::filesystem::create_directories(vault_of(node));
    on_all(world_size, [&](std::uint32_t rank) {
      environment here = lone_rank(round, instance);
      here.rank = rank;
      here.world_size = world_size;
      here.local_rank = rank % on_each_node;
      here.local_world_size =
          std::min(on_each_node, world_size - rank / on_each_node * on_each_node);
      here.master_address = "127.0.0.1";
      here.master_port = store.port();
      auto with = options();
      const std::uint32_t node = rank / on_each_node;
      with.keep = keep;
      with.distrust = distrust;
      with.uses_vault = true;
      with.vault_keep = vault_keep;
      with.vault = nodes_without.contains(node) ? "" : vault_of(node);
      if (between) with.broadcast = between->of(rank);
      auto opened = snapshots::open(here, std::move(with), ranks[rank].problem);
      if (opened) ranks[rank].job = std::move(*opened);
      if (!opened) ranks[rank].error = opened.error();
    });
    return ranks;
  }
};

inline std::vector<error_code> save_to(std::vector<rank_result>& ranks, std::uint64_t step,
                                       snapshot_place to) {
  std::vector<error_code> errors(ranks.size());
  job_under_test::on_all(static_cast<std::uint32_t>(ranks.size()), [&](std::uint32_t rank) {
    auto& job = *ranks[rank].job;
    errors[rank] = job.save(step, step / 10, small_state(step, rank).view(), to);
    if (!errors[rank]) errors[rank] = job.wait();
  });
  return errors;
}

// The step that all ranks have resumed from; 0: none. What is wrong goes into `wrong`.
inline std::uint64_t step_of(const std::vector<rank_result>& ranks, std::string& wrong) {
  std::set<std::uint64_t> steps;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& found = ranks[rank].job->resumed();
    steps.insert(found ? found->info.step : 0);
    if (!found) continue;
    wrong += small_state(found->info.step, rank).compare(*found);
    if (!found->own) wrong += "rank " + std::to_string(rank) + " has nothing of its own";
    if (found->world_size != ranks.size()) wrong += "another number of ranks";
  }
  if (steps.size() != 1) wrong += "the ranks differ";
  return steps.empty() ? 0 : *steps.begin();
}

// Ranks that each have all of their own.
inline std::uint64_t resumed_step(const std::vector<rank_result>& ranks) {
  require_open(ranks);
  std::string wrong;
  const auto step = step_of(ranks, wrong);
  CHECK(wrong == "");
  return step;
}

}  // namespace ddprun::tests
