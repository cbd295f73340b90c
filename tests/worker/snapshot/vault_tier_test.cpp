// Snapshots in the vaults of the nodes, beside those in the folder.
#include "worker/snapshot/vault_tier.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/jobs_with_vaults.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace ddprun::tests {
namespace {

namespace fs = std::filesystem;

void change_a_byte(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('!');
  REQUIRE(file.good());
}

}  // namespace

TEST_CASE("the newest of folder and vault is gone on from", "[snapshot][vault]") {
  vault_job test;
  // Alone; two on a node; two nodes of one; two nodes of two.
  const auto [ranks_in_all, each] =
      GENERATE(as<std::pair<std::uint32_t, std::uint32_t>>(), std::pair(1u, 1u), std::pair(2u, 2u),
               std::pair(2u, 1u), std::pair(4u, 2u));
  test.on_each_node = each;
  test.writers = GENERATE(0u, 2u);
  test.is_asynchronous = GENERATE(true, false);
  {
    auto ranks = test.open(1, ranks_in_all);
    CHECK(resumed_step(ranks) == 0);
    CHECK(ranks[0].job->has_vault());
    CHECK(save_to(ranks, 10, snapshot_place::folder) == all(ranks_in_all));
    CHECK(save_to(ranks, 20, vault) == all(ranks_in_all));
    CHECK(ranks.back().job->saved() == test.folder + "/snapshot-000001-000010");
    CHECK(ranks.back().job->saved_in_vault() ==
          test.in_vault((ranks_in_all - 1) / each, "snapshot-000001-000020"));
  }
  CHECK(!fs::exists(test.folder + "/snapshot-000001-000020"));
  {
    auto ranks = test.open(2, ranks_in_all);
    CHECK(resumed_step(ranks) == 20);
    CHECK(ranks[0].job->resumed()->is_in_vault);
    CHECK(ranks[0].job->resumed()->path == test.in_vault(0, "snapshot-000001-000020"));
    CHECK(ranks[0].job->generation() == 2);
    CHECK(save_to(ranks, 30, snapshot_place::folder) == all(ranks_in_all));
  }
  const auto ranks = test.open(3, ranks_in_all);
  CHECK(resumed_step(ranks) == 30);
  CHECK(!ranks[0].job->resumed()->is_in_vault);
  CHECK(test.messages.text() == "");
}

TEST_CASE("a snapshot in the vault is one by itself on each node", "[snapshot][vault]") {
  vault_job test;
  test.on_each_node = 2;
  test.writers = 2;
  auto ranks = test.open(1, 4);
  require_open(ranks);
  CHECK(save_to(ranks, 10, vault) == all(4));
  for (const std::uint32_t node : {0u, 1u}) {
    CHECK(names_below(test.in_vault(node, "snapshot-000001-000010")) ==
          std::set<std::string>{"manifest.json", "rank-00000.safetensors", "rank-00001.safetensors",
                                "ranks.json"});
  }
  // Its marker is the newest of its files, or the launcher would not take it for whole.
  for (const auto& each : fs::directory_iterator(test.in_vault(1, "snapshot-000001-000010"))) {
    CHECK(fs::last_write_time(each.path()) <=
          fs::last_write_time(test.in_vault(1, "snapshot-000001-000010/manifest.json")));
  }
}

TEST_CASE("what one node does not have in its vault no rank goes on from", "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save_to(ranks, 10, snapshot_place::folder) == all(2));
    CHECK(save_to(ranks, 20, vault) == all(2));
    CHECK(save_to(ranks, 30, vault) == all(2));
  }
  fs::remove(test.in_vault(1, "snapshot-000001-000030/manifest.json"));
  CHECK(resumed_step(test.open(2, 2)) == 20);
  CHECK(!fs::exists(test.in_vault(1, "snapshot-000001-000030")));  // unfinished
  fs::remove_all(test.in_vault(0));
  CHECK(resumed_step(test.open(3, 2)) == 10);
  CHECK(test.messages.text() == "");
}

