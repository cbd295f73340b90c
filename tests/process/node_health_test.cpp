// What the agent learns about its node's health, and when.
#include "launcher/node/node_health.hpp"

#include "tests/support/process_fixture.hpp"

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

// There is no command, only the agent's own check, which finds what the test says, when it says so.
struct looked_at_node : process_fixture {
  explicit looked_at_node(duration again = 24h,  // only a failed round causes a check
                          duration look_limit = 24h) {
    health_options options;
    options.again = again;
    health = std::make_unique<node_health>(
        io.get_executor(), options, nullptr,
        [state = state] {
          ++state->begun;
          std::unique_lock lock(state->mutex);
          state->changed.wait(lock, [&] { return !state->hangs; });
          const node_look now{state->is_ill ? "GPU 3 needs: Reset" : "", state->warning};
          ++state->looks;
          return now;
        },
        [this](round_number round, const std::string& unhealthy) {
          all.emplace_back(round, unhealthy);
        },
        [this](note_level, const std::string& text) { said.push_back(text); }, look_limit);
  }
  ~looked_at_node() { hang(false); }

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
  looked_at_node node(24h, 50ms);
  node.hang(true);
  node.state->is_ill = true;
  node.health->check(1, true);
  node.hear(1);
  CHECK(node.all == heard{{1, ""}});
  node.hang(false);
  node.hear(2);
  CHECK(node.all[1] == heard::value_type{0, "GPU 3 needs: Reset"});
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

TEST_CASE("an unhealthy node is looked at again, but not while workers run on it") {
  looked_at_node node(10ms);
  node.state->is_ill = true;
  node.health->check(1);
  node.health->rest();
  node.hear(2);  // the fault was found after that
  node.io.run_for(200ms);
  CHECK(node.state->looks == 1);
  node.health->check(2);
  node.run_until([&node] { return node.state->looks >= 4; });
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
