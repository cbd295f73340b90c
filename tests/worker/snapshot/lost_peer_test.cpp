// A rank that dies in each phase of a save, of its commit and of a resume: those that are left say
// so in one line, and the next round goes on from the newest snapshot that is whole.
#include "rendezvous/base/lost_peer.hpp"

#include "rendezvous/base/time.hpp"
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/broadcast_of_threads.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"

#include <array>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

// What the dead rank was about to do.
enum class last_act { none, create, look, sync, hand_on, tell_what_came };

struct death {
  std::uint32_t rank = 0;
  last_act act = last_act::none;
  std::string file;  // how its path ends; for a sync, of the manifest that is there then
};

// A job of three ranks in its second round. One dies: it comes to a place and does nothing more,
// while the others wait for it until `apart`, which is short.
class job_with_a_death : public job_under_test {
 public:
  static constexpr std::uint32_t world_size = 3;

  job_with_a_death(death how, std::chrono::milliseconds apart)
      : dies_(std::move(how)), apart_(apart), let_go_(over_.get_future()) {
    auto ranks = open(1, world_size);
    require_open(ranks);
    REQUIRE_FALSE(ranks[0].job->progress(10));  // a round that goes on from it leaves its mark
    for (const std::uint64_t step : {10, 20})
      REQUIRE(save(ranks, step) == all(world_size));
  }

  // What each rank says that has come to an end before the dead one is gone for good; empty: it
  // says nothing.
  std::vector<std::string> resume(bool hands_on) {
    return round([&](std::uint32_t rank) { return open_one(rank, apart_, hands_on).problem; });
  }
  std::vector<std::string> resume_and_save() {
    return round([&](std::uint32_t rank) {
      auto opened = open_one(rank, apart_, false);
      if (!opened.job) return "not open: " + opened.problem;
      (void)opened.job->progress(30);  // what it has gone on from has led to something
      (void)opened.job->save(30, 0, small_state(30, rank).view());
      const auto error = opened.job->wait();
      return error ? opened.job->problem() : "";
    });
  }
  // From which step the next round goes on, in which all live; 0: they differ.
  std::uint64_t next_step() {
    messages_before_ = messages.text();
    auto ranks = open(3, world_size);
    require_open(ranks);
    const std::uint64_t step = ranks[0].job->resumed()->info.step;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const auto& found = ranks[rank].job->resumed();
      REQUIRE(found.has_value());
      CHECK(small_state(step, rank).compare(*found) == "");
    }
    CHECK(save(ranks, 100) == all(world_size));
    return step;
  }
  // Said while the ranks of that round went on.
  std::string said_then() const { return messages.text().substr(messages_before_.size()); }

 private:
  rank_result open_one(std::uint32_t rank, std::chrono::milliseconds apart, bool hands_on) {
    auto with = options();
    with.files = &disks_[rank];
    // What the dead one waits for before it dies comes in time.
    with.rank_timeout = rank == dies_.rank ? std::chrono::milliseconds(patience) : apart;
    if (hands_on) {
      with.broadcast = [this, rank, pass = between_.of(rank), count = 0](
                           std::uint32_t root, char* bytes, std::size_t length) mutable {
        const bool dies_here = rank == dies_.rank && ++count == 2;  // of two
        if (dies_here && dies_.act == last_act::hand_on) {
          between_.break_off();
          die();
        }
        pass(root, bytes, length);
        if (dies_here && dies_.act == last_act::tell_what_came) die();
      };
    }
    return open_rank(2, rank, world_size, with);
  }
  void die() {
    let_go_.wait();
    throw std::runtime_error("dead");
  }
  void arrange_death() {
    auto& disk = disks_[dies_.rank];
    const auto at_the_name = [this](const std::string& path) {
      if (path.ends_with("/" + dies_.file)) let_go_.wait();
    };
    if (dies_.act == last_act::create) disk.before_create = at_the_name;
    if (dies_.act == last_act::look) disk.before_look = at_the_name;
    if (dies_.act == last_act::sync) {
      disk.before_sync = [this](const std::string& folder) {
        const std::string path = folder + "/manifest.json";
        if (path.ends_with(dies_.file) && std::filesystem::exists(path)) let_go_.wait();
      };
    }
  }
  template <typename Work>
  std::vector<std::string> round(const Work& work) {
    arrange_death();
    std::vector<std::string> said(world_size);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      if (rank == dies_.rank && dies_.act == last_act::none) continue;
      threads.emplace_back([&, rank] { said[rank] = work(rank); });
      if (rank == dies_.rank) std::swap(threads.front(), threads.back());
    }
    const bool has_started = dies_.act != last_act::none;
    for (std::size_t at = has_started ? 1 : 0; at < threads.size(); ++at)
      threads[at].join();
    disks_[dies_.rank].is_dead = true;
    over_.set_value();
    if (has_started) threads.front().join();
    said.erase(said.begin() + dies_.rank);
    return said;
  }

  death dies_;
  std::chrono::milliseconds apart_;
  std::array<hooked_disk, world_size> disks_;
  broadcast_of_threads between_{world_size};
  std::promise<void> over_;
  std::shared_future<void> let_go_;
  std::string messages_before_;
};

