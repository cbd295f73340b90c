// The loop without LibTorch: what it trains is a count of samples.
#include "worker/training/loop_driver.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"
#include "worker/training/data_loader.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;
using namespace std::chrono_literals;

struct lost_itself : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Remembers which samples it has seen: that is its model.
class counting_work final : public loop_work {
 public:
  std::vector<std::string> calls;
  std::vector<std::size_t> seen;
  std::function<void(std::uint64_t step)> in_step, after_step;  // of all epochs
  std::function<void(std::uint64_t epoch, std::span<const sample_span> passes)> in_epoch_begin;
  std::function<void(std::uint64_t epoch, sample_span pass)> in_pass;
  std::function<void(std::uint64_t epoch)> in_epoch_end;
  std::function<bool(bool here)> any_of_all;  // none: this rank is alone
  bool is_stopped = false;                    // somewhere, at the next question
  std::set<std::thread::id> copied_on;        // what may be late
  std::function<void()> before_copy;          // of that
  std::string changed;                        // of that, meanwhile
  std::vector<std::size_t> looked;            // for that: how much was copied by then
  std::atomic<std::size_t> copies = 0;

  snapshot_state view() override {
    kept_.clear();
    for (const auto sample : seen)
      kept_ += std::to_string(sample) + " ";
    snapshot_state state;
    state.replicated.tensors.push_back(bytes_tensor("model", kept_));
    state.own.tensors.push_back(bytes_tensor("generator", "of a rank"));
    state.replicated.tensors.push_back(bytes_tensor("optimizer", "12345678"));
    auto& late = state.replicated.tensors.back();
    late.may_be_late = true;
    late.copy = [this, bytes = late.bytes](char* to) {
      if (before_copy) before_copy();
      copied_on.insert(std::this_thread::get_id());
      bytes.copy(to, bytes.size());
      ++copies;
    };
    return state;
  }
  std::string changed_since_view() override {
    looked.push_back(copies);
    return changed;
  }
  void set_wait_until_copied(std::function<void()> wait) override { wait_ = std::move(wait); }
  void load(const resumed_snapshot& from) override {
    std::istringstream words{std::string(from.replicated.find("model")->bytes)};
    seen.clear();
    for (std::size_t sample = 0; words >> sample;)
      seen.push_back(sample);
    calls.push_back("load");
  }
  bool is_alike(std::string_view) override { return false; }  // each rank has its own samples
  void warm_up(sample_span pass) override {
    calls.push_back("warm up with " + std::to_string(pass.size()));
  }
  void begin_epoch(std::uint64_t epoch, std::uint64_t steps,
                   std::span<const sample_span> passes) override {
    if (in_epoch_begin) in_epoch_begin(epoch, passes);
    calls.push_back("begin " + std::to_string(epoch) + " of " + std::to_string(steps));
  }
  void step(std::uint64_t epoch, std::uint64_t step, std::span<const sample_span> passes) override {
    if (in_step) in_step(step);
    for (const auto& pass : passes) {
      if (in_pass) in_pass(epoch, pass);
      seen.insert(seen.end(), pass.begin(), pass.end());
    }
    if (wait_) wait_();
  }
  void undo_step() override { calls.push_back("undo"); }
  void let_go() override { calls.push_back("let go"); }
  void end_step(const step_end& done) override {
    if (after_step) after_step(done.step);
  }
  void end_epoch(const epoch_end& done) override {
    if (in_epoch_end) in_epoch_end(done.epoch);
    calls.push_back("end " + std::to_string(done.epoch) + " with " + std::to_string(done.samples));
  }
  named_meters take_meters() override { return {}; }
  void average(named_meters&) override {}
  void ask(const loop_word& own) override {
    asked_ = {own.stop_has_come || is_stopped, own.save_is_due};
  }
  loop_word answer() override { return asked_; }
  bool any(bool here) override { return any_of_all ? any_of_all(here) : here; }

 private:
  std::string kept_;
  loop_word asked_;
  std::function<void()> wait_;
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

struct loop_under_test : job_under_test {
  const stop_request stop;
  std::vector<std::string> told;  // by rank 0
  round_number round = 0;

