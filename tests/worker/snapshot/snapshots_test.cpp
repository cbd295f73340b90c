// What one rank finds in its folder, and leaves there.
#include "worker/snapshot/snapshots.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/worker/snapshot/folder_under_test.hpp"
#include "worker/snapshot/checksum.hpp"
#include "worker/snapshot/names.hpp"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

const std::string first_file = "/rank-00000.safetensors";

}  // namespace

TEST_CASE("the newest snapshot is found with its round, epoch and tensors", "[snapshot]") {
  folder_under_test test;
  auto first = test.open(2);
  CHECK(!first->resumed());
  CHECK(!first->saved());
  CHECK_FALSE(save(first, 9));
  CHECK_FALSE(save(first, 10));
  CHECK(first->saved() == "f/snapshot-000001-000010");
  const auto second = test.open(3);
  const auto& found = second->resumed();
  REQUIRE(found.has_value());
  CHECK(found->info == snapshot_info{1, 10, 1, 77, 2, false, false});
  CHECK(found->world_size == 1);
  CHECK(found->path == "f/snapshot-000001-000010");
  CHECK(small_state(10).compare(*found) == "");
  CHECK(found->own.has_value());
  CHECK(test.messages.text() == "");
}

TEST_CASE("the newest snapshot is found whatever the clocks of hosts say of its files",
          "[snapshot]") {
  const temporary_folder place;
  message_list messages;
  std::string problem;
  snapshots_options options;
  options.folder = place.path + "/f";
  options.keep = 2;
  options.on_message = messages.handler();
  {
    const auto first = snapshots::open(lone_rank(1), options, problem);
    REQUIRE(first.has_value());
    CHECK_FALSE(save(*first, 10));
    CHECK_FALSE(save(*first, 20));
    CHECK_FALSE((*first)->close());
  }
  // The host that has saved the later snapshot has a clock that is years behind.
  const auto now = std::filesystem::file_time_type::clock::now();
  const std::chrono::hours years(5 * 365 * 24);
  const std::string name = options.folder + "/snapshot-000001-0000";
  for (const auto& [step, time] : {std::pair("10", now + years), std::pair("20", now - years)}) {
    for (const auto& each : std::filesystem::directory_iterator(name + step))
      std::filesystem::last_write_time(each.path(), time);
    std::filesystem::last_write_time(name + step, time);
  }
  const auto second = snapshots::open(lone_rank(2), options, problem);
  INFO(problem);
  REQUIRE(second.has_value());
  REQUIRE((*second)->resumed().has_value());
  CHECK((*second)->resumed()->info.step == 20);
  CHECK_FALSE(save(*second, 30));
  CHECK(!std::filesystem::exists(name + "10"));
  CHECK(std::filesystem::exists(name + "20"));
  CHECK(messages.text() == "");
}

TEST_CASE("a state that changes while it is written does not change the snapshot", "[snapshot]") {
  folder_under_test test;
  auto kept = test.open(1);
  const small_state all(10);
  std::string model = all.model();
  auto state = all.view();
  state.replicated.tensors[0] = bytes_tensor("model", model);
  CHECK_FALSE(kept->save(10, 1, state));
  model.assign(model.size(), 'z');
  CHECK_FALSE(kept->wait());
  CHECK(test.next_step() == 10);
}

TEST_CASE("what lies elsewhere is fetched for the snapshot", "[snapshot]") {
  folder_under_test test;
  test.is_asynchronous = GENERATE(true, false);
  auto kept = test.open(1);
  const small_state all(10);
  auto state = all.view();
  state.replicated.tensors[0].bytes = {};
  state.replicated.tensors[0].copy = [&](char* to) { all.model().copy(to, all.model().size()); };
  CHECK_FALSE(kept->save(10, 1, state));
  CHECK_FALSE(kept->wait());
  CHECK(test.next_step() == 10);
}

TEST_CASE("a step that is saved is not saved again", "[snapshot]") {
  folder_under_test test;
  auto kept = test.open(1);
  CHECK_FALSE(save(kept, 10));
  const auto steps = test.files.steps();
  CHECK_FALSE(kept->save(10, 1, small_state(11).view()));
  CHECK_FALSE(kept->wait());
  CHECK(test.files.steps() == steps);
  CHECK(test.next_step() == 10);
}