struct expected {
  std::vector<std::string> said;  // by the ranks that are left; FOLDER, ONCE, TWICE are filled in
  std::uint64_t next_step = 0;
};

std::string filled_in(std::string text, const std::string& folder,
                      std::chrono::milliseconds apart) {
  const std::pair<std::string, std::string> words[] = {
      {"FOLDER", folder}, {"ONCE", to_text(apart)}, {"TWICE", to_text(2 * apart)}};
  for (const auto& [word, by] : words) {
    for (auto at = text.find(word); at != text.npos; at = text.find(word))
      text.replace(at, word.size(), by);
  }
  return text;
}

// How far apart ranks may be. On a slow machine those that live may be as far apart as the dead one
// is from them: then it is tried again, with more time.
constexpr std::chrono::milliseconds shortest{200}, longest{5000};

template <typename Work>
void check_death(const death& how, const expected& expects, const Work& work) {
  for (auto apart = shortest;; apart *= 5) {
    job_with_a_death test(how, apart);
    const auto said = work(test);
    std::vector<std::string> expected_lines;
    for (const auto& line : expects.said)
      expected_lines.push_back(filled_in(line, test.folder, apart));
    if (said != expected_lines && apart * 5 <= longest) continue;
    CHECK(said == expected_lines);
    CHECK(test.next_step() == expects.next_step);
    CHECK(test.said_then() == "");
    return;
  }
}

expected both(const std::string& line, std::uint64_t next_step) {
  return {{line, line}, next_step};
}
expected first(const std::string& line, std::uint64_t next_step) {
  return {{line, "rank 0: " + line}, next_step};
}

const std::string waited_once = ", still waiting after ONCE (a peer is gone or late)";
const std::string waited_twice = "still waiting after TWICE (a peer is gone or late)";
const std::string newest_snapshot = "FOLDER/snapshot-000001-000020";
const std::string not_saved = "cannot save snapshot FOLDER/snapshot-000002-000030: ";

}  // namespace

TEST_CASE("a rank that does not come to open snapshots is named", "[snapshot]") {
  const bool is_first = GENERATE(true, false);
  const std::uint32_t dead = GENERATE(0u, 1u);
  std::vector<std::string> said, expects;
  for (auto apart = shortest; apart <= longest && (said.empty() || said != expects); apart *= 5) {
    job_under_test test;
    test.instance = 0;  // rounds have no numbers: ranks greet each other first
    // What the round before has left in the store is no word of this one's.
    if (!is_first) require_open(test.open(1, 3));
    test.rank_timeout = apart;
    said.assign(3, "");
    job_under_test::on_all(3, [&](std::uint32_t rank) {
      if (rank != dead) said[rank] = test.open_rank(1, rank, 3, test.options()).problem;
    });
    const std::string waited =
        "still waiting after " + to_text(apart) + " (a peer is gone or late)";
    const std::string of_rank_0 =
        "rank 0 has not said that all ranks have come to open the snapshots: " + waited;
    expects.assign(3, of_rank_0);
    expects[dead].clear();
    if (dead != 0) {
      expects[0] = "not all ranks have come to open the snapshots: no word from rank 1, " + waited;
    }
  }
  CHECK(said == expects);
}

TEST_CASE("a rank that dies while all find what to go on from costs no snapshot", "[snapshot]") {
  const auto [how, expects] = GENERATE(
      // Before the choice.
      std::pair(death{0, last_act::create, "claim-000002"},
                both("rank 0 has not said from which snapshot to resume: " + waited_twice, 20)),
      // Before it has read its part.
      std::pair(death{0, last_act::look, "rank-00000.safetensors"},
                both("rank 0 has not said whether all ranks could read their part of " +
                         newest_snapshot + ": " + waited_twice,
                     20)),
      std::pair(death{1, last_act::look, "rank-00001.safetensors"},
                first("not all ranks have read their part of snapshot " + newest_snapshot +
                          ": no word from rank 1" + waited_once,
                      20)),
      // It has not even come.
      std::pair(death{1, last_act::none, ""},
                first("not all ranks have read their part of snapshot " + newest_snapshot +
                          ": no word from rank 1" + waited_once,
                      20)),
      // Once all have read theirs.
      std::pair(death{0, last_act::create, "resumed-000002"},
                both("rank 0 has not said whether all ranks could read their part of " +
                         newest_snapshot + ": " + waited_twice,
                     20)));
  INFO("rank " << how.rank << " at " << how.file);
  check_death(how, expects, [](job_with_a_death& test) { return test.resume(false); });
}

