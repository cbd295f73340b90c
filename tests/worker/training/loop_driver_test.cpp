#include "worker/training/loop_driver.hpp"

#include "launcher/agent/stop_file.hpp"
#include "tests/support/catch.hpp"
#include "tests/worker/training/loop_under_test.hpp"
#include "worker/training/data_loader.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;
using namespace std::chrono_literals;

struct lost_itself : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Where ranks on threads put their words together, until one is lost.
class meeting {
 public:
  explicit meeting(std::uint32_t world_size) : world_size_(world_size) {}

  bool any(bool here) {
    std::unique_lock lock(mutex_);
    const std::uint64_t turn = turn_;
    found_ = found_ || here;
    if (++come_ == world_size_) {
      answer_ = std::exchange(found_, false);
      come_ = 0;
      ++turn_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return turn_ != turn || is_lost_; });
    if (turn_ == turn) throw process_group_error("Connection closed by peer");
    return answer_;
  }
  void lose_one() {
    const std::lock_guard lock(mutex_);
    is_lost_ = true;
    changed_.notify_all();
  }

 private:
  std::uint32_t world_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t turn_ = 0;
  std::uint32_t come_ = 0;
  bool found_ = false, answer_ = false, is_lost_ = false;
};

}  // namespace

TEST_CASE("a loop goes through its epochs and saves each", "[training]") {
  loop_under_test test;
  counting_work work;
  REQUIRE(test.run(work, test.looping()).empty());
  CHECK((test.is_done && test.status == 0));
  CHECK(work.seen == in_order(3));
  CHECK(work.calls == std::vector<std::string>{"warm up with 4", "begin 1 of 6", "end 1 with 24",
                                               "begin 2 of 6", "end 2 with 24", "begin 3 of 6",
                                               "end 3 with 24"});
  REQUIRE(!test.told.empty());
  CHECK(test.told.front() == "no snapshot in " + test.folder + ": starting at epoch 1");
  CHECK(test.told.back() == "epoch 3 | " + test.saved("/snapshot-000001-000018"));

  counting_work again;
  REQUIRE(test.run(again, test.looping()).empty());
  CHECK((test.is_done && again.calls == std::vector<std::string>{"load"}));
  CHECK(test.told.back() ==
        "snapshot " + test.folder + "/snapshot-000001-000018: all 3 epochs are done");
}

TEST_CASE("several passes are one step, and the last one of an epoch may have fewer",
          "[training]") {
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  with.passes_per_step = 4;
  std::uint64_t steps = 0;
  work.after_step = [&](std::uint64_t step) { steps = step; };
  REQUIRE(test.run(work, with).empty());
  CHECK(steps == 6);
  CHECK(work.seen == in_order(3));
}

TEST_CASE("without a folder nothing is kept, and a stop ends the loop all the same", "[training]") {
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  with.folder.clear();
  work.after_step = [&](std::uint64_t step) { work.is_stopped = step == 8; };
  REQUIRE(test.run(work, with).empty());
  CHECK(!test.is_done);
  CHECK(work.seen.size() == 36);  // asked after step 8, heard after step 9
  CHECK(test.told.empty());
}

TEST_CASE("a job that is stopped anywhere goes on there", "[training]") {
  const std::uint64_t stopped_at = GENERATE(1u, 5u, 6u, 7u, 11u, 12u, 17u);
  loop_under_test test;
  counting_work work;
  work.after_step = [&](std::uint64_t step) { work.is_stopped = step >= stopped_at; };
  REQUIRE(test.run(work, test.looping()).empty());
  // Within an epoch it is heard one step later.
  const std::uint64_t heard = stopped_at % 6 == 0 ? stopped_at : stopped_at + 1;
  CHECK(work.seen.size() == 4 * heard);
  CHECK(test.is_done == (heard == 18));
  CHECK(test.status == 0);  // it was another rank that SIGTERM has come to

  counting_work again;
  REQUIRE(test.run(again, test.looping()).empty());
  CHECK(test.is_done);
  CHECK(again.seen == in_order(3));
}

TEST_CASE("a data loader has the batches of the loop, also of one that goes on", "[training]") {
  const std::size_t workers = GENERATE(0u, 2u);
  loop_under_test test;
  auto with = test.looping();
  with.shuffle = true;
  counting_work whole;
  REQUIRE(test.run(whole, with).empty());

  with.folder += "/loaded";
  std::vector<std::size_t> loaded;
  data_loader<std::vector<std::size_t>> loader(
      [](std::uint64_t, sample_span samples) {
        return std::vector<std::size_t>(samples.begin(), samples.end());
      },
      {workers, 2});
  for (const std::uint64_t stopped_at : {8, 18}) {
    counting_work work;
    work.in_epoch_begin = [&](auto epoch, auto passes) { loader.begin(epoch, passes); };
    work.in_pass = [&](std::uint64_t epoch, sample_span pass) {
      const auto batch = loader.take(epoch, pass);
      loaded.insert(loaded.end(), batch.begin(), batch.end());
    };
    work.after_step = [&](std::uint64_t step) { work.is_stopped = step == stopped_at; };
    REQUIRE(test.run(work, with).empty());
  }
  CHECK(test.is_done);
  CHECK(loaded == whole.seen);
}

