// Random events in any order, sensible or not, and what must be true of an agent all the same.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/effort.hpp"

#include <memory>
#include <random>
#include <utility>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

namespace {

// A host that knows which workers are alive, and checks every effect against that.
class checked_agent {
 public:
  explicit checked_agent(std::uint64_t seed) : random_(seed), machine_(options(seed)) {
    agent_effects effects;
    machine_.start(now_, effects);
    check(effects);
  }

  void play(int steps) {
    for (int step = 0; step < steps && !left_; ++step) {
      now_ += std::chrono::milliseconds(pick(10) == 0 ? pick(9000) : pick(300));
      agent_event event = any_event();
      // A connection, a tether or a worker can end only once; the other events may come at any
      // time.
      if (auto* const ended = std::get_if<worker_ended>(&event)) {
        if (living_ == 0) continue;
        const std::uint32_t local_rank = lives_[0] ? 0 : 1;
        lives_[local_rank] = false;
        --living_;
        ended->round = living_round_;
        ended->local_rank = local_rank;
      }
      agent_effects effects;
      machine_.step(event, now_, effects);
      check(effects);
      if (std::holds_alternative<agent_time_passed>(event) && !left_) {
        const auto next = machine_.next_deadline();
        REQUIRE((!next || *next > now_));
      }
    }
  }

 private:
  static agent_options options(std::uint64_t seed) {
    agent_options value = agent_story::default_options();
    value.seed = seed;
    return value;
  }

  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  daemon_message any_message() {
    if (std::exchange(welcome_due_, false)) return welcome{};
    switch (pick(8)) {
      case 0:
        return welcome{0, "", timers_for(std::chrono::seconds(1 + pick(10)))};
      case 1:
      case 2:
      case 3:
        return ack{pick(9) == 0 ? pick(100) : seq_};
      case 4:
        if (pick(200) == 0) return refused{};
        [[fallthrough]];
      default:
        break;
    }
    desired order;
    order.instance = 1 + pick(20) / 19;
    order.round = round_ + (pick(4) == 0 ? 1 : 0) - (pick(12) == 0 ? 1 : 0);
    order.seq = desired_seq_ += pick(10) == 0 ? 0 : 1;
    order.phase = desired_phase::run;
    if (pick(2) == 0) order.phase = static_cast<desired_phase>(pick(5));
    if (pick(200) == 0) order.phase = desired_phase::close;
    order.group_world_size = static_cast<std::uint32_t>(pick(4));
    order.grace = std::chrono::seconds(pick(7));
    round_ = std::max(round_, order.round);
    if (pick(8) != 0) {
      const auto nodes = static_cast<std::uint32_t>(1 + pick(3));
      // Rarely it is one that makes no sense.
      const auto group_rank = static_cast<std::uint32_t>(pick(15) == 0 ? 3 : pick(nodes));
      order.assignment =
          assignment{group_rank, nodes, group_rank * 2, nodes * 2, "10.0.0.1", 1, 1, "node-a", {}};
    }
    return order;
  }

  agent_event any_event() {
    const round_number round = pick(9) == 0 ? pick(6) : machine_.round();
    const std::uint64_t tether = 1 + pick(4);
    switch (pick(24)) {
      case 0:
        if (pick(3) != 0) return agent_time_passed{};
        welcome_due_ = true;
        return daemon_connected{"10.0.0.2"};
      case 1:
        if (pick(4) != 0) return agent_time_passed{};
        return daemon_disconnected{"Connection reset by peer"};
      case 2:
        return service_opened{round, 29500, 29501, {}};
      case 3:
        return pick(10) == 0 ? agent_event(service_failed{round, "in use"})
                             : agent_event(tether_connected{round});
      case 4:
        return tether_disconnected{round, "No route to host"};
      case 5:
      case 6:
        return tether_acked{round, pick(2) == 0 ? 0 : beat_};
      case 7:
        return member_attached{tether,
                               {1, round, {9, tether}, static_cast<std::uint32_t>(pick(4))}};
      case 8:
        return member_beat{tether, {++beat_of_member_, pick(2) == 0}};
      case 9:
        return member_detached{tether};
      case 10:
        return workers_started{round};
      case 11: {
        worker_ended ended;
        ended.success = pick(3) != 0;
        return ended;
      }
      case 12:
        if (pick(60) == 0) return signal_received{pick(2) == 0 ? 2 : 15};
        return agent_loop_was_late{std::chrono::milliseconds(pick(3000))};
      case 13:
      case 14:
      case 15:
      case 16:
        return agent_time_passed{};
      default:
        return daemon_said{std::make_shared<const daemon_message>(any_message())};
    }
  }

  void check(const agent_effects& effects) {
    for (const agent_effect& effect : effects) {
      REQUIRE_FALSE(left_);  // `leave` is the last effect ever
      if (const auto* const start = std::get_if<start_workers>(&effect)) {
        REQUIRE(living_ == 0);
        REQUIRE((start->instance != last_instance_ || start->round > living_round_));
        last_instance_ = start->instance;
        living_round_ = start->round;
        living_ = 2;
        lives_[0] = lives_[1] = true;
      } else if (const auto* const sent = std::get_if<send_to_daemon>(&effect)) {
        check_text(sent->message);
      } else if (const auto* const beat = std::get_if<send_tether_beat>(&effect)) {
        beat_ = beat->beat.seq;
      } else if (std::holds_alternative<leave>(effect)) {
        left_ = true;
      }
    }
  }

  void check_text(const agent_message& message) {
    if (std::holds_alternative<goodbye>(message)) REQUIRE(living_ == 0);
    const status* said = std::get_if<status>(&message);
    if (const auto* const greeting = std::get_if<hello>(&message)) said = &greeting->state;
    if (said == nullptr) return;
    REQUIRE(said->seq == seq_ + 1);
    seq_ = said->seq;
    REQUIRE(said->causes.size() <= causes_max);
    if (said->phase == member_phase::joined || said->phase == member_phase::succeeded) {
      REQUIRE(living_ == 0);
    }
    if (said->phase == member_phase::stopped) REQUIRE(living_ == said->unkillable);
  }

  std::mt19937_64 random_;
  time_point now_ = agent_story::origin;
  agent machine_;
  std::uint32_t living_ = 0;
  bool lives_[2] = {};
  instance_id last_instance_ = 0;
  round_number living_round_ = 0;
  std::uint64_t seq_ = 0;
  std::uint64_t beat_ = 0;
  std::uint64_t beat_of_member_ = 0;
  std::uint64_t desired_seq_ = 0;
  round_number round_ = 1;
  bool left_ = false;
  bool welcome_due_ = false;
};

}  // namespace

TEST_CASE("whatever an agent is told: one round's workers, true words, no spinning, one end") {
  for (const std::uint64_t number : ddprun::tests::cases_to_take(2000, 200)) {
    const std::uint64_t seed = number + 1;
    INFO("seed " << seed);
    checked_agent(seed).play(1000);
  }
}