TEST_CASE("a job that has gone back to an earlier step opens its snapshots again", "[snapshot]") {
  folder_under_test test;
  auto kept = test.open(1);
  REQUIRE_FALSE(save(kept, 20));
  CHECK(save(kept, 10) == errc::invalid_argument);
  CHECK(test.messages.last() ==
        "cannot save step 10: step 20 is saved, and would stay the newest; to go back, open the "
        "snapshots again first");
  CHECK(kept->problem() == test.messages.last());
  CHECK_FALSE(kept->is_over());
  CHECK_FALSE(save(kept, 30));
  kept = test.open(1);
  CHECK_FALSE(save(kept, 10));
  CHECK(test.next_step() == 10);
}

TEST_CASE("a number of snapshots to keep that is none is refused", "[snapshot]") {
  folder_under_test test;
  test.keep = 0;
  CHECK(test.try_open(1).error() == errc::invalid_argument);
  CHECK(test.problem == "of the snapshots in f at least one must be kept");
}

TEST_CASE("names that no reader could tell apart are refused", "[snapshot]") {
  folder_under_test test;
  auto kept = test.open(1);
  const small_state all(10);
  auto state = all.view();
  state.replicated.tensors.push_back(bytes_tensor("rank.generator", "x"));
  CHECK_FALSE(kept->save(10, 1, state));
  CHECK(kept->wait() == errc::invalid_argument);
  CHECK(kept->problem() ==
        "cannot save snapshot f/snapshot-000001-000010: rank 0: 'rank.generator' begins with "
        "'rank.', which is reserved for each rank's own state");
  CHECK_FALSE(save(kept, 10));
}

TEST_CASE("only the newest three are kept, over rounds", "[snapshot]") {
  folder_under_test test;
  {
    auto first = test.open(1);
    for (const std::uint64_t step : {10, 20, 30, 40})
      REQUIRE_FALSE(save(first, step));
  }
  CHECK(!test.files.exists("f/snapshot-000001-000010"));
  CHECK(test.files.exists("f/snapshot-000001-000020"));
  auto second = test.open(2);
  REQUIRE_FALSE(save(second, 35));
  CHECK(!test.files.exists("f/snapshot-000001-000020"));
  CHECK(test.files.exists("f/snapshot-000001-000030/manifest.json"));
  CHECK(test.files.exists("f/snapshot-000002-000035/manifest.json"));
}

TEST_CASE("a user's notes in an old snapshot stay", "[snapshot]") {
  folder_under_test test;
  test.keep = 1;
  auto kept = test.open(1);
  REQUIRE_FALSE(save(kept, 10));
  test.files.put("f/snapshot-000001-000010/notes.txt", "the reader's own");
  REQUIRE_FALSE(save(kept, 20));
  REQUIRE_FALSE(save(kept, 30));
  CHECK(test.files.exists("f/snapshot-000001-000010/notes.txt"));
  CHECK(!test.files.exists("f/snapshot-000001-000010/manifest.json"));
  CHECK(test.messages.all() ==
        std::vector<std::string>{"cannot remove the old snapshot f/snapshot-000001-000010: "
                                 "Directory not empty"});
}

TEST_CASE("a torn or damaged snapshot is skipped with a message", "[snapshot]") {
  folder_under_test test;
  test.keep = 5;
  {
    auto kept = test.open(1);
    for (const std::uint64_t step : {10, 20, 30, 40, 50})
      REQUIRE_FALSE(save(kept, step));
  }
  const auto length = test.files.bytes("f/snapshot-000001-000050" + first_file).size();
  test.files.bytes("f/snapshot-000001-000050" + first_file).pop_back();
  test.files.bytes("f/snapshot-000001-000040" + first_file).back() ^= 1;
  test.files.bytes("f/snapshot-000001-000030/manifest.json")[3] ^= 1;
  REQUIRE_FALSE(test.files.remove("f/snapshot-000001-000020" + first_file));
  CHECK(test.next_step() == 10);
  CHECK(test.messages.text() ==
        "snapshot f/snapshot-000001-000050 skipped: rank 0: rank-00000.safetensors: it has " +
            std::to_string(length - 1) + " bytes instead of " + std::to_string(length) +
            "\n"
            "snapshot f/snapshot-000001-000040 skipped: rank 0: rank-00000.safetensors: its bytes "
            "do not match their checksum\n"
            "snapshot f/snapshot-000001-000030 skipped: manifest.json: damaged data\n"
            "snapshot f/snapshot-000001-000020 skipped: rank-00000.safetensors: No such file or "
            "directory\n");
}

