// What must happen in the worst cases, and how soon: all die together and the same commands are
// started again; no node comes back; a run is new to a daemon that remembers others.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

// Clocks are off by up to 1 %; a write may take a second, and two of them may have to finish.
constexpr duration slack = 3s;

class journal_at_play {
 public:
  journal_at_play(std::uint64_t seed, std::uint32_t nodes)
      : random_(random_source(seed).fork(71)),
        nodes_(nodes),
        embedded_(random_.chance(50)),
        plan_(with_journal(quiet_schedule(seed, nodes), journal_kind::kept)) {
    plan_.options.embeds = embedded_;
    plan_.options.settings.nodes_min = static_cast<std::uint32_t>(1 + random_.below(nodes));
    plan_.options.tracing = std::getenv("DDPRUN_SIMULATION_SEED") != nullptr;
    in_.emplace(plan_.options);
    for (std::uint32_t index = 0; index <= nodes; ++index)
      in_->add_host();
    start(nodes);
  }
  ~journal_at_play() {
    if (plan_.options.tracing) std::printf("%s", in_->transcript().c_str());
  }
  journal_at_play(const journal_at_play&) = delete;
  journal_at_play& operator=(const journal_at_play&) = delete;

  world& in() { return *in_; }
  random_source& random() { return random_; }
  bool is_embedded() const { return embedded_; }
  const timers& timing() const { return plan_.options.settings.timing; }

  // The same commands, on the first `count` hosts.
  void start(std::uint32_t count, const std::string& run_id = "train") {
    in_->set_endpoint(in_->host_at(1));
    if (!embedded_ && !in_->has_daemon_at_endpoint()) in_->start_daemon(in_->host_at(1));
    for (std::uint32_t index = 1; index <= count; ++index)
      in_->start_agent(in_->host_at(index), {.run_id = run_id});
  }

  // Waits until a round of so many nodes runs; returns what is wrong if none does within `limit`.
  std::string runs(std::uint32_t count, duration limit) {
    const moment began = in_->now();
    if (in_->run_until_true([&] { return in_->checks().any_full(count); }, limit)) return "";
    return "no round of " + std::to_string(count) + " within " + ddprun::to_text(limit) + "; " +
           (in_->current_daemon() ? in_->current_daemon()->why() : "no daemon") + "; from " +
           ddprun::to_text(began) + "; " + in_->violation();
  }

  // The newest group that is alive.
  const worker_group& group() const {
    const auto& live = in_->checks().live();
    return **std::max_element(live.begin(), live.end(), [](const auto& one, const auto& other) {
      return one->alive == 0 || (other->alive != 0 && one->started < other->started);
    });
  }

  // By SIGKILL or loss of power.
  void end_all() {
    if (random_.chance(50)) {
      for (std::uint32_t index = 1; index <= nodes_; ++index)
        in_->lose_power(in_->host_at(index));
      for (std::uint32_t index = 1; index <= nodes_; ++index)
        in_->give_power(in_->host_at(index));
    } else {
      in_->kill_daemon();
      for (const auto& each : in_->agents())
        in_->kill_agent(*each);
    }
    in_->run_for(100ms);
  }

 private:
  random_source random_;
  std::uint32_t nodes_;
  bool embedded_;
  schedule plan_;
  std::optional<world> in_;
};

// A failure is charged, all die, and as many come back: the instance goes on after the recovery
// window.
std::string all_again(std::uint64_t seed) {
  const auto nodes = static_cast<std::uint32_t>(1 + seed % 4);
  journal_at_play all(seed, nodes);
  if (auto wrong = all.runs(nodes, slack); !wrong.empty()) return "first: " + wrong;
  all.in().fail_worker(*all.in().agents()[0]->group, 0, cause_class::exit, 3);
  all.in().run_for(5s);
  if (auto wrong = all.runs(nodes, 10s); !wrong.empty()) return "after a failure: " + wrong;
  for (std::uint64_t times = 1 + all.random().below(2); times > 0; --times) {
    const worker_group before = all.group();
    all.end_all();
    all.in().run_for(all.random().between(0s, all.random().chance(50) ? 1s : 60s));
    all.start(nodes);
    if (auto wrong = all.runs(nodes, all.timing().recovery_window * 51 / 50 + slack);
        !wrong.empty())
      return "again: " + wrong;
    const worker_group& after = all.group();
    std::string wrong = unlike("restarts", after.restarts_used, before.restarts_used) +
                        unlike("instance", after.instance, before.instance);
    if (before.restarts_used != 1) wrong += "nothing was charged ";
    if (after.round <= before.round) wrong += "the round is " + std::to_string(after.round);
    if (!wrong.empty()) return wrong;
    all.in().run_for(5s);
  }
  return all.in().violation();
}

