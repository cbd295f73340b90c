// What ranks get out of the vaults of several nodes: each has a snapshot of its own ranks, and what
// may differ between nodes is rank 0's for all.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/jobs_with_vaults.hpp"
#include "worker/snapshot/sharded_tensors.hpp"
#include "worker/snapshot/vault_tier.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {

TEST_CASE("another number of ranks gets what all have alike out of the vaults",
          "[snapshot][vault]") {
  vault_job test;
  const std::uint32_t next = GENERATE(1u, 2u, 3u);
  {
    auto ranks = test.open(1, 3);
    require_open(ranks);
    CHECK(save_to(ranks, 10, vault) == all(3));
  }
  if (next == 2) test.on_each_node = 2;  // and then they are on one node, whose vault has one
  const auto ranks = test.open(2, next);
  require_open(ranks);
  for (std::uint32_t rank = 0; rank < next; ++rank) {
    const auto& found = ranks[rank].job->resumed();
    REQUIRE(found.has_value());
    CHECK(found->is_in_vault);
    CHECK(found->world_size == 3);
    CHECK(found->own.has_value() == (next == 3));
    CHECK(small_state(10, rank).compare(*found) == "");
  }
}

TEST_CASE("a node that has got another's snapshot does not take its own state from it",
          "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save_to(ranks, 10, vault) == all(2));
  }
  std::filesystem::remove_all(test.in_vault(1));
  std::filesystem::copy(test.in_vault(0), test.in_vault(1),
                        std::filesystem::copy_options::recursive);
  const auto ranks = test.open(2, 2);
  require_open(ranks);
  for (const auto& each : ranks) {
    REQUIRE(each.job->resumed().has_value());
    CHECK(each.job->resumed()->info.step == 10);
    CHECK(!each.job->resumed()->own.has_value());
  }
}

TEST_CASE("what may differ between nodes comes from rank 0", "[snapshot][vault]") {
  vault_job test;
  test.between = std::make_unique<broadcast_of_threads>(2);
  const auto state = [](const small_state& all, const std::string& average) {
    auto made = all.view();
    auto tensor = bytes_tensor("average", average);
    tensor.is_rank_0s = true;
    made.replicated.tensors.push_back(tensor);
    return made;
  };
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    const std::string averages[] = {"of rank 0", "of rank 1"};
    job_under_test::on_all(2, [&](std::uint32_t rank) {
      const small_state all(10, rank);
      ranks[rank].error = ranks[rank].job->save(10, 1, state(all, averages[rank]), vault);
      if (!ranks[rank].error) ranks[rank].error = ranks[rank].job->wait();
    });
    CHECK(!ranks[0].error);
  }
  const auto ranks = test.open(2, 2);
  CHECK(resumed_step(ranks) == 10);
  for (const auto& each : ranks)
    CHECK(each.job->resumed()->replicated.find("average")->bytes == "of rank 0");
}

TEST_CASE("what only rank 0 has all ranks get out of the vaults", "[snapshot][vault]") {
  vault_job test;
  test.between = std::make_unique<broadcast_of_threads>(2);
  const auto mark = [](snapshot_state& state, const std::string& name, std::string_view bytes) {
    state.replicated.tensors.insert(state.replicated.tensors.begin(), bytes_tensor(name, bytes));
    state.replicated.tensors.front().is_rank_0s = true;
  };
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    job_under_test::on_all(2, [&](std::uint32_t rank) {
      const small_state all(10, rank);
      auto state = all.view();
      mark(state, "average", rank == 0 ? "longer on rank 0" : "of rank 1");
      if (rank == 0) mark(state, "plan", "the plan");
      if (rank == 1) mark(state, "scratch", "of rank 1");
      ranks[rank].error = ranks[rank].job->save(10, 1, state, vault);
      if (!ranks[rank].error) ranks[rank].error = ranks[rank].job->wait();
    });
    CHECK(!ranks[0].error);
  }
  const auto ranks = test.open(2, 2);
  CHECK(resumed_step(ranks) == 10);
  for (const auto& each : ranks) {
    const auto& found = each.job->resumed()->replicated;
    REQUIRE(found.find("plan") != nullptr);
    CHECK(found.find("plan")->bytes == "the plan");
    CHECK(found.find("average")->bytes == "longer on rank 0");
    CHECK(found.find("average")->shape == std::vector<std::uint64_t>{16});
    CHECK(found.find("scratch") == nullptr);
  }
}

