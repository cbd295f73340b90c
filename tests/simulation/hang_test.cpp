// Hangs across nodes (rendezvous/DESIGN.md, rule 15), and the mutant that their checker catches.
// The test knows which nodes really stand still and which move. A rank may be named only if no node
// has moved for as long as messages may be under way, and it must be the one that is in no
// collective.
#include "tests/simulation/families.hpp"
#include "tests/simulation/world.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;

// A node's message may be under way for so long, even if its connection breaks.
constexpr duration words_take = 3s;

struct hanging_world {
  hanging_world(std::uint64_t number, std::uint32_t nodes, mutant mutation = {})
      : seed(number), in(options_of(number, nodes, std::move(mutation))), chances(number) {
    daemon_host = &in.add_host();
    in.start_daemon(*daemon_host);
    for (std::uint32_t index = 0; index < nodes; ++index)
      in.start_agent(in.add_host());
    runs = in.run_until_true([this, nodes] { return in.checks().any_full(nodes); }, 30s);
    in.on_hung = [this](agent& of, const core::name_hung& word) { hear(of, word); };
    if (runs) culprit = in.agents()[chances.below(nodes)].get();
  }

  static world_options options_of(std::uint64_t seed, std::uint32_t nodes, mutant mutation) {
    world_options options = quiet_schedule(seed, nodes).options;
    options.mutation = std::move(mutation);
    options.double_percent = 50;
    return options;
  }

  stall words_of(const agent& who) const {
    const std::uint32_t first = who.group->assignment.rank_first;
    stall said;
    said.age = 20s;
    said.ranks = {{first, first + 1, stall_kind::waits, "waited in all_reduce"}};
    if (&who == culprit) said.ranks[0] = {first, first, stall_kind::elsewhere, "stood in forward"};
    return said;
  }

  void stand(agent& who) {
    moved[&who] = moment::max();
    tell(who, words_of(who));
  }
  void move(agent& who) {
    moved[&who] = in.now();
    tell(who, std::nullopt);
  }
  void tell(agent& who, std::optional<stall> said) {
    agent* const to = &who;
    to->post([to, said = std::move(said)] {
      to->step(core::ranks_stalled{to->group->round, said});
    });
  }

  void hear(const agent& of, const core::name_hung& word) {
    ++named;
    for (const auto& each : in.agents()) {
      const auto found = moved.find(each.get());
      const bool stands = found != moved.end() && found->second == moment::max();
      const bool moves_since = found == moved.end() || in.now() - found->second > words_take;
      if (!stands && moves_since)
        problem = "hang: a rank is named while " + each->greeting().node + " moves";
    }
    if (&of != culprit || word.who.rank != of.group->assignment.rank_first)
      problem = "hang: rank " + std::to_string(word.who.rank) + " is named, for which nobody waits";
  }

  // Nodes stand still and move again, in any order; now and then a connection breaks.
  void disturb() {
    for (int turn = 0; turn < 30; ++turn) {
      in.run_for(in.random().between(0ms, 2s));
      agent& who = *in.agents()[chances.below(in.agents().size())];
      const bool stands = moved.contains(&who) && moved[&who] == moment::max();
      if (chances.chance(20) && who.connected()) {
        in.net().break_connection(*who.daemon_connection(), true);
      } else if (stands) {
        move(who);
      } else if (&who != in.agents().front().get()) {  // this one moves, until all hang
        stand(who);
      }
    }
  }

  std::uint64_t seed;
  world in;
  random_source chances;
  host* daemon_host = nullptr;
  agent* culprit = nullptr;
  bool runs = false;
  int named = 0;
  std::string problem;
  std::map<const agent*, moment> moved;  // when last; the end of time: it stands
};

// A node that moves is taken for one that waits.
mutant hears_what_nobody_said() {
  mutant made;
  made.daemon_event = [](daemon&, core::daemon_event& event) {
    auto* const said = std::get_if<core::agent_said>(&event);
    auto* const news = said == nullptr ? nullptr : std::get_if<status>(&said->message);
    if (news != nullptr && news->phase == member_phase::running && !news->stall)
      news->stall = stall{20s, false, {{0, 1, stall_kind::waits, "waited in all_reduce"}}};
    return true;
  };
  return made;
}

}  // namespace

TEST_CASE("a rank is named when all nodes stand, and never while one moves") {
  for (std::uint64_t seed = 0; seed < scaled(200, 5); ++seed) {
    hanging_world story(seed, static_cast<std::uint32_t>(2 + seed % 3));
    INFO("seed " << seed);
    REQUIRE(story.runs);
    story.disturb();
    REQUIRE(story.problem == "");
    REQUIRE(story.named == 0);
    for (const auto& each : story.in.agents())
      story.stand(*each);
    REQUIRE(story.in.run_until_true([&story] { return story.named > 0; }, 10s));
    REQUIRE(story.problem == "");
    story.in.run_for(30s);
    REQUIRE(story.named == 1);
    REQUIRE(story.in.violation() == "");
  }
}

TEST_CASE("a rank that hangs is ended, and the round is started again") {
  for (std::uint64_t seed = 0; seed < scaled(100, 5); ++seed) {
    hanging_world story(seed, 3);
    INFO("seed " << seed);
    REQUIRE(story.runs);
    story.in.on_hung = [&story](agent& of, const core::name_hung&) {
      story.in.fail_worker(*of.group, 0, cause_class::hung, 0);
    };
    for (const auto& each : story.in.agents())
      story.stand(*each);
    REQUIRE(story.in.run_until_true(
        [&story] { return story.culprit->group->round == 2 && story.in.checks().any_full(3); },
        60s));
    REQUIRE(story.in.violation() == "");
    const auto view = story.in.current_daemon()->run()->view({});
    REQUIRE(view.root_cause);
    CHECK(view.root_cause->kind == cause_class::hung);
    CHECK(view.root_cause->node == story.culprit->greeting().node);
  }
}

TEST_CASE("mutant: a node whose ranks move is taken for one that waits") {
  std::string found;
  for (std::uint64_t seed = 0; seed < 20 && found.empty(); ++seed) {
    hanging_world story(seed, 2, hears_what_nobody_said());
    REQUIRE(story.runs);
    story.culprit = story.in.agents()[1].get();
    story.stand(*story.culprit);
    story.in.run_for(20s);
    found = story.problem;
  }
  REQUIRE_THAT(found, StartsWith("hang: a rank is named while"));
}

}  // namespace ddprun::simulation