TEST_CASE("what is damaged in a vault is skipped by all", "[snapshot][vault]") {
  vault_job test;
  const std::uint32_t node = GENERATE(0u, 1u);
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save_to(ranks, 10, snapshot_place::folder) == all(2));
    CHECK(save_to(ranks, 20, vault) == all(2));
  }
  change_a_byte(test.in_vault(node, "snapshot-000001-000020/rank-00000.safetensors"));
  CHECK(resumed_step(test.open(2, 2)) == 10);
  CHECK(test.messages.text() ==
        "snapshot " + test.in_vault(0, "snapshot-000001-000020") + " skipped: rank " +
            std::to_string(node) +
            ": rank-00000.safetensors: its bytes do not match their checksum\n");
}

TEST_CASE("what is damaged does not take the place of another in the vault", "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    for (const std::uint64_t step : {10, 20})
      CHECK(save_to(ranks, step, vault) == all(2));
  }
  change_a_byte(test.in_vault(1, "snapshot-000001-000020/rank-00000.safetensors"));
  auto ranks = test.open(2, 2);
  CHECK(resumed_step(ranks) == 10);
  CHECK(save_to(ranks, 30, vault) == all(2));
  for (const std::uint32_t node : {0u, 1u})
    CHECK(fs::exists(test.in_vault(node, "snapshot-000001-000010/manifest.json")));
  CHECK(save_to(ranks, 40, vault) == all(2));
  for (const std::uint32_t node : {0u, 1u}) {
    CHECK(names_below(test.in_vault(node)) ==
          std::set<std::string>{"snapshot-000002-000030", "snapshot-000002-000040"});
  }
}

TEST_CASE("a vault that cannot be read stops no job", "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save_to(ranks, 20, vault) == all(2));
  }
  change_a_byte(test.in_vault(1, "snapshot-000001-000020/rank-00000.safetensors"));
  CHECK(resumed_step(test.open(2, 2)) == 0);  // and not: all are damaged
}

TEST_CASE("of what both places have the vault's is read, or else the folder's",
          "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 1);
    require_open(ranks);
    CHECK(save_to(ranks, 20, vault) == all(1));
    CHECK(save_to(ranks, 20, snapshot_place::folder) == all(1));
  }
  CHECK(test.open(2, 1)[0].job->resumed()->is_in_vault);
  change_a_byte(test.in_vault(0, "snapshot-000001-000020/rank-00000.safetensors"));
  const auto ranks = test.open(3, 1);
  CHECK(resumed_step(ranks) == 20);
  CHECK(!ranks[0].job->resumed()->is_in_vault);
}

TEST_CASE("a step that is saved anywhere is not saved in the vault again", "[snapshot][vault]") {
  vault_job test;
  auto ranks = test.open(1, 1);
  require_open(ranks);
  CHECK(save_to(ranks, 10, snapshot_place::folder) == all(1));
  CHECK(save_to(ranks, 10, vault) == all(1));
  CHECK(names_below(test.in_vault(0)).empty());
  CHECK(save_to(ranks, 20, vault) == all(1));
  CHECK(save_to(ranks, 20, snapshot_place::folder) == all(1));  // the vault is no disk
  CHECK(fs::exists(test.folder + "/snapshot-000001-000020/manifest.json"));
}

TEST_CASE("each place keeps as many as it is to keep", "[snapshot][vault]") {
  vault_job test;
  test.keep = 1;
  test.vault_keep = 2;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    for (const std::uint64_t step : {10, 20, 30, 40}) {
      CHECK(save_to(ranks, step, vault) == all(2));
      CHECK(save_to(ranks, step + 5, snapshot_place::folder) == all(2));
    }
  }
  const std::set<std::string> two = {"snapshot-000001-000030", "snapshot-000001-000040"};
  for (const std::uint32_t node : {0u, 1u})
    CHECK(names_below(test.in_vault(node)) == two);
  CHECK(names_below(test.folder) ==
        std::set<std::string>{"claim-000001", "snapshot-000001-000045"});
  // Over rounds, too.
  auto ranks = test.open(2, 2);
  CHECK(save_to(ranks, 50, vault) == all(2));
  CHECK(names_below(test.in_vault(0)) ==
        std::set<std::string>{"snapshot-000001-000040", "snapshot-000002-000050"});
}

