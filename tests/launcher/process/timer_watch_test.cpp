// Timers without a signal: no process is killed.
#include "launcher/process/timer_watch.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <csignal>
#include <fcntl.h>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

constexpr pid_t timed_worker = 4711;

// Rank 3 is that process.
struct timed_node {
  explicit timed_node(const std::string& is_enabled = "1") {
    environment["TMPDIR"] = folder.path;
    environment["TORCHELASTIC_ENABLE_FILE_TIMER"] = is_enabled;
    timer_watch::outside given;
    given.say = [this](const std::string& line) { said.push_back(line); };
    given.holder_of = [](pid_t process) {
      return process == timed_worker
                 ? std::optional(worker_group::live_worker{0, 3, timed_worker, 0})
                 : std::nullopt;
    };
    given.is_ending = [this] {
      ++asked;
      return is_ending;
    };
    watch.emplace(context.get_executor(), environment, "mark", std::move(given));
  }
  std::string path() const {
    const std::string* const found =
        find_variable(environment, std::string("TORCHELASTIC_TIMER_FILE"));
    return found == nullptr ? "" : *found;
  }
  // Sets a timer that has already expired.
  void expire(const std::string& scope) {
    const std::string text = R"({"version": 1, "pid": )" + std::to_string(timed_worker) +
                             R"(, "scope_id": ")" + scope +
                             R"(", "expiration_time": 1, "signal": 0})" + "\n";
    const int pipe = ::open(path().c_str(), O_WRONLY | O_NONBLOCK);
    REQUIRE(pipe >= 0);
    CHECK(::write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(pipe);
    const int before = asked;
    REQUIRE(tests::run_until(context, [&] { return asked > before; }));
  }
  // The cause that is reported for the end of that worker.
  cause why_it_ended(int signal) const {
    worker_end end;
    end.pid = timed_worker;
    end.how = exit_status{0, signal};
    cause why;
    watch->name_timer(end, why);
    return why;
  }

  tests::temporary_folder folder;
  environment_map environment;
  std::vector<std::string> said;
  bool is_ending = false;
  int asked = 0;
  boost::asio::io_context context;
  std::optional<timer_watch> watch;
};

}  // namespace

TEST_CASE("where the environment asks for no timers, workers find no pipe for them") {
  const timed_node node("0");
  CHECK(node.path().empty());
  CHECK(node.said.empty());
}

TEST_CASE("the first timer of a worker that expires is a line, until it is asked to end") {
  timed_node node;
  CHECK(node.path() == node.folder.path + "/watchdog_timer_mark");
  node.is_ending = true;
  node.expire("a");
  CHECK(node.said.empty());
  node.is_ending = false;
  node.expire("b");
  node.expire("c");
  REQUIRE(node.said.size() == 1);
  CHECK(node.said[0].starts_with("rank 3: "));
  CHECK(node.said[0].ends_with("; it asks for no signal"));
  node.watch->begin_round();
  node.expire("d");
  CHECK(node.said.size() == 2);
}

TEST_CASE("a timer that sends no signal is no reason for an end") {
  timed_node node;
  node.expire("a");
  const cause why = node.why_it_ended(SIGKILL);
  CHECK(why.text.empty());
  CHECK_FALSE(why.is_secondary);
}
