// A process that saves is told from one that spins or waits, at any speed of the machine.
#include "launcher/process/worker_activity.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t much = 1 << 20;

// A process in a group of its own that obeys one-letter orders, and answers when done.
class told_process {
 public:
  explicit told_process(bool has_handler) {
    int orders[2];
    int answers[2];
    REQUIRE(pipe(orders) == 0);
    REQUIRE(pipe(answers) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      setpgid(0, 0);
      // The handler of Catch2 was inherited by the fork.
      std::signal(SIGTERM, has_handler ? [](int) {} : SIG_DFL);
      obey(orders[0], answers[1]);
    }
    close(orders[0]);
    close(answers[1]);
    orders_ = unique_fd(orders[1]);
    answers_ = unique_fd(answers[0]);
    ask('n');
  }
  ~told_process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  // 'n': nothing; 's': uses 300 ms of processor time; 'w': writes a MiB; 'c': computes from the
  // answer on, without end.
  void ask(char order) const {
    REQUIRE(write(orders_.get(), &order, 1) == 1);
    char answer = 0;
    REQUIRE(read(answers_.get(), &answer, 1) == 1);
  }
  pid_t pid() const { return pid_; }

 private:
  [[noreturn]] static void obey(int orders, int answers) {
    const std::string words(much, 'x');
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    char order = 0;
    while (read(orders, &order, 1) == 1) {
      if (order == 's') {
        for (const std::clock_t until = std::clock() + CLOCKS_PER_SEC * 3 / 10;
             std::clock() < until;) {
        }
      }
      if (order == 'w' && write(nowhere, words.data(), words.size()) < 0) _exit(1);
      if (write(answers, &order, 1) != 1) _exit(1);
      while (order == 'c') {
      }
    }
    _exit(0);
  }

  pid_t pid_ = -1;
  unique_fd orders_;
  unique_fd answers_;
};

// Looks that are a second apart, according to the times given to them, or as long as is said.
class looks {
 public:
  explicit looks(const told_process& at) : at_(at) { again(); }
  bool again(std::chrono::seconds later = 1s) {
    now_ += later;
    return activity_.are_busy({at_.pid()}, now_);
  }

 private:
  const told_process& at_;
  worker_activity activity_;
  worker_activity::time_point now_ = std::chrono::steady_clock::now();
};

}  // namespace

TEST_CASE("a worker that writes is at something, and so is one that goes on computing then") {
  const told_process worker(true);
  looks look(worker);
  CHECK_FALSE(look.again());
  worker.ask('w');
  CHECK(look.again());
  worker.ask('s');
  CHECK(look.again());
  CHECK_FALSE(look.again());
}

TEST_CASE("a worker that has written and gets hardly any processor computes all the same") {
  const told_process worker(true);
  looks look(worker);
  worker.ask('w');
  CHECK(look.again());
  worker.ask('c');
  look.again();           // it had written, or waited, until then
  CHECK(look.again(1h));  // what it has used since is far less than a twentieth
  kill(worker.pid(), SIGSTOP);
  siginfo_t stopped{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(worker.pid()), &stopped, WSTOPPED) == 0);
  look.again();
  CHECK_FALSE(look.again(1h));
}

TEST_CASE("a worker that spins behind a collective is at nothing") {
  const told_process worker(true);
  looks look(worker);
  worker.ask('s');
  CHECK_FALSE(look.again());
}

TEST_CASE("a worker without a handler for SIGTERM saves nothing") {
  const told_process worker(false);
  looks look(worker);
  worker.ask('w');
  CHECK_FALSE(look.again());
}

}  // namespace ddprun::launcher