TEST_CASE("without a vault on every node saves there do nothing, and one line says so",
          "[snapshot][vault]") {
  vault_job test;
  test.nodes_without = {1};
  auto ranks = test.open(1, 2);
  require_open(ranks);
  CHECK(!ranks[0].job->has_vault());
  CHECK(!ranks[1].job->has_vault());
  for (const std::uint64_t step : {10, 20})
    CHECK(save_to(ranks, step, vault) == all(2));
  CHECK(!fs::exists(test.in_vault(0, "snapshot-000001-000010")));
  CHECK(save_to(ranks, 30, snapshot_place::folder) == all(2));
  CHECK(test.messages.text() == "no vault for the snapshots in " + test.folder +
                                    ": rank 1: no DDPRUN_VAULT (ddprun --vault DIR on each "
                                    "node)\n");
  ranks.clear();
  CHECK(resumed_step(test.open(2, 2)) == 30);
}

TEST_CASE("a vault that takes nothing costs no job, and one line says so", "[snapshot][vault]") {
  vault_job test;
  auto ranks = test.open(1, 2);
  require_open(ranks);
  CHECK(save_to(ranks, 10, vault) == all(2));
  const std::string refused = GENERATE("rank-00000.safetensors", "record-0", "manifest.json.tmp");
  test.disk.refuses_to_create = refused;
  test.disk.fails_with = ENOSPC;
  for (const std::uint64_t step : {20, 30})
    CHECK(save_to(ranks, step, vault) == all(2));
  test.disk.fails_with = 0;
  REQUIRE(test.messages.all().size() == 1);
  CHECK(test.messages.last().starts_with("cannot save snapshot " +
                                         test.in_vault(0, "snapshot-000001-000020") +
                                         " in the vault: rank 0: "));
  CHECK(test.messages.last().ends_with(
      ": No space left on device (and 1 more ranks); going on with those in " + test.folder));
  for (const std::uint32_t node : {0u, 1u})
    CHECK(names_below(test.in_vault(node)) == std::set<std::string>{"snapshot-000001-000010"});
  CHECK(ranks[0].job->saved_in_vault() == test.in_vault(0, "snapshot-000001-000010"));
  CHECK(save_to(ranks, 40, vault) == all(2));  // there is room again
  CHECK(save_to(ranks, 50, snapshot_place::folder) == all(2));
  CHECK(!ranks[0].job->is_over());
}

TEST_CASE("a file whose pages the launcher has freed is no snapshot", "[snapshot][vault]") {
  vault_job test;
  auto ranks = test.open(1, 2);
  require_open(ranks);
  CHECK(save_to(ranks, 10, vault) == all(2));
  // The memory guard marks it so while it is written, or up to its marker.
  const std::string when = GENERATE("record-0", "manifest.json.tmp");
  const std::string freed = test.in_vault(1, "snapshot-000001-000020/rank-00000.safetensors");
  test.disk.before_create = [&](const std::string& path) {
    if (path.starts_with(test.vault_of(1)) && path.ends_with(when)) {
      ::chmod(freed.c_str(), 01600);
    }
  };
  CHECK(save_to(ranks, 20, vault) == all(2));
  test.disk.before_create = nullptr;
  CHECK(test.messages.text() ==
        "cannot save snapshot " + test.in_vault(0, "snapshot-000001-000020") +
            " in the vault: rank 1: rank-00000.safetensors: the vault has no room for it "
            "(--vault-size); going on with those in " +
            test.folder + "\n");
  for (const std::uint32_t node : {0u, 1u})
    CHECK(names_below(test.in_vault(node)) == std::set<std::string>{"snapshot-000001-000010"});
}

TEST_CASE("a vault that is gone costs no job", "[snapshot][vault]") {
  vault_job test;
  auto ranks = test.open(1, 1);
  require_open(ranks);
  fs::remove_all(test.vault_of(0));
  CHECK(save_to(ranks, 10, vault) == all(1));
  CHECK(test.messages.all().size() == 1);
  CHECK(test.messages.last().find("No such file or directory") != std::string::npos);
  CHECK(save_to(ranks, 20, snapshot_place::folder) == all(1));
}

