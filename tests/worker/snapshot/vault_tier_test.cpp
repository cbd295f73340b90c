// Snapshots in the vaults of the nodes, beside those in the folder.
#include "worker/snapshot/vault_tier.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/broadcast_of_threads.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"
#include "worker/snapshot/checksum.hpp"
#include "worker/snapshot/sharded_tensors.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;
namespace fs = std::filesystem;

constexpr auto vault = snapshot_place::vault;

// Nodes with as many ranks each, each with a vault of its own.
struct vault_job : job_under_test {
  std::uint32_t on_each_node = 1;
  std::size_t keep = 3, vault_keep = 2;
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
      fs::create_directories(vault_of(node));
    on_all(world_size, [&](std::uint32_t rank) {
      environment here = lone_rank(round, instance);
      here.rank = rank;
      here.world_size = world_size;
      here.local_rank = rank % on_each_node;
      here.local_world_size = on_each_node;
      here.master_address = "127.0.0.1";
      here.master_port = store.port();
      auto with = options();
      const std::uint32_t node = rank / on_each_node;
      with.keep = keep;
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

std::vector<error_code> save_to(std::vector<rank_result>& ranks, std::uint64_t step,
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
std::uint64_t step_of(const std::vector<rank_result>& ranks, std::string& wrong) {
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
std::uint64_t resumed_step(const std::vector<rank_result>& ranks) {
  require_open(ranks);
  std::string wrong;
  const auto step = step_of(ranks, wrong);
  CHECK(wrong == "");
  return step;
}

std::set<std::string> names_below(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& each : fs::directory_iterator(folder))
    names.insert(each.path().filename());
  return names;
}

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
  fs::remove_all(test.in_vault(1));
  fs::copy(test.in_vault(0), test.in_vault(1), fs::copy_options::recursive);
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
  CHECK(test.messages.last().find("has other names, types or shapes on rank 1") !=
        std::string::npos);
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
