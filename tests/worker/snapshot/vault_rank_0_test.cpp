// What the vaults of several nodes have of rank 0's: whether the nodes' snapshots fit together, and
// what is done where node 0 was lost.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/jobs_with_vaults.hpp"

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char* saved_in_vault = "snapshot-000001-000020";

// Saves a state with one more tensor, which is called "average" and contains the rank's text. A
// rank whose text is empty does not have it.
std::vector<error_code> save_with_average(std::vector<rank_result>& ranks, std::uint64_t step,
                                          snapshot_place to, bool is_marked,
                                          const std::vector<std::string>& averages) {
  std::vector<error_code> errors(ranks.size());
  job_under_test::on_all(static_cast<std::uint32_t>(ranks.size()), [&](std::uint32_t rank) {
    const small_state all(step, rank);
    auto state = all.view();
    if (!averages[rank].empty()) {
      state.replicated.tensors.push_back(bytes_tensor("average", averages[rank]));
      state.replicated.tensors.back().is_rank_0s = is_marked;
    }
    errors[rank] = ranks[rank].job->save(step, 1, state, to);
    if (!errors[rank]) errors[rank] = ranks[rank].job->wait();
  });
  return errors;
}

std::set<std::string> averages_of(const std::vector<rank_result>& ranks) {
  std::set<std::string> found;
  for (const auto& each : ranks) {
    const auto* const average = each.job->resumed()->replicated.find("average");
    found.insert(average == nullptr ? "none" : std::string(average->bytes));
  }
  return found;
}

void copy_vault(const std::string& from, const std::string& to) {
  fs::remove_all(to);
  fs::copy(from, to, fs::copy_options::recursive);
}

}  // namespace

TEST_CASE("nodes that do not have the same tensors save nothing in the vault",
          "[snapshot][vault]") {
  vault_job test;
  test.on_each_node = GENERATE(1u, 2u);
  const std::uint32_t count = 2 * test.on_each_node;
  auto ranks = test.open(1, count);
  require_open(ranks);
  std::vector<std::string> averages(count, "alike");
  averages.back() = "another shape";
  CHECK(save_with_average(ranks, 20, vault, false, averages) == all(count));
  for (const std::uint32_t node : {0u, 1u})
    CHECK(names_below(test.in_vault(node)).empty());
  CHECK(test.messages.text() ==
        "cannot save snapshot " + test.in_vault(0, saved_in_vault) + " in the vault: rank " +
            std::to_string(count - 1) +
            " has replicated tensors with other names, types or shapes than rank 0: mark those "
            "that only rank 0 has with is_rank_0s, or let rank 0 write everything (writers = 1); "
            "going on with those in " +
            test.folder + "\n");
  CHECK(save_with_average(ranks, 30, vault, true, averages) == all(count));  // these may differ
  CHECK(ranks[0].job->saved_in_vault() == test.in_vault(0, "snapshot-000001-000030"));
}

TEST_CASE("nodes with different numbers of ranks have the same tensors", "[snapshot][vault]") {
  vault_job test;
  test.on_each_node = 2;
  test.writers = 2;
  auto ranks = test.open(1, 3);
  require_open(ranks);
  CHECK(save_to(ranks, 20, vault) == all(3));
  CHECK(names_below(test.in_vault(0, saved_in_vault)).size() == 4);
  CHECK(names_below(test.in_vault(1, saved_in_vault)).size() == 3);
  ranks.clear();
  CHECK(resumed_step(test.open(2, 3)) == 20);
}

// The launcher gives a new node the part of another one where the lost one's has no copy.
TEST_CASE("a vault that has lost what only rank 0 saves is not taken", "[snapshot][vault]") {
  vault_job test;
  const bool is_marked = GENERATE(true, false);
  const bool has_broadcast = GENERATE(true, false);
  const auto on_several_nodes = [&] {
    if (has_broadcast) test.between = std::make_unique<broadcast_of_threads>(2);
  };
  on_several_nodes();
  const std::vector<std::string> averages{"of rank 0", is_marked ? "of rank 1" : "of rank 0"};
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save_with_average(ranks, 10, snapshot_place::folder, is_marked, averages) == all(2));
    CHECK(save_with_average(ranks, 20, vault, is_marked, averages) == all(2));
  }
  copy_vault(test.vault_of(1), test.vault_of(0));
  on_several_nodes();
  const auto ranks = test.open(2, 2);
  require_open(ranks);
  for (const auto& each : ranks)
    REQUIRE(each.job->resumed().has_value());
  CHECK(ranks[0].job->resumed()->is_in_vault == !is_marked);
  CHECK(ranks[0].job->resumed()->info.step == (is_marked ? 10 : 20));
  CHECK(test.messages.text() ==
        (is_marked ? "snapshot " + test.in_vault(0, saved_in_vault) +
                         " in the vault is not taken: the tensors that only rank 0 saves are lost "
                         "with its node\n"
                   : ""));
}

