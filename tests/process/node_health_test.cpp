// What the agent learns about its node's health, and when.
#include "launcher/node/node_health.hpp"

#include "launcher/process/hook_runner.hpp"
#include "tests/support/process_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

using heard = std::vector<std::pair<round_number, std::string>>;

// Only a round that fails makes the node look.
constexpr node_health::times never{24h, 24h, 24h};

// The node's own look, which finds what the test says, when it says it.
struct looked_at_node : process_fixture {
  explicit looked_at_node(duration again = 24h, node_health::times limits = never,
                          const std::string& command = "") {
    health_options options;
    options.again = again;
    health = std::make_unique<node_health>(
        io.get_executor(), options, command.empty() ? nullptr : runner_of(command),
        [state = state] {
          ++state->begun;
          std::unique_lock lock(state->mutex);
          state->changed.wait(lock, [&] { return !state->hangs; });
          const node_look now{state->is_ill ? "GPU 3 needs: Reset" : "", state->warning,
                              state->dying};
          ++state->looks;
          return now;
        },
        [this](round_number round, const std::string& unhealthy) {
          all.emplace_back(round, unhealthy);
        },
        [this](note_level, const std::string& text) { said.push_back(text); }, limits);
  }
  ~looked_at_node() { hang(false); }

  std::unique_ptr<hook_runner> runner_of(const std::string& command) {
    hook_options options;
    options.command = command;
    options.limit = test_limit;
    options.environment = environment();
    return std::make_unique<hook_runner>(io.get_executor(), spawn, *mux, guard, std::move(options),
                                         [](const std::string&) {});
  }

  // What the next looks find.
  void find_dying(std::vector<gpu_holder> found) {
    const std::lock_guard lock(state->mutex);
    state->dying = std::move(found);
  }
  void look_twice_more() {
    const int before = state->looks;
    run_until([&] { return state->looks >= before + 2; });
  }

  void hang(bool hangs) {
    const std::lock_guard lock(state->mutex);
    state->hangs = hangs;
    state->changed.notify_all();
  }

  // A round fails, and all its results are in.
  void fail(round_number round, bool ill) {
    state->is_ill = ill;
    const int before = state->looks;
    health->check(round);
    run_until([&] { return state->looks > before; });
  }
  void hear(std::size_t count) {
    run_until([&] { return all.size() >= count; });
  }

  // A check that hangs outlives its node.
  struct look_state {
    std::mutex mutex;
    std::condition_variable changed;
    bool hangs = false;
    std::string warning;
    std::vector<gpu_holder> dying;
    std::atomic<bool> is_ill{false};
    std::atomic<int> begun{0};
    std::atomic<int> looks{0};
  };
  std::shared_ptr<look_state> state = std::make_shared<look_state>();
  heard all;
  std::vector<std::string> said;
  std::unique_ptr<node_health> health;
};

}  // namespace

TEST_CASE("a round that failed is answered at once, and what a look finds is told later") {
  looked_at_node node;
  node.fail(1, true);
  node.hear(2);
  CHECK(node.all == heard{{1, ""}, {0, "GPU 3 needs: Reset"}});
  node.fail(2, false);
  node.hear(4);
  CHECK(node.all[2] == heard::value_type{2, "GPU 3 needs: Reset"});
  CHECK(node.all[3] == heard::value_type{0, ""});
  CHECK(node.said ==
        std::vector<std::string>{"this node is unhealthy: GPU 3 needs: Reset",
                                 "this node is healthy again: its health check passes"});
}

TEST_CASE("a restart that is faster than the look after it does not call it off") {
  looked_at_node node;
  node.state->is_ill = true;
  node.health->check(1);
  node.health->rest();
  node.hear(2);
  CHECK(node.all[1] == heard::value_type{0, "GPU 3 needs: Reset"});
}

TEST_CASE("where a GPU may have failed the answer waits for the look") {
  looked_at_node node;
  node.hang(true);
  node.state->is_ill = true;
  node.health->check(1, true);
  node.run_until([&node] { return node.state->begun == 1; });
  node.io.poll();
  CHECK(node.all.empty());
  node.hang(false);
  node.hear(1);
  CHECK(node.all == heard{{1, "GPU 3 needs: Reset"}});
  node.io.poll();
  CHECK(node.all.size() == 1);
}

TEST_CASE("a look that hangs is waited for up to its limit, and heard when it comes") {
  looked_at_node node(24h, {50ms, 24h, 24h});
  node.hang(true);
  node.state->is_ill = true;
  node.health->check(1, true);
  node.hear(1);
  CHECK(node.all == heard{{1, ""}});
  node.hang(false);
  node.hear(2);
  CHECK(node.all[1] == heard::value_type{0, "GPU 3 needs: Reset"});
}

TEST_CASE("where a GPU may have failed the answer waits until the killed have let go of theirs") {
  looked_at_node node(24h, {24h, 24h, 24h, 1ms});
  node.find_dying({{4703, "python3", "alice"}});
  node.health->check(1, true);
  node.look_twice_more();
  CHECK(node.all.empty());
  node.find_dying({});
  node.hear(1);
  CHECK(node.all == heard{{1, ""}});
  REQUIRE(node.said.size() == 1);
  CHECK(node.said[0].ends_with(
      "for processes that were killed and still have a GPU open: 4703 python3 (alice)"));
}