TEST_CASE("where every snapshot is damaged training does not begin anew", "[snapshot]") {
  for (const bool in_length : {true, false}) {
    folder_under_test test;
    REQUIRE_FALSE(save(test.open(1), 10));
    std::string& bytes = test.files.bytes("f/snapshot-000001-000010" + first_file);
    if (in_length) bytes.pop_back();
    if (!in_length) bytes.back() ^= 1;
    CHECK(test.try_open(2).error() == errc::damaged);
    CHECK(test.problem ==
          "no snapshot in f can be read; to begin from the start, move the damaged ones away");
    CHECK(test.messages.last().find("skipped") != std::string::npos);
  }
}

TEST_CASE("what cannot be read now is no damage, and is waited for", "[snapshot]") {
  for (const int number : {EIO, EACCES, ENOMEM, ESTALE}) {
    for (const std::string file : {"/manifest.json", "/rank-00000.safetensors"}) {
      for (const bool in_all : {true, false}) {
        INFO("errno " << number << " of " << file << ", in all " << in_all);
        folder_under_test test;
        {
          auto yesterday = test.open(1, 77);
          for (const std::uint64_t step : {10, 20, 30})
            REQUIRE_FALSE(save(yesterday, step));
        }
        const std::vector<std::string> all = {
            "f/snapshot-000001-000010", "f/snapshot-000001-000020", "f/snapshot-000001-000030"};
        for (const std::string& name : all) {
          if (in_all || name == all.back()) test.files.fail_reads(name + file, number);
        }
        CHECK(!test.try_open(1, 78));
        CHECK(test.problem.find(all.back()) != std::string::npos);
        CHECK(test.problem.find("start again when it can be") != std::string::npos);
        test.files.heal();
        CHECK(test.next_step() == 30);
        for (const std::string& name : all)
          CHECK(test.files.exists(name + "/manifest.json"));
      }
    }
  }
}

TEST_CASE("a snapshot of a newer format is not skipped", "[snapshot]") {
  folder_under_test test;
  {
    auto kept = test.open(1);
    REQUIRE_FALSE(save(kept, 10));
    REQUIRE_FALSE(save(kept, 20));
  }
  std::string& text = test.files.bytes("f/snapshot-000001-000020/manifest.json");
  const std::string before = text;
  text.replace(text.find("\"version\": 3"), 12, "\"version\": 4");
  const std::size_t tail = text.find("  \"xxh3\": \"", text.find("],"));
  text = text.substr(0, tail) + "  \"xxh3\": \"" +
         checksum_text(checksum_of(text.substr(0, tail))) + "\"\n}\n";
  CHECK(test.try_open(2).error() == errc::version_mismatch);
  CHECK(test.problem ==
        "snapshot f/snapshot-000001-000020 cannot be read: it has a newer format than this program "
        "can read; start again when it can be, or move it away to resume from the one before it");
  text = before;
  CHECK(test.next_step() == 20);
}

TEST_CASE("snapshots of ddprun 0.1 are named, not passed over", "[snapshot]") {
  folder_under_test test;
  test.files.put("f/snapshot-000003-000040.ddprun", "DDPRSNAP");
  CHECK(test.try_open(1).error() == errc::version_mismatch);
  CHECK(
      test.problem ==
      "snapshot f/snapshot-000003-000040.ddprun is of ddprun 0.1, which this program cannot read; "
      "to begin from the start, move such files away");
  REQUIRE_FALSE(test.files.remove("f/snapshot-000003-000040.ddprun"));
  CHECK(test.next_step() == 0);
}

TEST_CASE("the greatest number of a claim is said, not passed", "[snapshot]") {
  folder_under_test test;
  test.files.put("f/snapshot-18446744073709551615-000001/manifest.json", "nobody's of us");
  test.files.put("f/claim-18446744073709551615", "1 1\n");
  {
    auto kept = test.open(1);
    CHECK(kept->generation() == 1);
    REQUIRE_FALSE(save(kept, 10));
  }
  CHECK(test.next_step() == 10);
  test.files.put("f/" + claim_name(generation_limit), "1 1\n");
  CHECK(test.try_open(2, 78).error() == errc::limit_reached);
  CHECK(test.problem.find("move that away") != std::string::npos);
}