// Nothing that the other nodes have saved themselves says that there is such a tensor.
TEST_CASE("a vault that has lost a tensor that only rank 0 has is not taken", "[snapshot][vault]") {
  vault_job test;
  test.writers = GENERATE(0u, 1u);
  const bool is_lost = GENERATE(true, false);
  CAPTURE(test.writers, is_lost);
  test.between = std::make_unique<broadcast_of_threads>(2);
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    const std::vector<std::string> averages{"of rank 0", ""};
    CHECK(save_with_average(ranks, 10, snapshot_place::folder, true, averages) == all(2));
    CHECK(save_with_average(ranks, 20, vault, true, averages) == all(2));
  }
  if (is_lost) copy_vault(test.vault_of(1), test.vault_of(0));
  test.between = std::make_unique<broadcast_of_threads>(2);
  const auto ranks = test.open(2, 2);
  require_open(ranks);
  for (const auto& each : ranks)
    REQUIRE(each.job->resumed().has_value());
  CHECK(ranks[0].job->resumed()->info.step == (is_lost ? 10 : 20));
  if (!is_lost) CHECK(averages_of(ranks) == std::set<std::string>{"of rank 0"});
  CHECK(test.messages.text() ==
        (is_lost ? "snapshot " + test.in_vault(0, saved_in_vault) +
                       " in the vault is not taken: the tensors that only rank 0 saves are lost "
                       "with its node\n"
                 : ""));
}

TEST_CASE("a snapshot that the folder has, too, needs no line of what the vault lacks",
          "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    const std::vector<std::string> averages{"of rank 0", "of rank 1"};
    CHECK(save_with_average(ranks, 20, vault, true, averages) == all(2));
    CHECK(save_with_average(ranks, 20, snapshot_place::folder, true, averages) == all(2));
  }
  copy_vault(test.vault_of(1), test.vault_of(0));
  const auto ranks = test.open(2, 2);
  require_open(ranks);
  REQUIRE(ranks[0].job->resumed().has_value());
  CHECK(ranks[0].job->resumed()->info.step == 20);
  CHECK_FALSE(ranks[0].job->resumed()->is_in_vault);
  CHECK(test.messages.text() == "");
}

TEST_CASE("what rank 0 has saved comes from the node that has it now", "[snapshot][vault]") {
  vault_job test;
  const bool has_broadcast = GENERATE(true, false);
  const auto on_several_nodes = [&] {
    if (has_broadcast) test.between = std::make_unique<broadcast_of_threads>(2);
  };
  on_several_nodes();
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save_with_average(ranks, 20, vault, true, {"of rank 0", "of rank 1"}) == all(2));
  }
  const std::string kept = test.place.path + "/kept";
  copy_vault(test.vault_of(0), kept);
  copy_vault(test.vault_of(1), test.vault_of(0));
  copy_vault(kept, test.vault_of(1));
  on_several_nodes();
  const auto ranks = test.open(2, 2);
  require_open(ranks);
  CHECK(ranks[0].job->resumed().has_value() == has_broadcast);
  if (has_broadcast) CHECK(averages_of(ranks) == std::set<std::string>{"of rank 0"});
  CHECK(test.messages.text() ==
        (has_broadcast ? ""
                       : "snapshot " + test.in_vault(0, saved_in_vault) +
                             " in the vault is not taken: the tensors that only rank 0 saves are "
                             "on the node of rank 1 now, and there is no broadcast to hand them "
                             "out\n"));
}

TEST_CASE("ranks that all are on one node now need rank 0's node's part", "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save_with_average(ranks, 20, vault, true, {"of rank 0", "of rank 1"}) == all(2));
  }
  const bool is_rank_0s = GENERATE(true, false);
  if (!is_rank_0s) copy_vault(test.vault_of(1), test.vault_of(0));
  test.on_each_node = 2;
  const auto ranks = test.open(2, 2);
  require_open(ranks);
  CHECK(ranks[0].job->resumed().has_value() == is_rank_0s);
  if (is_rank_0s) CHECK(averages_of(ranks) == std::set<std::string>{"of rank 0"});
}

// Each rank has read its files by then: no rank may go on from what another one then gives up.
TEST_CASE("a node whose vault loses something while it is read gives up for all",
          "[snapshot][vault]") {
  vault_job test;
  test.between = std::make_unique<broadcast_of_threads>(2);
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK_FALSE(ranks[0].job->progress(10));
    CHECK(save_to(ranks, 10, snapshot_place::folder) == all(2));
    CHECK(save_to(ranks, 20, vault) == all(2));
  }
  const std::uint32_t node = GENERATE(0u, 1u);
  const std::string place = test.in_vault(node, saved_in_vault);
  test.disk.before_look = [&](const std::string& path) {
    if (path == place + "/rank-00000.safetensors") fs::remove(place + "/ranks.json");
  };
  test.between = std::make_unique<broadcast_of_threads>(2);
  const auto ranks = test.open(2, 2);
  require_open(ranks);
  for (const auto& each : ranks) {
    REQUIRE(each.job->resumed().has_value());
    CHECK(each.job->resumed()->info.step == 10);
  }
  CHECK(test.messages.text() == "snapshot " + test.in_vault(0, saved_in_vault) + " skipped: rank " +
                                    std::to_string(node) + ": it has lost its ranks.json\n");
}

TEST_CASE("ranks that lose each other over the vault's snapshot have not gone on from it",
          "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK_FALSE(ranks[0].job->progress(20));
    CHECK(save_to(ranks, 20, vault) == all(2));
  }
  test.between = std::make_unique<broadcast_of_threads>(2);
  test.between->break_off();
  const auto ranks = test.open(2, 2);
  for (const auto& each : ranks) {
    CHECK(each.job == nullptr);
    CHECK(each.problem.find("the ranks have lost each other") != std::string::npos);
  }
  CHECK(!fs::exists(test.in_vault(0, saved_in_vault) + "/resumed-000002"));
  test.between.reset();
  CHECK(resumed_step(test.open(3, 2)) == 20);
}

}  // namespace ddprun::tests
