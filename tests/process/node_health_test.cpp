// What the agent hears of its node's health, and when.
#include "launcher/node/node_health.hpp"

#include "tests/support/process_fixture.hpp"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

using heard = std::vector<std::pair<round_number, std::string>>;

// No command: only the node's own look, which finds what the test says.
struct looked_at_node : process_fixture {
  explicit looked_at_node(duration again = 24h) {  // only a round that fails makes it look
    health_options options;
    options.again = again;
    health = std::make_unique<node_health>(
        io.get_executor(), options, nullptr,
        [this] {
          const std::string now = is_ill ? "GPU 3 needs: Reset" : "";
          ++looks;
          return now;
        },
        [this](round_number round, const std::string& unhealthy) {
          all.emplace_back(round, unhealthy);
        },
        [this](note_level, const std::string& text) { said.push_back(text); });
  }

  // A round fails, and what there is to say of it has been said.
  void fail(round_number round, bool ill) {
    is_ill = ill;
    const int before = looks;
    health->check(round);
    run_until([&] { return looks > before; });
  }
  void hear(std::size_t count) {
    run_until([&] { return all.size() >= count; });
  }

  std::atomic<bool> is_ill{false};
  std::atomic<int> looks{0};
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
  node.is_ill = true;
  node.health->check(1);
  node.health->rest();
  node.hear(2);
  CHECK(node.all[1] == heard::value_type{0, "GPU 3 needs: Reset"});
}

TEST_CASE("an unhealthy node is looked at again, but not while workers run on it") {
  looked_at_node node(10ms);
  node.is_ill = true;
  node.health->check(1);
  node.health->rest();
  node.hear(2);  // what was wrong was found after that
  node.io.run_for(200ms);
  CHECK(node.looks == 1);
  node.health->check(2);
  node.run_until([&node] { return node.looks >= 4; });
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