TEST_CASE("a data set that cannot be read ends the loop with its line", "[training]") {
  loop_under_test test;
  counting_work work;
  data_loader<int> loader([](std::uint64_t, sample_span samples) {
    if (samples[0] == 12) throw std::runtime_error("the disk has gone");
    return 0;
  });
  work.in_epoch_begin = [&](auto epoch, auto passes) { loader.begin(epoch, passes); };
  work.in_pass = [&](std::uint64_t epoch, sample_span pass) { loader.take(epoch, pass); };
  CHECK(test.run(work, test.looping()) ==
        "cannot load samples 12, 13, 14, 15 of epoch 1: the disk has gone");
  CHECK(work.seen == in_order(1, 12));
}

TEST_CASE("a loop that finds another's stop request says what to do", "[training]") {
  loop_under_test test;  // which has one
  auto with = test.looping();
  with.stop = nullptr;
  counting_work work;
  CHECK_THROWS_WITH(loop_driver(lone_rank(1), with, work),
                    Catch::Contains("give it to the training loop (`stop` of its options)"));
}

TEST_CASE("SIGTERM ends with its status, SIGUSR1 with 0", "[training]") {
  const int number = GENERATE(SIGTERM, SIGUSR1);
  loop_under_test test;
  counting_work work;
  work.after_step = [&](std::uint64_t step) {
    if (step == 2) REQUIRE(::raise(number) == 0);
  };
  REQUIRE(test.run(work, test.looping()).empty());
  CHECK((!test.is_done && work.seen.size() == 12));
  CHECK(test.status == (number == SIGTERM ? stopped_status : 0));
  CHECK(test.told.back() == "epoch 0 | " + test.saved("/snapshot-000001-000003"));
}

TEST_CASE("a loop saves within an epoch by steps, and by rank 0's clock", "[training]") {
  const bool by_steps = GENERATE(true, false);
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  time_point now;
  with.now = [&] { return now; };
  with.save = by_steps ? save_times{5, 0, 0ms} : save_times{0, 0, 60s};
  work.after_step = [&](std::uint64_t step) { now += step < 5 ? 20s : 1s; };
  REQUIRE(test.run(work, with).empty());
  std::vector<std::string> said{"no snapshot in " + test.folder + ": starting at epoch 1"};
  if (by_steps) {
    said.push_back("epoch 0 | " + test.saved("/snapshot-000001-000005"));
    said.push_back("epoch 1 | " + test.saved("/snapshot-000001-000010"));
    said.push_back("epoch 2 | " + test.saved("/snapshot-000001-000015"));
  } else {
    // Due after step 3, heard after step 4.
    said.push_back("epoch 0 | " + test.saved("/snapshot-000001-000004"));
  }
  said.push_back("epoch 3 | " + test.saved("/snapshot-000001-000018"));
  CHECK(test.told == said);
}

TEST_CASE("a snapshot after which a loop fails twice is passed over once it is distrusted",
          "[training]") {
  enum class way { distrusts, does_not, trusts_early };
  const auto how = GENERATE(way::distrusts, way::does_not, way::trusts_early);
  loop_under_test test;
  auto with = test.looping();
  with.save = {5, 0, 0ms};
  with.distrust = how != way::does_not;
  if (how == way::trusts_early) with.trusted_after_steps = 1;
  const std::string place = test.folder + "/snapshot-000001-0000";
  const auto until = [](const auto& is_so) {
    const deadline limit = patience;
    while (!is_so() && !limit.passed())
      std::this_thread::sleep_for(1ms);
  };
  // Once what comes before it is on the disk.
  const auto fails_in_step = [&](std::uint64_t last, const std::string& path, bool is_there) {
    counting_work work;
    work.in_step = [&](std::uint64_t step) {
      if (step != last) return;
      until([&] { return std::filesystem::exists(path) == is_there; });
      throw std::runtime_error("not a number");
    };
    CHECK(test.run(work, with) == "not a number");
  };
  fails_in_step(14, place + "10/manifest.json", true);
  for (const std::string round : {"2", "3"}) {
    test.told.clear();
    // Step 11 is done then.
    fails_in_step(12, place + "10/resumed-00000" + round, how == way::distrusts);
    CHECK(test.told.at(0).starts_with("resuming from snapshot " + place + "10 "));
  }
  test.told.clear();
  counting_work last;
  REQUIRE(test.run(last, with).empty());
  const bool is_passed_over = how == way::distrusts;
  CHECK(test.told.at(0).starts_with("resuming from snapshot " + place +
                                    (is_passed_over ? "05 " : "10 ")));
  CHECK(test.messages.last() == (is_passed_over
                                     ? "snapshot " + place +
                                           "10 is distrusted, because 2 jobs have resumed from it "
                                           "and failed within 10 steps: resuming from " +
                                           place +
                                           "05, 5 steps "
                                           "before it"
                                     : ""));
  CHECK(last.seen == in_order(3));
}