TEST_CASE("a snapshot under another's name is skipped", "[snapshot]") {
  folder_under_test test;
  REQUIRE_FALSE(save(test.open(1), 10));
  for (const std::string file : {"/manifest.json", "/rank-00000.safetensors"})
    test.files.put("f/snapshot-000001-000099" + file,
                   test.files.bytes("f/snapshot-000001-000010" + file));
  CHECK(test.next_step() == 10);
  CHECK(test.messages.all() ==
        std::vector<std::string>{"snapshot f/snapshot-000001-000099 skipped: manifest.json is that "
                                 "of snapshot-000001-000010"});
}

TEST_CASE("a worker of an older round is refused, and never wins", "[snapshot]") {
  folder_under_test test;
  auto old_round = test.open(1);
  REQUIRE_FALSE(save(old_round, 20));
  auto new_round = test.open(2);
  CHECK(save(old_round, 30) == errc::refused);
  CHECK(old_round->problem() ==
        "cannot save snapshot f/snapshot-000001-000030: snapshot folder f: a newer round has taken "
        "it "
        "over (claim-000002); this one is over");
  CHECK(!test.files.exists("f/snapshot-000001-000030"));
  REQUIRE_FALSE(save(new_round, 25));
  CHECK(save(old_round, 40) == errc::refused);

  // It was frozen between its check and its rename, so the file exists, but it still does not win.
  for (const std::string file : {"/manifest.json", "/rank-00000.safetensors"})
    test.files.put("f/snapshot-000001-000050" + file,
                   test.files.bytes("f/snapshot-000001-000020" + file));
  CHECK(test.next_step() == 25);
  CHECK(test.messages.last() ==
        "snapshot f/snapshot-000001-000050 skipped: an older round left it; the newest is "
        "f/snapshot-000002-000025");
}

TEST_CASE("a worker of an older round that starts late may not open the folder", "[snapshot]") {
  folder_under_test test;
  test.open(5);
  CHECK(test.try_open(4).error() == errc::refused);
  CHECK(test.problem ==
        "snapshot folder f: round 5 has taken it over; this is round 4, which is over");
  test.open(5);
  test.open(6);
}

TEST_CASE("rounds begin at 1 again in the next instance, and without one", "[snapshot]") {
  folder_under_test test;
  REQUIRE_FALSE(save(test.open(7, 77), 50));
  const auto resumed_step = [](const open_snapshots& of) { return of->resumed()->info.step; };
  auto today = test.open(1, 78);
  CHECK(resumed_step(today) == 50);
  REQUIRE_FALSE(save(today, 60));
  auto torchrun = test.open(1, 0);
  CHECK(resumed_step(torchrun) == 60);
  REQUIRE_FALSE(save(torchrun, 70));
  CHECK(test.next_step() == 70);
}

TEST_CASE("leftovers of a crash are removed by the next writer", "[snapshot]") {
  folder_under_test test;
  REQUIRE_FALSE(save(test.open(1), 5));
  test.files.put("f/snapshot-000001-000010/rank-00000.safetensors", "half");
  test.files.put("f/snapshot-000001-000010/manifest.json.tmp", "half");
  test.files.put("f/snapshot-000001-000012/rank-00000.safetensors", "half");
  test.files.put("f/snapshot-000001-000012/notes.txt", "the reader's own");
  test.files.put("f/claim-000002", "");  // torn by a power cut
  test.files.put("f/notes.txt", "the reader's own");
  auto kept = test.open(2);
  CHECK(kept->generation() == 3);
  CHECK(!test.files.exists("f/snapshot-000001-000010"));
  CHECK(!test.files.exists("f/snapshot-000001-000012/rank-00000.safetensors"));
  CHECK(!test.files.exists("f/claim-000001"));
  CHECK(!test.files.exists("f/claim-000002"));
  CHECK(test.files.exists("f/claim-000003"));
  CHECK(test.files.exists("f/notes.txt"));
  CHECK(test.files.exists("f/snapshot-000001-000012/notes.txt"));
  CHECK(test.files.exists("f/snapshot-000001-000005/manifest.json"));
}

}  // namespace ddprun::tests