// Fewer nodes come back than were in the newest round: they go on when none of its workers can be
// alive.
std::string fewer_again(std::uint64_t seed) {
  const auto nodes = static_cast<std::uint32_t>(2 + seed % 3);
  journal_at_play all(seed, nodes);
  if (auto wrong = all.runs(nodes, slack); !wrong.empty()) return "first: " + wrong;
  all.in().run_for(3s);
  const instance_id before = all.group().instance;
  all.end_all();
  const auto least = std::max(1U, all.in().settings().nodes_min);
  if (least >= nodes) return all.in().violation();
  all.start(least);
  const timers& timing = all.timing();
  const duration gone_after =
      all.is_embedded() ? 2 * timing.isolation_limit + 1s : timing.orphan_limit;
  if (auto wrong = all.runs(least, gone_after * 51 / 50 + timing.recovery_window + slack);
      !wrong.empty())
    return "fewer: " + wrong;
  return unlike("instance", all.group().instance, before) + all.in().violation();
}

// A run that this daemon has never heard of does not wait.
std::string fresh_beside(std::uint64_t seed) {
  journal_at_play all(seed, 1);
  if (auto wrong = all.runs(1, slack); !wrong.empty()) return "first: " + wrong;
  all.in().run_for(3s);
  all.end_all();
  all.start(1, "train");
  all.start(1, "other");
  const auto other = [&] { return all.in().checks().any_full(1, "other"); };
  if (!all.in().run_until_true(other, 1500ms))
    return "a new run waits: " + all.in().current_daemon()->why();
  if (all.in().checks().any_full(1)) return "the old run waits for nobody";
  return all.runs(1, all.timing().recovery_window + slack) + all.in().violation();
}

// No node comes back: the instance is lost, and the nodes that join next open another one.
std::string nobody_again(std::uint64_t seed) {
  const auto nodes = static_cast<std::uint32_t>(1 + seed % 3);
  journal_at_play all(seed, nodes);
  if (auto wrong = all.runs(nodes, slack); !wrong.empty()) return "first: " + wrong;
  all.in().run_for(3s);
  const instance_id before = all.group().instance;
  all.end_all();
  // In the embedded mode somebody types another run's command.
  const std::string other = all.is_embedded() ? "other" : "train";
  all.start(all.is_embedded() ? 1 : 0, other);
  all.in().run_for(all.timing().orphan_limit * 49 / 50 - 200ms);
  daemon* const here = all.in().current_daemon();
  if (here == nullptr) return "the daemon is gone";
  if (here->run()->phase() == run_phase::closed) return "lost too soon";
  all.in().run_for(all.timing().orphan_limit * 2 / 50 + slack);
  const core::run_view view = here->run()->view(here->local_now());
  if (view.phase != run_phase::closed || view.instance != before || view.exit_code != 1)
    return "not lost: " + view.why;
  for (std::uint32_t index = 1; index <= nodes; ++index)
    all.in().start_agent(all.in().host_at(index));
  if (auto wrong = all.runs(nodes, slack); !wrong.empty()) return "after it was lost: " + wrong;
  const auto& live = all.in().checks().live();
  const bool is_old = std::any_of(live.begin(), live.end(), [&](const auto& each) {
    return each->alive > 0 && each->instance == before;
  });
  return (is_old ? "the lost instance goes on " : "") + all.in().violation();
}

std::string every(const std::function<std::string(std::uint64_t)>& play_one, std::uint64_t count) {
  if (std::getenv("DDPRUN_SIMULATION_SEED") != nullptr)
    return play_one(number_from("DDPRUN_SIMULATION_SEED", 0));
  for (std::uint64_t seed = 0; seed < scaled(count); ++seed) {
    const std::string wrong = play_one(seed);
    if (!wrong.empty()) return "--seed=" + std::to_string(seed) + ": " + wrong;
  }
  return "";
}

}  // namespace

TEST_CASE("all die together and as many come again: the instance goes on after the window") {
  REQUIRE(every(all_again, 300) == "");
}

TEST_CASE("fewer come again: the instance goes on when no worker of the others can live") {
  REQUIRE(every(fewer_again, 100) == "");
}

TEST_CASE("a run that is new to a daemon with a journal starts at once") {
  REQUIRE(every(fresh_beside, 100) == "");
}

TEST_CASE("an instance to which no node comes back is lost, and the next join opens another") {
  REQUIRE(every(nobody_again, 100) == "");
}

}  // namespace ddprun::simulation
