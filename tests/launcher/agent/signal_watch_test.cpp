#include "launcher/agent/signal_watch.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <boost/asio/io_context.hpp>

#include <csignal>
#include <set>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using words = std::vector<std::string>;

namespace {

// A node with two workers, of which those in `with_handler` handle every signal.
struct signalled_node {
  signalled_node() : watch(io.get_executor(), outside()) {}

  signal_watch::outside outside() {
    signal_watch::outside given;
    given.say = [this](note_level, const std::string& text) { said.push_back(text); };
    given.asked_to_end = [this](int signal) { said.push_back("end " + std::to_string(signal)); };
    given.has_left = [this] {
      has_asked = true;
      return has_left;
    };
    given.has_guardian = [this] { return has_guardian; };
    given.guardian_got = [this](int, time_point) { return guardian_got; };
    given.living = [this] { return living; };
    given.pass_on = [this](pid_t worker, int signal) {
      if (with_handler.count(worker) == 0) return false;
      passed.emplace_back(std::to_string(worker) + " gets " + std::to_string(signal));
      return true;
    };
    return given;
  }
  // Until the guardian has had its time.
  void hear_and_wait(int signal) {
    watch.hear(signal);
    REQUIRE(tests::run_until(io, [this] { return has_asked; }));
  }

  boost::asio::io_context io{1};
  std::vector<worker_group::live_worker> living = {{0, 4, 100, 0}, {1, 5, 101, 0}};
  std::set<pid_t> with_handler = {100, 101};
  bool has_guardian = true, guardian_got = false, has_left = false, has_asked = false;
  words said, passed;
  signal_watch watch;
};

}  // namespace

TEST_CASE("signals that end a run are handed on at once, and not to workers") {
  signalled_node node;
  node.watch.hear(SIGTERM);
  node.watch.hear(SIGINT);
  CHECK(node.said == words{"end 15", "end 2"});
  CHECK(node.passed.empty());
}

TEST_CASE("a user signal to ddprun alone is passed on to the workers that handle it") {
  signalled_node node;
  node.hear_and_wait(SIGUSR1);
  CHECK(node.passed == words{"100 gets 10", "101 gets 10"});
  CHECK(node.said == words{"SIGUSR1 is passed on to ranks 4 and 5"});

  signalled_node other;
  other.with_handler = {101};
  other.hear_and_wait(SIGUSR2);
  CHECK(other.passed == words{"101 gets 12"});
  CHECK(other.said ==
        words{"SIGUSR2 is passed on to rank 5",
              "SIGUSR2 is not passed on to rank 4: without a handler for it a worker would die"});
}

TEST_CASE("a user signal to every process of the job is not passed on") {
  signalled_node node;
  node.guardian_got = true;
  node.hear_and_wait(SIGUSR1);
  CHECK(node.said == words{"SIGUSR1 was sent to every process of this node's job: it is not passed "
                           "on to ranks 4 and 5, which have it already"});
  CHECK(node.passed.empty());

  signalled_node idle;
  idle.guardian_got = true;
  idle.living.clear();
  idle.hear_and_wait(SIGUSR1);
  CHECK(idle.said == words{"SIGUSR1 was sent to every process of this node's job"});
}

TEST_CASE("without a guardian a user signal is passed on at once") {
  signalled_node node;
  node.has_guardian = false;
  node.watch.hear(SIGUSR1);
  CHECK(node.passed.size() == 2);
  node.living.clear();
  node.said.clear();
  node.watch.hear(SIGUSR1);
  CHECK(node.said == words{"SIGUSR1: no worker is running here to pass it to"});
}

TEST_CASE("a user signal to a node that has left meanwhile is passed to no worker") {
  signalled_node node;
  node.has_left = true;
  node.hear_and_wait(SIGUSR1);
  CHECK(node.passed.empty());
  CHECK(node.said.empty());
}