// As out of the folder, where the others' states are not looked at.
TEST_CASE("with one writer all ranks get rank 0's state out of the vaults", "[snapshot][vault]") {
  vault_job test;
  test.writers = 1;
  test.on_each_node = 2;
  test.between = std::make_unique<broadcast_of_threads>(4);
  const snapshot_place to = GENERATE(vault, snapshot_place::folder);
  {
    auto ranks = test.open(1, 4);
    require_open(ranks);
    const std::string states[] = {"rank 0", "one", "two", "three"};
    job_under_test::on_all(4, [&](std::uint32_t rank) {
      const small_state all(10, rank);
      auto state = all.view();
      state.replicated.values["said"] = states[rank];
      state.replicated.tensors.push_back(bytes_tensor("state", states[rank]));
      if (rank == 0) state.replicated.tensors.push_back(bytes_tensor("plan", states[rank]));
      ranks[rank].error = ranks[rank].job->save(10, 1, state, to);
      if (!ranks[rank].error) ranks[rank].error = ranks[rank].job->wait();
    });
    CHECK(!ranks[0].error);
  }
  const auto ranks = test.open(2, 4);
  require_open(ranks);
  for (const auto& each : ranks)
    REQUIRE(each.job->resumed().has_value());
  CHECK(ranks[0].job->resumed()->is_in_vault == (to == vault));
  std::vector<std::string> read(4);
  job_under_test::on_all(4, [&](std::uint32_t rank) {
    const auto& found = ranks[rank].job->resumed()->replicated;
    // Out of the folder the tensors are handed out as they are fetched, in the same order by all.
    for (const auto& tensor : found.tensors) {
      std::string bytes(bytes_of(tensor).value(), '\0');
      if (tensor.copy) tensor.copy(bytes.data());
      if (!tensor.copy) bytes = tensor.bytes;
      if (tensor.name == "state" || tensor.name == "plan") read[rank] += bytes + ", ";
    }
    read[rank] += found.values.at("said");
  });
  CHECK(read == std::vector<std::string>(4, read[0]));
  CHECK(read[0].ends_with("rank 0"));
  CHECK(read[3].find("rank 0, rank 0, ") == 0);
}

TEST_CASE("pieces that are on other nodes are not looked for in the vault", "[snapshot][vault]") {
  vault_job test;
  const std::uint32_t next = GENERATE(1u, 2u);
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    const auto save_pieces = [&](std::uint64_t step, snapshot_place to) {
      job_under_test::on_all(2, [&](std::uint32_t rank) {
        const std::string bytes(4, static_cast<char>('a' + rank));
        const small_state all(step, rank);
        auto state = all.view();
        state.own.tensors.push_back(bytes_tensor("moments", bytes));
        state.own.tensors.back().piece_of = {{8}, {4 * rank}};
        ranks[rank].error = ranks[rank].job->save(step, 1, state, to);
        if (!ranks[rank].error) ranks[rank].error = ranks[rank].job->wait();
      });
      return !ranks[0].error && !ranks[1].error;
    };
    CHECK(save_pieces(10, snapshot_place::folder));
    CHECK(save_pieces(20, vault));
  }
  const auto ranks = test.open(2, next);
  require_open(ranks);
  CHECK(ranks[0].job->resumed()->info.step == (next == 2 ? 20 : 10));
  CHECK(test.messages.text() ==
        (next == 2 ? ""
                   : "snapshot " + test.in_vault(0, "snapshot-000001-000020") +
                         " in the vault is not taken: each of several nodes has pieces of larger "
                         "tensors there, and the ranks are others now\n"));
}

}  // namespace ddprun::tests
