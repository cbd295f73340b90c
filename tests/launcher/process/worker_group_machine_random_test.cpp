// Random events for the workers of a round, in any order and with any delay: the rules that
// tests/support/worker_story.hpp checks hold, and the group ends.
//
// DDPRUN_WORKER_SEED=N plays only the seed that a failure has printed.
#include "tests/support/effort.hpp"
#include "tests/support/worker_story.hpp"

#include <cstdlib>
#include <random>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::launcher;
using tests::fake_process;
using tests::worker_story;

namespace {

class random_workers {
 public:
  explicit random_workers(std::uint64_t seed)
      : random_(seed), count_(1 + pick(6)), story_(count_, limits()) {
    story_.system.exec_hangs = pick(2) == 0;
  }

  void play(int steps) {
    if (pick(10) != 0) story_.start();  // else the first thing is a stop
    for (int step = 0; step < steps && !story_.machine().is_over(); ++step) {
      if (step == 0 && !story_.is_spawned(0)) ask_for_end();
      act();
      check();
    }
    finish();
  }

 private:
  workers::limits limits() {
    workers::limits values = worker_story::limits();
    values.has_strays = pick(4) != 0;
    switch (pick(3)) {
      case 0:
        values.children = std::chrono::seconds(1 + pick(30));
        break;
      case 1:
        values.children.reset();
        break;
    }
    return values;
  }

  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  // Mostly short: around a millisecond, a tenth of a second, or some seconds.
  workers::duration any_time() {
    const std::uint64_t most[] = {2, 150, 3000, 20'000};
    return std::chrono::milliseconds(pick(most[pick(4)]));
  }

  void ask_for_end() { story_.stop(pick(2) == 0 ? SIGKILL : SIGTERM); }

  void act() {
    const workers::place worker = pick(count_);
    switch (pick(16)) {
      case 0:
      case 1:
      case 2:
        return story_.pass(any_time());
      case 3:
        return story_.freeze(any_time());
      case 4:
        return toggle_shortage(story_.system.refusal);
      case 5:
        return toggle_shortage(story_.system.failure);
      case 6:
        story_.system.exec_hangs = !story_.system.exec_hangs;
        return;
      case 7:
        story_.search_hangs = !story_.search_hangs;
        return story_.search_ends();
      case 8:
        return pick(2) == 0 ? story_.reader_stops() : story_.reader_goes_on();
      case 9:
        if (pick(8) == 0) ask_for_end();
        return;
      case 10:
        story_.is_deaf = !story_.is_deaf;
        return story_.settle();
      case 11:
        story_.hear_one();
        return;
      case 12:
        return act_of_strays(worker);
      default:
        return act_of(worker);
    }
  }

  void toggle_shortage(std::optional<start_failure>& what) {
    if (what) return what.reset();
    what = pick(6) == 0 ? worker_story::no_such_program() : worker_story::shortage();
  }

  void act_of(workers::place worker) {
    if (!story_.is_spawned(worker)) return;
    fake_process& one = story_.process(worker);
    if (one.could_not_start) return;
    const bool has_group = !one.has_ended || one.children > 0;
    switch (pick(6)) {
      case 0:
        return story_.execs(worker);
      case 1:
        if (!one.is_stuck) story_.exits(worker, pick(2) == 0 ? 0 : 3);
        return;
      case 2:
        // A group that got SIGKILL has no new children, not even from a process that is stuck.
        if (one.has_executed && has_group && !one.is_stuck) ++one.children;
        return;
      case 3:
        if (one.children > 0) story_.system.end_child(story_.pid_of(worker));
        return story_.settle();
      case 4:
        one.is_stuck = has_group && !one.is_stuck && pick(3) == 0;
        if (!one.is_stuck) story_.system.free(story_.pid_of(worker));
        return story_.settle();
      default:
        one.ignores_term = !one.ignores_term;
        return;
    }
  }

  void act_of_strays(workers::place worker) {
    if (pick(2) == 0 && !story_.strays.empty()) return story_.end_stray(pick(story_.strays.size()));
    if (!story_.is_spawned(worker)) return;
    const fake_process& one = story_.process(worker);
    const bool may_have = one.has_executed && (!one.has_ended || one.children > 0);
    if (may_have) story_.add_stray({worker, pick(2) == 0, pick(4) == 0});
  }

  void check() {
    for (workers::place worker = 0; worker < count_; ++worker) {
      if (story_.is_told(worker)) REQUIRE_FALSE(story_.machine().has_process(worker));
    }
  }

  // Removes all obstacles; then the group ends, with or without a stop.
  void finish() {
    story_.is_deaf = false;
    story_.system.refusal.reset();
    story_.system.failure.reset();
    story_.system.exec_hangs = story_.search_hangs = false;
    story_.settle();
    story_.search_ends();
    story_.reader_goes_on();
    const bool is_asked_for = pick(2) == 0;
    if (is_asked_for) {
      story_.stop(SIGTERM);
      story_.stop(SIGKILL);
    } else {
      story_.start_if_not_yet();
    }
    for (int turn = 0; turn < 15; ++turn) {
      free_all(!is_asked_for);
      story_.pass(10s);
    }
    REQUIRE(story_.machine().is_over());
    REQUIRE(story_.words.back() == "all ended");
    for (workers::place worker = 0; worker < count_; ++worker)
      REQUIRE(story_.is_told(worker));
    REQUIRE((story_.system.has_nothing_left() || story_.are_kept));
  }

  void free_all(bool must_exit) {
    for (auto& stray : story_.strays)
      stray.is_stuck = false;
    for (workers::place worker = 0; worker < count_; ++worker) {
      if (!story_.is_spawned(worker)) continue;
      story_.system.free(story_.pid_of(worker));
      if (must_exit && !story_.process(worker).could_not_start) story_.exits(worker, 0);
    }
    story_.settle();
  }

  std::mt19937_64 random_;
  std::size_t count_;
  worker_story story_;
};

}  // namespace

TEST_CASE("worker group: whatever happens, each worker has one last word, and all come to an end") {
  const char* const wanted = std::getenv("DDPRUN_WORKER_SEED");
  if (wanted != nullptr) return random_workers(std::strtoull(wanted, nullptr, 10)).play(200);
  for (const std::uint64_t number : tests::cases_to_take(3000, 400)) {
    const std::uint64_t seed = number + 1;
    INFO("DDPRUN_WORKER_SEED=" << seed);
    random_workers(seed).play(200);
  }
}