  training_loop_options looping() {
    training_loop_options made;
    made.samples = 24;
    made.batch_size = 4;
    made.epochs = 3;
    made.shuffle = false;
    made.folder = folder;
    made.stop = &stop;
    made.shows_progress = false;
    made.tell = [this](std::string_view line) { told.emplace_back(line); };
    made.on_message = messages.handler();
    made.files = &disk;
    return made;
  }
  // The job, started once more. Empty: it has ended in order.
  std::string run(counting_work& work, const training_loop_options& with) {
    loop_driver loop(lone_rank(++round, instance), with, work);
    try {
      loop.run();
    } catch (const std::exception& error) {
      return error.what();
    }
    is_done = loop.is_done();
    status = loop.status();
    return "";
  }
  std::string saved(const std::string& name) const { return "snapshot saved at " + folder + name; }

  bool is_done = false;
  int status = -1;
};

std::vector<std::size_t> in_order(std::size_t epochs, std::size_t samples = 24) {
  std::vector<std::size_t> all;
  for (std::size_t at = 0; at < epochs * samples; ++at)
    all.push_back(at % samples);
  return all;
}

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

TEST_CASE("what may be late is not copied by the thread that trains", "[training]") {
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  with.copies_late = GENERATE(true, false);
  REQUIRE(test.run(work, with).empty());
  CHECK(work.copied_on.size() == 1);
  CHECK(work.copied_on.contains(std::this_thread::get_id()) == !with.copies_late);
}

TEST_CASE("what has changed while it was copied becomes no snapshot", "[training]") {
  const bool is_in_step = GENERATE(true, false);
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  with.epochs = 1;
  with.save.steps = 2;
  std::promise<void> is_written;
  std::once_flag told;
  test.disk.before_sync = [&](const std::string& path) {
    if (path.ends_with("/snapshot-000001-000004"))
      std::call_once(told, [&] { is_written.set_value(); });
  };
  work.in_step = [&](std::uint64_t step) {
    if (!is_in_step || step != 5) return;
    is_written.get_future().wait();
    work.changed = "parameter 'weight'";
  };
  // No step comes after what is saved then.
  work.in_epoch_end = [&](std::uint64_t) { work.changed = "parameter 'weight'"; };
  CHECK(test.run(work, with) ==
        "training loop: the loss has changed parameter 'weight', which a snapshot copied "
        "meanwhile: set copies_late = false");
  test.disk.before_sync = nullptr;
  counting_work again;
  REQUIRE(test.run(again, with).empty());
  REQUIRE(test.told.size() > 2);
  const auto from = "resuming from snapshot " + test.folder + "/snapshot-000001-00000";
  const auto resumed = [&](const std::string& line) { return line.starts_with(from); };
  const auto found = std::find_if(test.told.begin(), test.told.end(), resumed);
  REQUIRE(found != test.told.end());
  CHECK(found->substr(from.size(), 1) == (is_in_step ? "2" : "4"));
  CHECK(again.seen == in_order(1));
}

TEST_CASE("what is copied is let go of before an error leaves the loop", "[training]") {
  const auto grace = GENERATE(0ms, 20s);
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  with.save.steps = 2;
  with.emergency_grace = grace;
  std::promise<void> is_lost;
  work.before_copy = [lost = is_lost.get_future().share()] { lost.wait(); };
  work.in_step = [&](std::uint64_t step) {
    if (step != 3) return;
    is_lost.set_value();
    throw process_group_error("Connection closed by peer");
  };
  loop_driver loop(lone_rank(1, test.instance), with, work);
  CHECK_THROWS_AS(loop.run(), process_group_error);
  if (grace == 0ms) {
    CHECK(work.looked == std::vector<std::size_t>{1});
  } else {
    CHECK(work.copies == 2);  // of step 2, and of the emergency
  }
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
                                           "10 is distrusted, for 2 jobs have gone on from it "
                                           "and failed within 10 steps: going on from " +
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

// Of three ranks one ends in a step, at its end or at an epoch's; the others lose it there.
TEST_CASE("the ranks that are left lose no step", "[training]") {
  const std::uint32_t dead = GENERATE(0u, 2u);
  const bool is_within = GENERATE(true, false);
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
      } else if (is_lost) {
        works[rank].in_epoch_end = [lose](std::uint64_t epoch) {
          if (epoch == 2) lose();
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
    const bool undid = std::find(calls.begin(), calls.end(), "undo") != calls.end();
    CHECK(undid == (is_within && rank != dead));
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
