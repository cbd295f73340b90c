#include "launcher/agent/loop_deadline.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;
using words = std::vector<std::string>;

namespace {

// Its clock is far behind the real one, so that each deadline has come as soon as it is armed.
struct loop_with_deadline {
  loop_with_deadline() {
    loop_deadline::handlers told;
    told.late = [this](duration by) {
      said.push_back("late by " + to_text(by));
      if (when_late) when_late();
    };
    told.passed = [this] { said.emplace_back("passed"); };
    told.now = [this] { return now; };
    deadline.emplace(io.get_executor(), std::move(told));
  }

  boost::asio::io_context io{1};
  time_point now = std::chrono::steady_clock::now() - 1h;
  words said;
  std::function<void()> when_late;
  std::optional<loop_deadline> deadline;
};

}  // namespace

TEST_CASE("a deadline passes once, and the loop is not late if it turns in time") {
  loop_with_deadline loop;
  loop.deadline->arm(loop.now + 10s);
  loop.now += 10s;
  loop.io.run();
  CHECK(loop.said == words{"passed"});
}

TEST_CASE("of several deadlines the last one counts, and none ends the wait") {
  loop_with_deadline loop;
  loop.deadline->arm(loop.now + 10s);
  loop.deadline->arm(loop.now + 20s);
  loop.now += 20s;
  loop.io.run();
  CHECK(loop.said == words{"passed"});
  loop.deadline->arm(loop.now + 1h);
  loop.deadline->arm(std::nullopt);
  loop.now += 2h;
  loop.deadline->notice();
  loop.io.restart();
  loop.io.run();
  loop.deadline->arm(loop.now);
  loop.deadline->stop();
  loop.io.restart();
  loop.io.run();
  CHECK(loop.said == words{"passed"});
}

TEST_CASE("a loop that stood still says so before anything else, once") {
  loop_with_deadline loop;
  loop.deadline->arm(loop.now + 10s);
  loop.now += 14s;
  loop.deadline->notice();
  loop.deadline->notice();
  CHECK(loop.said == words{"late by 4 s"});
  loop.io.run();
  CHECK(loop.said == words{"late by 4 s", "passed"});
}

TEST_CASE("a deadline that is armed again for the same moment is expected then") {
  loop_with_deadline loop;
  const time_point due = loop.now + 10s;
  loop.deadline->arm(due);
  SECTION("it has not come: the loop is in time") {
    loop.now += 9s;
    loop.deadline->arm(due);
    loop.deadline->notice();
    CHECK(loop.said.empty());
  }
  SECTION("it has passed during the step: the loop is late") {
    loop.now += 14s;
    loop.deadline->arm(due);
    loop.deadline->notice();
    CHECK(loop.said == words{"late by 4 s"});
  }
  SECTION("another one that has passed: it is expected now") {
    loop.now += 14s;
    loop.deadline->arm(due + 1s);
    loop.deadline->notice();
    CHECK(loop.said.empty());
  }
}

TEST_CASE("a message that has come is heard before the deadline counts against its sender") {
  loop_with_deadline loop;
  auto pipe = make_pipe();
  REQUIRE(pipe.has_value());
  const int sender = pipe->write.get();
  boost::asio::posix::stream_descriptor receiver(loop.io, pipe->read.release());
  receiver.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                      [&](boost::system::error_code) { loop.said.emplace_back("message"); });
  loop.when_late = [&] { CHECK(::write(sender, "x", 1) == 1); };
  loop.deadline->arm(loop.now + 10s);
  loop.now += 14s;
  loop.io.run();
  CHECK(loop.said == words{"late by 4 s", "message", "passed"});
}

TEST_CASE("a deadline that is stopped when the loop has woken for it passes no more") {
  loop_with_deadline loop;
  loop.when_late = [&] { loop.deadline->stop(); };
  loop.deadline->arm(loop.now + 10s);
  loop.now += 14s;
  loop.io.run();
  CHECK(loop.said == words{"late by 4 s"});
  loop.now += 1h;
  loop.deadline->notice();
  CHECK(loop.said == words{"late by 4 s"});
}

TEST_CASE("a deadline that was stopped can be armed again, for the same moment, too") {
  loop_with_deadline loop;
  const time_point due = loop.now + 10s;
  loop.deadline->arm(due);
  loop.deadline->stop();
  loop.deadline->arm(due);
  loop.now += 10s;
  loop.io.run();
  CHECK(loop.said == words{"passed"});
}

TEST_CASE("a deadline that is destroyed passes no more") {
  loop_with_deadline loop;
  loop.deadline->arm(loop.now);
  loop.deadline.reset();
  loop.io.run();
  CHECK(loop.said.empty());
}
