// A training loop that saves in the vault between two snapshots in its folder.
#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"
#include "tests/worker/training/loop_under_test.hpp"
#include "worker/snapshot/checksum.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;
namespace fs = std::filesystem;

struct loop_with_vault : loop_under_test {
  const std::string vault = place.path + "/vault";
  const std::string in_vault = vault + "/snapshots-" + checksum_text(checksum_of(folder));

  loop_with_vault() {
    fs::create_directories(vault);
    ::setenv("DDPRUN_VAULT", vault.c_str(), 1);
  }
  ~loop_with_vault() { ::unsetenv("DDPRUN_VAULT"); }

  void wait_for_vault(const std::string& name) const {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (!fs::exists(in_vault + name) && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Six steps are an epoch.
  training_loop_options looping_with_vault(std::uint64_t steps) {
    auto made = looping();
    made.save.vault_steps = steps;
    return made;
  }
};

}  // namespace

TEST_CASE("a loop goes on from what it has saved in the vault", "[training][vault]") {
  loop_with_vault test;
  auto with = test.looping_with_vault(2);
  with.copies_late = GENERATE(true, false);
  counting_work work;
  work.any_of_all = [](bool) { return false; };  // no save is left out
  work.after_step = [&](std::uint64_t step) {
    if (step != 11) return;
    test.wait_for_vault("/snapshot-000001-000010/manifest.json");
    throw std::runtime_error("as if it were killed");
  };
  CHECK(test.run(work, with) == "as if it were killed");
  counting_work again;
  REQUIRE(test.run(again, with).empty());
  CHECK(test.is_done);
  CHECK(again.seen == in_order(3));
  const std::string from = "resuming from snapshot " + test.in_vault;
  REQUIRE(test.told.size() > 2);
  CHECK(test.told[1] == "epoch 1 | " + test.saved("/snapshot-000001-000006"));
  CHECK(test.told[2] == from + "/snapshot-000001-000010 in the vault at epoch 2, in its middle");
  CHECK(test.told.back() == "epoch 3 | " + test.saved("/snapshot-000002-000018"));
  CHECK(test.messages.text() == "");
}

TEST_CASE("a loop does not wait for the disk before it saves in the vault", "[training][vault]") {
  loop_with_vault test;
  std::promise<void> disk_answers;
  const auto answered = disk_answers.get_future().share();
  test.disk.before_create = [&](const std::string& path) {
    if (path == test.folder + "/snapshot-000001-000006/rank-00000.safetensors")
      answered.wait_for(patience);
  };
  counting_work work;
  std::vector<bool> has_saved;
  work.after_step = [&](std::uint64_t step) {
    if (step == 9) {
      has_saved = {fs::exists(test.in_vault + "/snapshot-000001-000004/manifest.json"),
                   fs::exists(test.in_vault + "/snapshot-000001-000008")};
      disk_answers.set_value();
    }
  };
  REQUIRE(test.run(work, test.looping_with_vault(4)).empty());
  CHECK(has_saved == std::vector{true, false});
  CHECK(work.seen == in_order(3));
}

TEST_CASE("a loop without a vault saves in its folder, and says so once", "[training][vault]") {
  loop_with_vault test;
  ::unsetenv("DDPRUN_VAULT");
  counting_work work;
  REQUIRE(test.run(work, test.looping_with_vault(1)).empty());
  CHECK(test.is_done);
  CHECK(test.messages.all() ==
        std::vector<std::string>{"no vault for the snapshots in " + test.folder +
                                 ": rank 0: no DDPRUN_VAULT (ddprun --vault DIR on each node)"});
}

TEST_CASE("what is saved in the folder is not saved in the vault, too", "[training][vault]") {
  auto deciding = loop_decisions({4, 0, std::chrono::milliseconds(0), 2}, 1, 0, time_point());
  const auto at = [](std::uint64_t step) { return loop_moment{step, 1, false, false}; };
  const loop_decision nothing{}, folder{true, false, false}, vault{false, false, true};
  CHECK(deciding.decide(at(1), {}, {}) == nothing);
  CHECK(deciding.decide(at(2), {}, {}) == vault);
  CHECK(deciding.decide(at(4), {}, {}) == folder);
  CHECK(deciding.decide(at(6), {true, false}, {}) == loop_decision{true, true, false});
  CHECK(deciding.decide({10, 1, true, false}, {}, {}) == vault);
}

}  // namespace ddprun::tests