TEST_CASE("those that do not let go of their GPU hold the answer up to a limit") {
  looked_at_node node(24h, {50ms, 24h, 24h, 1ms});
  node.find_dying({{4703, "python3", "alice"}});
  node.health->check(1, true);
  node.hear(1);
  CHECK(node.all == heard{{1, ""}});
  // Nothing is said if even the first look comes after the limit.
  CHECK(node.said.size() <= 1);
}

TEST_CASE("what SIGKILL does not end at all holds up no answer") {
  looked_at_node node(24h, {24h, 0ms, 24h, 1ms});
  node.find_dying({{4703, "python3", "alice"}});
  node.health->check(1, true);
  node.hear(1);
  CHECK(node.all == heard{{1, "SIGKILL does not end what has a GPU open: 4703 python3 (alice)"}});
}

TEST_CASE("what was being looked at before the failure is not taken for an answer to it") {
  looked_at_node node;
  node.hang(true);
  node.health->check(1);
  node.hear(1);
  node.run_until([&node] { return node.state->begun == 1; });
  node.health->check(2, true);
  node.io.poll();
  CHECK(node.all.size() == 1);
  node.hang(false);
  node.hear(2);
  CHECK(node.state->looks == 2);
  CHECK(node.all[1] == heard::value_type{2, ""});
}

TEST_CASE("what a look warns of is said once, and keeps no node out") {
  looked_at_node node;
  node.state->warning = "processes that are not of this job have GPUs open: 4711 python (alice)";
  node.fail(1, false);
  node.fail(2, false);
  node.fail(3, false);  // the result of the check before is reported
  CHECK(node.said == std::vector<std::string>{node.state->warning});
  CHECK(node.all == heard{{1, ""}, {2, ""}, {3, ""}});
}

TEST_CASE("after a kill the node is looked at once more, beside the next round") {
  looked_at_node node;
  node.fail(1, false);
  node.state->is_ill = true;
  node.health->look_after(1ms);
  node.health->rest();
  node.hear(2);
  CHECK(node.all == heard{{1, ""}, {0, "GPU 3 needs: Reset"}});
}

TEST_CASE("an unhealthy node is looked at again, also while workers run on it") {
  looked_at_node node(1ms);
  node.state->is_ill = true;
  node.health->check(1);
  SECTION("they are started after it was found") {
    node.hear(2);
    node.health->rest();
  }
  SECTION("they are started before") {
    node.health->rest();
    node.hear(2);
  }
  node.look_twice_more();
  CHECK(node.all.size() == 2);
  node.state->is_ill = false;
  node.hear(3);
  CHECK(node.all[2] == heard::value_type{0, ""});
  CHECK(node.said.back() == "this node is healthy again: its health check passes");
}

TEST_CASE("the command does not run while workers do") {
  const ddprun::tests::temporary_folder folder;
  const std::string runs = folder.path + "/runs";
  looked_at_node node(1ms, never, "echo >>" + runs + "; exit 1");
  node.state->is_ill = true;
  node.hang(true);  // until the command has ended, however long that takes
  node.health->check(1);
  node.hear(1);
  node.health->rest();
  node.hang(false);
  node.io.run_for(200ms);
  CHECK(ddprun::tests::content_of(runs) == "\n");
  // It is what is wrong, and no look can tell whether it still is.
  CHECK(node.state->looks <= 1);
}

TEST_CASE("workers on their way out that still have a GPU open are no fault") {
  looked_at_node node(24h, {24h, 24h, 1ms});
  node.find_dying({{4703, "python3", "alice"}});
  node.health->check(1);
  node.hear(1);
  node.look_twice_more();
  node.health->rest();
  node.look_twice_more();
  CHECK(node.all == heard{{1, ""}});
  CHECK(node.said.empty());
}

TEST_CASE("workers that stay though SIGKILL was sent to them are a fault until they are gone") {
  looked_at_node node(24h, {24h, 0ms, 1ms});
  node.find_dying({{4703, "python3", "alice"}, {4704, "python3", "alice"}});
  node.health->check(1);
  node.hear(2);
  CHECK(node.all[1].second ==
        "SIGKILL does not end what has a GPU open: 4703 python3 (alice), 4704 python3 (alice)");
  // Otherwise it is looked at again after a day.
  node.find_dying({});
  node.hear(3);
  CHECK(node.all[2] == heard::value_type{0, ""});
}

TEST_CASE("a node that becomes unhealthy again does not come back with the first good check") {
  looked_at_node node;
  node.fail(1, true);
  node.hear(2);
  node.fail(2, false);
  node.hear(4);
  node.fail(3, true);
  node.hear(6);
  CHECK(node.all[5] == heard::value_type{0, "GPU 3 needs: Reset"});
  node.fail(4, false);
  node.hear(8);
  CHECK(node.all[7].second ==
        "GPU 3 needs: Reset (its checks pass now, but this was time 2 within an hour: they have to "
        "pass for 1440 min)");
}