TEST_CASE("a snapshot in the vault that leads to nothing twice is distrusted",
          "[snapshot][vault]") {
  vault_job test;
  const bool has_older_in_vault = GENERATE(true, false);
  {
    auto ranks = test.open(1, 1);
    CHECK_FALSE(ranks[0].job->progress(10));
    CHECK(save_to(ranks, 10, has_older_in_vault ? vault : snapshot_place::folder) == all(1));
    CHECK_FALSE(ranks[0].job->progress(20));
    CHECK(save_to(ranks, 20, vault) == all(1));
  }
  CHECK(resumed_step(test.open(2, 1)) == 20);
  CHECK(resumed_step(test.open(3, 1)) == 20);
  CHECK(resumed_step(test.open(4, 1)) == 10);
  const std::string before = has_older_in_vault ? test.in_vault(0) : test.folder;
  CHECK(test.messages.last() ==
        "snapshot " + test.in_vault(0, "snapshot-000001-000020") +
            " is distrusted, because 2 jobs have resumed from it and failed within 10 steps: "
            "resuming from " +
            before + "/snapshot-000001-000010, 10 steps before it");
}

TEST_CASE("a save in the vault does not speak for what was gone on from", "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 1);
    CHECK_FALSE(ranks[0].job->progress(10));
    CHECK(save_to(ranks, 10, snapshot_place::folder) == all(1));
  }
  {
    auto ranks = test.open(2, 1);
    CHECK_FALSE(ranks[0].job->progress(12));
    CHECK(save_to(ranks, 12, vault) == all(1));
    CHECK(fs::exists(test.folder + "/snapshot-000001-000010/resumed-000002"));
    CHECK_FALSE(ranks[0].job->progress(20));
    CHECK_FALSE(ranks[0].job->wait());
    CHECK(!fs::exists(test.folder + "/snapshot-000001-000010/resumed-000002"));
  }
}

TEST_CASE("each node's launcher is told what was gone on from", "[snapshot][vault]") {
  vault_job test;
  const auto told = [&] {
    std::set<std::string> all;
    for (const std::uint32_t node : {0u, 1u}) {
      std::ifstream note(test.in_vault(node, ".resumed-from"));
      REQUIRE(note.good());
      all.insert(std::string(std::istreambuf_iterator<char>(note), {}));
    }
    return all;
  };
  const std::set<std::string> nothing{""};
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(told() == nothing);
    CHECK(save_to(ranks, 20, vault) == all(2));
    CHECK(told() == nothing);
  }
  const std::set<std::string> newest{"snapshot-000001-000020\n"};
  const std::string by = GENERATE("progress", "a snapshot in the folder", "the end");
  {
    auto ranks = test.open(2, 2);
    CHECK(resumed_step(ranks) == 20);
    CHECK(told() == newest);
    job_under_test::on_all(2, [&](std::uint32_t rank) {
      auto& job = *ranks[rank].job;
      ranks[rank].error = job.progress(29);
      if (by == "progress") ranks[rank].error = job.progress(30);
      if (by == "the end") ranks[rank].error = job.close();
      if (by == "progress") ranks[rank].error = job.wait();
    });
    if (by == "a snapshot in the folder") {
      CHECK(save_to(ranks, 30, snapshot_place::folder) == all(2));
    }
    CHECK(told() == nothing);  // it has proved itself
  }
  fs::remove_all(test.folder);
  test.distrust = false;
  CHECK(resumed_step(test.open(3, 2)) == 20);
  CHECK(told() == nothing);
}

// The launcher may look at any time.
TEST_CASE("the note for the launcher is there until the next one is written", "[snapshot][vault]") {
  vault_job test;
  CHECK(resumed_step(test.open(1, 1)) == 0);
  const std::string note = test.in_vault(0, ".resumed-from");
  std::vector<bool> was_there;
  test.disk.before_create = [&](const std::string& path) {
    if (path.starts_with(note)) was_there.push_back(fs::exists(note));
  };
  CHECK(resumed_step(test.open(2, 1)) == 0);
  CHECK(was_there == std::vector<bool>{true});
  CHECK(names_below(test.in_vault(0)).empty());
}

