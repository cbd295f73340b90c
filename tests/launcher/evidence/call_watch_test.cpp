#include "launcher/evidence/call_watch.hpp"

#include "launcher/evidence/evidence_gathering.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fork_alone.hpp"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <map>
#include <set>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

volatile std::sig_atomic_t is_asked = 0;

void note_question(int) {
  is_asked = 1;
}

// A process that stays in one call and returns for a moment when the test says so, with the handler
// of ddprun_stacks.py or without one.
class calling_process {
 public:
  explicit calling_process(bool has_handler) {
    REQUIRE(pipe(orders_.data()) == 0);
    REQUIRE(pipe(answers_.data()) == 0);
    pid_ = tests::fork_alone();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) run(has_handler);
    hear();
  }
  ~calling_process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    for (const int end : {orders_[0], orders_[1], answers_[0], answers_[1]})
      close(end);
  }
  calling_process(const calling_process&) = delete;
  calling_process& operator=(const calling_process&) = delete;

  pid_t pid() const { return pid_; }

  void come_back() {
    const char word = 'c';
    REQUIRE(write(orders_[1], &word, 1) == 1);
    hear();
  }

 private:
  [[noreturn]] void run(bool has_handler) {
    const int file = memfd_create("ddprun-returns", MFD_CLOEXEC);
    if (has_handler) {
      struct sigaction action {};
      action.sa_handler = note_question;
      sigaction(return_signal, &action, nullptr);
    }
    char word = 'b';
    while (write(answers_[1], &word, 1) == 1) {
      while (read(orders_[0], &word, 1) != 1) {
      }
      if (is_asked != 0 && write(file, ".", 1) != 1) break;
      is_asked = 0;
    }
    _exit(1);
  }

  void hear() {
    char word = 0;
    REQUIRE(read(answers_[0], &word, 1) == 1);
  }

  pid_t pid_ = -1;
  std::array<int, 2> orders_{};
  std::array<int, 2> answers_{};
};

std::map<pid_t, unique_fd> only(const calling_process& one) {
  std::map<pid_t, unique_fd> workers;
  workers.emplace(one.pid(), open_process(one.pid()));
  return workers;
}

}  // namespace

TEST_CASE("a worker is in one call from when it is asked until it comes back") {
  calling_process python(true);
  const std::set<pid_t> it{python.pid()};
  call_watch watch;
  CHECK(watch.look(only(python)).held.empty());
  CHECK(watch.look(only(python)).held == it);
  CHECK(watch.look(only(python)).held == it);
  python.come_back();
  // It is not asked again at once, because it may return all the time.
  const call_watch::answer back = watch.look(only(python));
  CHECK(back.held.empty());
  CHECK(back.asked.empty());
  CHECK(watch.look(only(python)).asked == it);
  CHECK(watch.look(only(python)).held == it);
}

TEST_CASE("a worker that is not looked at meanwhile is forgotten") {
  calling_process python(true);
  call_watch watch;
  watch.look(only(python));
  CHECK(watch.look({}).asked.empty());
  CHECK(watch.look(only(python)).held.empty());
}

TEST_CASE("a process without our handler is sent nothing") {
  calling_process other(false);
  call_watch watch;
  CHECK(watch.look(only(other)).asked.empty());
  CHECK(watch.look(only(other)).held.empty());
  other.come_back();
}

}  // namespace ddprun::launcher::evidence
