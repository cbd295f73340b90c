// What counts as a move between two looks at a process, in plain values.
#include "launcher/evidence/movement.hpp"

#include "launcher/evidence/worker_server.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fork_alone.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

constexpr unsigned long long ticks_that_count = 5;
constexpr unsigned long long some_bytes = 64 * 1024;

process_usage sleeping(unsigned long long ticks = 100, unsigned long long bytes = 1000) {
  return {'S', ticks, bytes, {}};
}

// In state D since it went to sleep for the 40th time.
process_usage in_kernel(std::optional<unsigned long long> sleeps = 40) {
  return {'D', 100, 1000, kernel_wait{"rpc_wait_bit_killable", sleeps}};
}

move between(const process_usage& before, const process_usage& now) {
  return move_between(before, now, ticks_that_count);
}

std::chrono::nanoseconds used_by_this_thread() {
  timespec at{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec);
}

// Of a processor; it reads no file, which would be a move of another kind.
void compute() {
  const auto until = used_by_this_thread() + std::chrono::milliseconds(300);
  while (used_by_this_thread() < until) {
  }
}

void read_much() {
  std::array<char, 2 * some_bytes> bytes{};
  std::ifstream("/dev/zero", std::ios::binary).read(bytes.data(), bytes.size());
}

// A process that does what it is told to, with a thread that is called as those of a server are.
class answering_process {
 public:
  answering_process() {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()) == 0);
    pid_ = tests::fork_alone();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) obey(ends_[1]);
    close(ends_[1]);
  }
  ~answering_process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(ends_[0]);
  }
  answering_process(const answering_process&) = delete;
  answering_process& operator=(const answering_process&) = delete;

  void answers() { tell('a'); }
  void computes() { tell('c'); }
  void reads() { tell('r'); }

  // What a look finds, as if the one before had been two seconds ago.
  bool moves(bool is_answerer = true) {
    movement_question asked;
    asked.leaders = {pid_};
    if (is_answerer) asked.answerers = {pid_};
    last_.at = std::chrono::steady_clock::now() - std::chrono::seconds(2);
    last_ = look_for_moves(asked, last_);
    return !last_.moved.empty();
  }

 private:
  // Back when it is done.
  void tell(char what) {
    REQUIRE(write(ends_[0], &what, 1) == 1);
    REQUIRE(read(ends_[0], &what, 1) == 1);
  }

  [[noreturn]] static void obey(int orders) {
    std::array<int, 2> questions{};
    if (pipe(questions.data()) != 0) _exit(1);
    std::thread([orders, from = questions[0]] {
      prctl(PR_SET_NAME, std::string(server_thread_name).c_str());
      for (char what = 0; read(from, &what, 1) == 1;) {
        compute();
        if (write(orders, &what, 1) != 1) _exit(1);
      }
    }).detach();
    for (char what = 0; read(orders, &what, 1) == 1;) {
      if (what == 'c') compute();
      if (what == 'r') read_much();
      if (write(what == 'a' ? questions[1] : orders, &what, 1) != 1) _exit(1);
    }
    _exit(0);
  }

  std::array<int, 2> ends_{};
  pid_t pid_ = -1;
  movement last_;
};

}  // namespace

TEST_CASE("what answers took is left out once, of the time in which they took it") {
  answering_process process;
  CHECK(process.moves(false));  // it is new
  process.answers();
  SECTION("while it did nothing else") {
    CHECK_FALSE(process.moves());
  }
  SECTION("while it read a file, too") {
    process.reads();
    CHECK(process.moves());
  }
  SECTION("while it computed, too") {
    process.computes();
    CHECK(process.moves());
  }
  CHECK_FALSE(process.moves());
  process.computes();
  CHECK(process.moves());
}

TEST_CASE("of a process that has answered in an earlier round only new answers are left out") {
  answering_process process;
  process.answers();
  CHECK(process.moves());  // it is new
  process.computes();
  CHECK(process.moves());
  process.answers();
  CHECK_FALSE(process.moves());
}

TEST_CASE("an answer that goes on while it is looked at is no move, then or later") {
  const auto own = [](unsigned long long all, unsigned long long answered,
                      unsigned long long before) {
    return without_answers(sleeping(all), answered, sleeping(before)).ticks;
  };
  CHECK(own(140, 40, 100) == 100);
  CHECK(own(140, 55, 100) == 100);  // 15 of them after the 140 were read
  CHECK(own(158, 55, 100) == 103);
  CHECK(without_answers(sleeping(20), 30, std::nullopt).ticks == 0);
}

TEST_CASE("a process moves that is new, reads or writes, or uses the processor") {
  CHECK(move_between(std::nullopt, sleeping(), ticks_that_count) == move::other);
  CHECK(between(sleeping(), sleeping()) == move::none);
  CHECK(between(sleeping(), sleeping(104, 1000 + some_bytes - 1)) == move::none);
  CHECK(between(sleeping(), sleeping(105)) == move::computed);
  CHECK(between(sleeping(), sleeping(105, 1000 + some_bytes)) == move::other);
}

TEST_CASE("a wait in the kernel is a move when it begins, and none while it lasts") {
  CHECK(between(sleeping(), in_kernel()) == move::other);
  CHECK(between(in_kernel(), in_kernel()) == move::none);
  CHECK(between(in_kernel(), sleeping()) == move::none);
  process_usage busy = in_kernel();
  busy.ticks += ticks_that_count;  // its other threads
  CHECK(between(in_kernel(), busy) == move::computed);
  busy.bytes += some_bytes;
  CHECK(between(in_kernel(), busy) == move::other);
}

TEST_CASE("one that waits for a slow disk again and again moves") {
  CHECK(between(in_kernel(40), in_kernel(41)) == move::other);
  process_usage elsewhere = in_kernel();
  elsewhere.waits->channel = "folio_wait_bit_common";
  CHECK(between(in_kernel(), elsewhere) == move::other);
}

TEST_CASE("where sleeps are not counted, a single byte shows that a wait is another one") {
  const process_usage first = in_kernel(std::nullopt);
  process_usage second = first;
  CHECK(between(first, second) == move::none);
  second.bytes += 1;
  CHECK(between(first, second) == move::other);
  CHECK(between(in_kernel(40), in_kernel(std::nullopt)) == move::other);
}

}  // namespace ddprun::launcher::evidence