TEST_CASE("a rank that dies while what was read is handed on costs no snapshot", "[snapshot]") {
  const std::string lost =
      "cannot distribute what ranks have read of the snapshot: the ranks have lost each other";
  const auto [how, expects] = GENERATE_COPY(
      std::pair(death{0, last_act::hand_on, ""}, both(lost, 20)),
      std::pair(death{1, last_act::hand_on, ""}, both(lost, 20)),
      // Before the choice, and before it has read its part.
      std::pair(death{0, last_act::create, "claim-000002"},
                both("rank 0 has not said from which snapshot to resume: " + waited_twice, 20)),
      std::pair(death{1, last_act::look, "rank-00001.safetensors"},
                first("not all ranks have read their part of snapshot " + newest_snapshot +
                          ": no word from rank 1" + waited_once,
                      20)),
      // Once it has come to all.
      std::pair(death{1, last_act::tell_what_came, ""},
                first("not all ranks have what was read of the snapshot: no word from rank 1" +
                          waited_once,
                      20)),
      std::pair(death{0, last_act::create, "resumed-000002"},
                both("rank 0 has not said whether all ranks have what was read of " +
                         newest_snapshot + ": " + waited_twice,
                     20)));
  INFO("rank " << how.rank << " at " << how.file);
  check_death(how, expects, [](job_with_a_death& test) { return test.resume(true); });
}

TEST_CASE("a rank that dies in a save or a commit costs no earlier snapshot", "[snapshot]") {
  const auto [how, expects] = GENERATE(
      // While it writes its file.
      std::pair(death{0, last_act::create, "rank-00000.safetensors"},
                both(not_saved + "no word from rank 0: " + waited_twice, 20)),
      std::pair(death{1, last_act::create, "rank-00001.safetensors"},
                both(not_saved + "no word from rank 1" + waited_once, 20)),
      // Once all files are there, and once the manifest is.
      std::pair(death{0, last_act::create, "manifest.json.tmp"},
                both(not_saved + "no word from rank 0: " + waited_twice, 20)),
      std::pair(death{0, last_act::sync, "snapshot-000002-000030/manifest.json"},
                both(not_saved + "no word from rank 0: " + waited_twice, 30)));
  INFO("rank " << how.rank << " at " << how.file);
  check_death(how, expects, [](job_with_a_death& test) { return test.resume_and_save(); });
}

TEST_CASE("a rank that dies once it has told of its file costs nothing", "[snapshot]") {
  job_under_test test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    test.disk.before_rename = [&](const std::string&) { ranks[1].job.reset(); };
    for (std::uint32_t rank : {1u, 0u})
      CHECK_FALSE(ranks[rank].job->save(10, 0, small_state(10, rank).view()));
    CHECK_FALSE(ranks[0].job->wait());
    CHECK_FALSE(ranks[0].job->is_over());
  }
  const auto next = test.open(2, 2);
  require_open(next);
  for (const auto& each : next)
    CHECK(each.job->resumed()->info.step == 10);
  CHECK(test.messages.text() == "");
}

TEST_CASE("a store that is gone once the manifest is there costs no snapshot", "[snapshot]") {
  job_under_test test;
  {
    auto store = std::make_unique<served_store>();
    std::vector<rank_result> ranks(2);
    job_under_test::on_all(2, [&](std::uint32_t rank) {
      ranks[rank] = test.open_rank_of(store->port(), 1, rank, 2, test.options());
    });
    require_open(ranks);
    test.disk.before_sync = [&](const std::string& folder) {
      if (std::filesystem::exists(folder + "/manifest.json")) store.reset();
    };
    CHECK(save(ranks, 10) == all(2, errc::connection_closed));
    const std::string what = "cannot save snapshot " + test.folder + "/snapshot-000001-000010: ";
    const std::string why[] = {"it is there, but the other ranks cannot be told: rank 0 of 2: ",
                               "no word from rank 0: rank 1 of 2: "};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const auto& said = ranks[rank].job->problem();
      INFO(said);
      CHECK(said.starts_with(what + why[rank]));
      CHECK(said.ends_with(lost_peer_mark));
      CHECK(ranks[rank].job->is_over());
    }
    test.disk.before_sync = nullptr;
  }
  const auto next = test.open(2, 2);
  require_open(next);
  for (const auto& each : next)
    CHECK(each.job->resumed()->info.step == 10);
}

}  // namespace ddprun::tests