TEST_CASE("a snapshot of another program is refused", "[training]") {
  loop_under_test test;
  {
    auto ranks = test.open(++test.round, 1);
    require_open(ranks);
    REQUIRE(save(ranks, 10) == all(1));
  }
  counting_work work;
  const auto said = test.run(work, test.looping());
  CHECK(said.find("it does not say which samples were used") != std::string::npos);
}

// Of three ranks one ends in a step, at an epoch's end, or once that is over on all; the others
// lose it there.
TEST_CASE("the ranks that are left lose no step", "[training]") {
  const std::uint32_t dead = GENERATE(0u, 2u);
  const auto lost_in =
      GENERATE(std::string("step"), std::string("epoch's end"), std::string("after it"));
  const bool is_within = lost_in == "step";
  constexpr std::uint32_t world_size = 3;
  constexpr std::uint64_t last = 4;  // 2 steps an epoch of 24 samples, 4 each
  loop_under_test test;
  const auto run_all = [&](bool is_lost) {
    std::vector<counting_work> works(world_size);
    std::vector<std::string> ends(world_size);
    ++test.round;
    test.told.clear();
    job_under_test::on_all(world_size, [&, round = test.round](std::uint32_t rank) {
      environment here = lone_rank(round, test.instance);
      here.rank = rank;
      here.world_size = world_size;
      here.master_address = "127.0.0.1";
      here.master_port = test.store.port();
      const auto lose = [rank, dead] {
        if (rank == dead) throw lost_itself("itself");
        throw process_group_error("Connection closed by peer");
      };
      if (is_lost && is_within) {
        works[rank].in_step = [lose](std::uint64_t step) {
          if (step == last + 1) lose();
        };
      } else if (is_lost && lost_in == "epoch's end") {
        works[rank].in_epoch_end = [lose](std::uint64_t epoch) {
          if (epoch == 2) lose();
        };
      } else if (is_lost) {
        works[rank].in_epoch_end = [lose, &work = works[rank]](std::uint64_t epoch) {
          if (epoch == 2) work.before_answer = lose;
        };
      }
      try {
        auto with = test.looping();
        with.save.epochs = 0;
        with.metrics = test.place.path + "/metrics";
        if (rank != 0) with.tell = [](std::string_view) {};
        loop_driver loop(here, with, works[rank]);
        loop.run();
      } catch (const std::exception& error) {
        ends[rank] = error.what();
      }
    });
    return std::pair(std::move(works), std::move(ends));
  };
  const auto [works, ends] = run_all(true);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    CHECK(ends[rank] == (rank == dead ? "itself" : "Connection closed by peer"));
    const auto& calls = works[rank].calls;
    const bool puts_back = std::find(calls.begin(), calls.end(), "put back") != calls.end();
    CHECK(puts_back == (rank != dead));
    const bool let_go = std::find(calls.begin(), calls.end(), "let go") != calls.end();
    CHECK(let_go == (rank != dead));
  }
  const auto [again, good] = run_all(false);
  CHECK(good == std::vector<std::string>(world_size));
  CHECK(test.told.front() == "resuming from snapshot " + test.folder +
                                 "/snapshot-000001-000004 at epoch " +
                                 (is_within ? "3" : "2, at its end"));
  // The survivor's four steps, and then only the third epoch's two.
  CHECK(again[0].seen.size() == 4 * 6);
  const auto& calls = again[1].calls;
  const bool ends_again = std::find(calls.begin(), calls.end(), "end 2 with 0") != calls.end();
  CHECK(ends_again == !is_within);
  // What has no steps any more has no numbers of its own.
  std::ifstream file(test.place.path + "/metrics");
  std::vector<std::string> rows;
  for (std::string row; std::getline(file, row);) {
    const auto at = row.find("\"epoch\"");
    if (at != row.npos) rows.push_back(row.substr(at, 9));
  }
  CHECK((rows == std::vector<std::string>{"\"epoch\":1", "\"epoch\":2", "\"epoch\":3"}));
  CHECK(calls.back() == "end 3 with 8");
}