TEST_CASE("what was gone on from in the folder is not the vault's", "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 1);
    CHECK(save_to(ranks, 10, vault) == all(1));
    CHECK(save_to(ranks, 20, snapshot_place::folder) == all(1));
  }
  CHECK(resumed_step(test.open(2, 1)) == 20);
  CHECK(fs::file_size(test.in_vault(0, ".resumed-from")) == 0);
}

TEST_CASE("a new folder's snapshots are newer than what the vault has", "[snapshot][vault]") {
  vault_job test;
  for (const round_number round : {1, 2, 3}) {
    auto ranks = test.open(round, 1);
    CHECK(save_to(ranks, 10 * round, vault) == all(1));
  }
  fs::remove_all(test.folder);
  {
    auto ranks = test.open(4, 1);
    CHECK(resumed_step(ranks) == 30);
    CHECK(ranks[0].job->generation() == 4);
    CHECK(save_to(ranks, 31, snapshot_place::folder) == all(1));
  }
  CHECK(resumed_step(test.open(5, 1)) == 31);
}

TEST_CASE("another folder's snapshots in the vault are not taken", "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 1);
    CHECK(save_to(ranks, 10, vault) == all(1));
  }
  test.folder += "-of-another";
  CHECK(resumed_step(test.open(2, 1)) == 0);
}

TEST_CASE("what was killed while it saved leaves nothing in the vault", "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save_to(ranks, 10, vault) == all(2));
  }
  const std::string left = test.in_vault(1, "snapshot-000001-000020");
  fs::create_directories(left);
  std::ofstream(left + "/rank-00000.safetensors") << "half of it";
  std::ofstream(left + "/manifest.json.tmp") << "half of it";
  // The launcher has taken its mark from this one.
  const std::string hidden = test.in_vault(1, "snapshot-000001-000015");
  fs::create_directories(hidden);
  std::ofstream(hidden + "/manifest.json-not-everywhere") << "{}";
  auto ranks = test.open(2, 2);
  CHECK(resumed_step(ranks) == 10);
  CHECK(!fs::exists(left));
  CHECK(fs::exists(hidden));
  for (const std::uint64_t step : {30, 40})
    CHECK(save_to(ranks, step, vault) == all(2));
  CHECK(!fs::exists(hidden));
}

TEST_CASE("ranks of one node that do not have the same tensors save nothing in the vault",
          "[snapshot][vault]") {
  vault_job test;
  test.on_each_node = 2;
  test.writers = 2;
  auto ranks = test.open(1, 2);
  require_open(ranks);
  job_under_test::on_all(2, [&](std::uint32_t rank) {
    const small_state all(10, rank);
    auto state = all.view();
    if (rank == 1) state.replicated.tensors.pop_back();
    if (rank == 1) state.replicated.tensors.push_back(bytes_tensor("another", "x"));
    ranks[rank].error = ranks[rank].job->save(10, 1, state, snapshot_place::vault);
    if (!ranks[rank].error) ranks[rank].error = ranks[rank].job->wait();
  });
  CHECK(!ranks[0].error);
  CHECK(names_below(test.in_vault(0)).empty());
  CHECK(test.messages.last().find("rank 1 has replicated tensors with other names, types or "
                                  "shapes than rank 0") != std::string::npos);
}

TEST_CASE("an emergency snapshot is newer than what the vault has", "[snapshot][vault]") {
  vault_job test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save_to(ranks, 10, vault) == all(2));
    ranks[1].job.reset();
    CHECK_FALSE(ranks[0].job->save_emergency(12, 1, small_state(12).view(), patience));
  }
  const auto ranks = test.open(2, 2);
  require_open(ranks);
  CHECK(ranks[0].job->resumed()->info.step == 12);
  CHECK(ranks[0].job->resumed()->info.is_emergency);
}

TEST_CASE("a vault is to keep at least one snapshot", "[snapshot][vault]") {
  vault_job test;
  test.vault_keep = 0;
  const auto ranks = test.open(1, 1);
  CHECK(ranks[0].error == errc::invalid_argument);
  CHECK(ranks[0].problem == "of the snapshots in the vault at least one must be kept");
}

}  // namespace ddprun::tests