// The last step is saved only once a GPU has come to rest, before anything is put back.
TEST_CASE("what is not whole on a GPU when a rank is lost is not saved", "[training]") {
  const bool is_broken = GENERATE(false, true);
  loop_under_test test;
  counting_work work;
  if (is_broken) work.broken_on_device = "the GPU still works 5 s later";
  work.in_step = [](std::uint64_t step) {
    if (step == 4) throw process_group_error("Connection closed by peer");
  };
  auto with = test.looping();
  with.save.epochs = 0;
  CHECK(test.run(work, with) == "Connection closed by peer");
  const std::vector<std::string> last(work.calls.end() - (is_broken ? 2 : 3), work.calls.end());
  if (is_broken) {
    CHECK((last == std::vector<std::string>{"let go", "end device work"}));
    CHECK(test.messages.all() == std::vector<std::string>{"no emergency snapshot of step 3: the "
                                                          "GPU still works 5 s later"});
  } else {
    CHECK((last == std::vector<std::string>{"let go", "end device work", "put back"}));
  }
  test.told.clear();
  counting_work again;
  CHECK(test.run(again, with).empty());
  CHECK(test.told.front() == (is_broken ? "no snapshot in " + test.folder + ": starting at epoch 1"
                                        : "resuming from snapshot " + test.folder +
                                              "/snapshot-000001-000003 at epoch 1, in its middle"));
}

// Other ranks still come to the step if the launcher says that it is an ordinary stop.
TEST_CASE("only SIGTERM is a sign that a rank is lost", "[training]") {
  const auto [number, is_ordinary] =
      GENERATE(std::pair(SIGTERM, std::optional<bool>()), std::pair(SIGTERM, std::optional(false)),
               std::pair(SIGTERM, std::optional(true)), std::pair(SIGUSR1, std::optional<bool>()));
  const int signal = number;  // clang's lambdas capture no structured binding
  launcher::stop_file file;
  ::setenv("DDPRUN_STOP", file.path().c_str(), 1);
  if (is_ordinary) file.stop(*is_ordinary, std::chrono::seconds(30));
  loop_under_test test;
  counting_work work;
  bool was_seen_before = true, is_seen = false;
  work.in_step = [&](std::uint64_t step) {
    if (step == 2) {
      was_seen_before = work.stop_has_come();
      REQUIRE(::raise(signal) == 0);
    } else if (step == 3) {
      is_seen = work.stop_has_come();
    }
  };
  CHECK(test.run(work, test.looping()).empty());
  CHECK_FALSE(was_seen_before);
  ::unsetenv("DDPRUN_STOP");
  CHECK(is_seen == (signal == SIGTERM && is_ordinary != true));
}

// Of three ranks one dies while its file of a snapshot is on its way to the disk, and the others
// wait for that: to save the next one, or to end.
TEST_CASE("a rank that dies in a save costs no step", "[training]") {
  const std::size_t epochs = GENERATE(3u, 1u);
  const std::uint32_t dead = GENERATE(0u, 2u);
  constexpr std::uint32_t world_size = 3;
  loop_under_test test;
  meeting ranks(world_size);
  std::promise<void> others_have_ended;
  std::atomic<std::uint32_t> ended = 0;
  const auto over = others_have_ended.get_future().share();
  test.disk.before_create = [&](const std::string& path) {
    if (path.find("rank-0000" + std::to_string(dead)) != path.npos) over.wait();
  };
  std::vector<std::string> ends(world_size);
  const auto run_one = [&](std::uint32_t rank) {
    counting_work work;
    std::uint32_t asked = 0;
    work.any_of_all = [&](bool here) {
      if (rank == dead && ++asked == 2) {
        ranks.lose_one();
        throw lost_itself("itself");
      }
      return ranks.any(here);
    };
    environment here = lone_rank(1, test.instance);
    here.rank = rank;
    here.world_size = world_size;
    here.master_address = "127.0.0.1";
    here.master_port = test.store.port();
    auto with = test.looping();
    with.epochs = epochs;
    with.save = {2, 0, 0ms};
    with.tell = [](std::string_view) {};
    try {
      loop_driver(here, with, work).run();
    } catch (const std::exception& error) {
      ends[rank] = error.what();
    }
    if (rank != dead && ++ended == world_size - 1) others_have_ended.set_value();
  };
  job_under_test::on_all(world_size, run_one);
  for (std::uint32_t rank = 0; rank < world_size; ++rank)
    CHECK(ends[rank] == (rank == dead ? "itself" : "Connection closed by peer"));
  test.disk.before_create = {};
  test.round = 1;
  counting_work again;
  auto with = test.looping();
  with.epochs = epochs;
  CHECK(test.run(again, with).empty());
  // Two steps an epoch: the second save was of step 4.
  CHECK(test.told.front() ==
        (epochs == 1
             ? "snapshot " + test.folder + "/snapshot-000001-000002: all 1 epochs are done"
             : "resuming from snapshot " + test.folder + "/snapshot-000001-000004 at epoch 3"));
}

}  // namespace ddprun::tests
