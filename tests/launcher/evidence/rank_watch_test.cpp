// Ranks that stand still, in real processes: which ones report their stacks, and what is derived
// from them.
#include "launcher/evidence/rank_watch.hpp"

#include "launcher/evidence/server_folder.hpp"
#include "launcher/evidence/stack_request.hpp"
#include "launcher/evidence/worker_server.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fork_alone.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <deque>
#include <fcntl.h>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ddprun::launcher::evidence {
namespace {

using namespace std::chrono_literals;

// Includes an escape sequence that would clear a terminal.
constexpr std::string_view written_stack =
    "Current thread 0x1 (most recent call first):\n\x1b[2J  File \"/home/me/train.py\", line 8 in "
    "step\n\xff";
constexpr std::string_view shown_stack =
    "Current thread 0x1 (most recent call first):\n  File \"/home/me/train.py\", line 8 in "
    "step\n\ufffd";

int stack_file = -1;

void write_stack(int) {
  [[maybe_unused]] const auto size =
      ::write(stack_file, written_stack.data(), written_stack.size());
}

// A rank that computes in one call, with our handler that tells whether it has returned.
// One that holds the signal back never answers.
// One that answers its collectives is called as the threads of PyTorch's server are.
enum class says {
  nothing,
  its_stack,
  never_its_stack,
  that_it_spins,
  that_it_is_stuck,
  its_collectives
};

constexpr std::chrono::nanoseconds time_to_answer = 300ms;  // of a processor
constexpr std::string_view no_collectives =
    "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"pg_status\":{}}";

// A process that reads from a pipe to which nothing is written.
class standing_process {
 public:
  // `servers`: see server_folder.hpp.
  explicit standing_process(says what, const std::string& servers = "") : servers_(servers) {
    std::array<int, 2> begun{};
    REQUIRE(pipe(begun.data()) == 0);
    pid_ = tests::fork_alone();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) stand(what, begun, servers_);
    close(begun[1]);
    char word = 0;
    REQUIRE(read(begun[0], &word, 1) == 1);
    close(begun[0]);
  }
  ~standing_process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  standing_process(const standing_process&) = delete;
  standing_process& operator=(const standing_process&) = delete;

  pid_t pid() const { return pid_; }

 private:
  // As ddprun_stacks.py does it.
  [[noreturn]] static void stand(says what, const std::array<int, 2>& begun,
                                 const std::string& servers) {
    if (what == says::never_its_stack) {
      sigset_t held;
      sigemptyset(&held);
      sigaddset(&held, stack_signal);
      sigprocmask(SIG_BLOCK, &held, nullptr);
    }
    if (what == says::its_stack || what == says::never_its_stack || what == says::its_collectives) {
      stack_file = memfd_create("ddprun-stack", MFD_CLOEXEC);
      fcntl(stack_file, F_SETFL, O_APPEND);
      struct sigaction action {};
      action.sa_handler = write_stack;
      sigaction(stack_signal, &action, nullptr);
    }
    if (what == says::that_it_spins) {
      memfd_create("ddprun-returns", MFD_CLOEXEC);
      struct sigaction action {};
      action.sa_handler = [](int) {};
      sigaction(return_signal, &action, nullptr);
    }
    std::array<int, 2> never{};
    char word = 'b';
    const int listening = what == says::its_collectives ? listen_in(servers) : -1;
    if (pipe(never.data()) != 0 || write(begun[1], &word, 1) != 1) _exit(1);
    // The kernel lets no signal but SIGKILL through before the child executes a program or ends.
    if (what == says::that_it_is_stuck) wait_for_child(never[0]);
    while (what == says::its_collectives)
      answer_one(listening);
    for (volatile unsigned turns = 0; what == says::that_it_spins;)
      turns = turns + 1;
    // The read is interrupted by the signal and repeated: ThreadSanitizer calls the handler in
    // between.
    while (read(never[0], &word, 1) != 0) {
    }
    _exit(0);
  }

  static int listen_in(const std::string& servers) {
    prctl(PR_SET_NAME, std::string(server_thread_name).c_str());
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    server_socket(servers, getpid()).copy(where.sun_path, sizeof where.sun_path - 1);
    const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_there = bind(listening, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0 &&
                          listen(listening, 8) == 0;
    if (!is_there) _exit(1);
    return listening;
  }

  static void answer_one(int listening) {
    const int peer = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) return;  // interrupted by the signal
    const auto used = [] {
      timespec at{};
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
      return std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec);
    };
    for (const auto begun = used(); used() < begun + time_to_answer;) {
    }
    send(peer, no_collectives.data(), no_collectives.size(), MSG_NOSIGNAL);
    close(peer);
  }

  static void wait_for_child(int never) {
    static std::array<char, 64 * 1024> stack;
    const auto wait = [](void* from) {
      char word = 0;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      return static_cast<int>(read(*static_cast<int*>(from), &word, 1));
    };
    clone(wait, stack.data() + stack.size(), CLONE_VFORK | SIGCHLD, &never);
  }

  std::string servers_;
  pid_t pid_ = -1;
};

struct watched {
  explicit watched(watch_options options, const std::vector<pid_t>& processes)
      : pids(processes), watch(io.get_executor(), options, given()) {}

  rank_watch::outside given() {
    rank_watch::outside with;
    with.living = [this] {
      std::vector<watched_rank> ranks;
      for (const pid_t pid : pids) {
        watched_rank next;
        next.known.rank = static_cast<std::uint32_t>(ranks.size());
        next.known.pid = pid;
        next.said_bytes = said_bytes;
        if (newest_talks && pid == pids.back()) next.said_bytes = ++talked_bytes;
        ranks.push_back(next);
      }
      return ranks;
    };
    with.add_output = [](rank_evidence& known) { known.output_tail = "the last words"; };
    with.memory_files = [] { return std::vector<std::string>(); };
    with.hangs = [this](const hang_verdict& verdict, duration) { named = verdict; };
    with.stands = [this](const std::string& sentence, duration) { stood = sentence; };
    with.stalls = [this](std::optional<stall> seen) { stalled.push_back(std::move(seen)); };
    return with;
  }

  boost::asio::io_context io;
  std::vector<pid_t> pids;       // by rank, of those that live
  std::uint64_t said_bytes = 0;  // by each
  bool newest_talks = false;     // the last of them has said more at each look
  std::uint64_t talked_bytes = 0;
  std::optional<hang_verdict> named;
  std::optional<std::string> stood;
  std::vector<std::optional<stall>> stalled;
  rank_watch watch;
};

// Ranks that answer are given the time for it that they need.
watch_options patient() {
  watch_options options;
  options.limit = tests::patience;
  return options;
}

watch_options with_limit(duration limit) {
  watch_options options = patient();
  options.names_hangs = true;
  options.hang_limit = limit;
  return options;
}

}  // namespace

TEST_CASE("a rank with our handler says where it stands, one without is sent nothing") {
  const standing_process python(says::its_stack);
  const standing_process other(says::nothing);
  watched ranks(patient(), {python.pid(), other.pid()});
  for (int round = 0; round < 2; ++round) {  // the file is emptied in between
    ranks.watch.begin(true);
    bool is_done = false;
    ranks.watch.gather([&is_done] { is_done = true; });
    CHECK(ranks.watch.is_gathering());
    REQUIRE(tests::run_until(ranks.io, [&is_done] { return is_done; }));
    REQUIRE(ranks.watch.gathered());
    const auto& found = ranks.watch.gathered()->ranks;
    REQUIRE(found.size() == 2);
    CHECK(found[0].output_tail == "the last words");
    CHECK(found[0].stacks == shown_stack);
    CHECK(standing_of(found[0].stack).place == "step (train.py:8)");
    CHECK_FALSE(found[1].is_asked);
    CHECK(found[1].state == 'S');
    CHECK(kill(other.pid(), 0) == 0);
  }
}

TEST_CASE("a rank that never answers is waited for until the limit") {
  const standing_process silent(says::never_its_stack);
  const auto asked = std::make_shared<question>();
  rank_evidence known;
  known.pid = silent.pid();
  asked->ranks.push_back({known, open_process(known.pid)});
  asked->limit = 2s;
  const time_point begun = std::chrono::steady_clock::now();
  time_point now = begun;
  asked->now = [&now] { return now; };
  asked->sleep = [&](std::chrono::milliseconds pause) {
    now += pause;
    if (now > begun + 10s) throw std::runtime_error("it waits for longer than the limit");
  };
  const node_evidence found = gather(asked);
  CHECK(now - begun >= 2s);
  CHECK(now - begun < 2010ms);
  REQUIRE(found.ranks.size() == 1);
  CHECK(found.ranks[0].is_asked);
  CHECK(found.ranks[0].stacks.empty());
}

TEST_CASE("a gathering answers within its limit, even if it hangs itself") {
  const auto limit = GENERATE(100ms, 400ms);
  std::promise<void> never;
  std::atomic<std::chrono::milliseconds> given{0ms};
  watch_options options;
  options.limit = limit;
  options.ask = [&given, hangs = never.get_future().share()](const std::shared_ptr<question>& of) {
    given = of->limit;
    hangs.wait();
    return node_evidence();
  };
  watched ranks(options, {});
  ranks.watch.begin(true);
  bool is_done = false;
  const time_point before = std::chrono::steady_clock::now();
  ranks.watch.gather([&is_done] { is_done = true; });
  const time_point after = std::chrono::steady_clock::now();
  CHECK(ranks.watch.gathers_until() >= before + limit);
  CHECK(ranks.watch.gathers_until() <= after + limit);
  REQUIRE(tests::run_until(ranks.io, [&is_done] { return is_done; }));
  CHECK_FALSE(ranks.watch.gathered());
  // It has time left for what it does beside its waiting.
  REQUIRE(tests::run_until(ranks.io, [&given] { return given.load() != 0ms; }));
  CHECK(given.load() == limit * 3 / 4);
  never.set_value();
}

TEST_CASE("what was asked in one round is not heard in the next") {
  const standing_process python(says::its_stack);
  watched ranks(patient(), {python.pid()});
  ranks.watch.begin(true);
  bool is_old_done = false;
  bool is_new_done = false;
  ranks.watch.gather([&is_old_done] { is_old_done = true; });
  ranks.watch.begin(true);
  CHECK_FALSE(ranks.watch.is_gathering());
  ranks.watch.gather([&is_new_done] { is_new_done = true; });
  REQUIRE(tests::run_until(ranks.io, [&is_new_done] { return is_new_done; }));
  CHECK_FALSE(is_old_done);
}

TEST_CASE("after a round, and before the next begins, no stop has anything to wait for") {
  const standing_process python(says::its_stack);
  watched ranks(patient(), {python.pid()});
  bool is_done = false;
  ranks.watch.begin(true);
  ranks.watch.gather([&is_done] { is_done = true; });
  CHECK(ranks.watch.is_gathering());
  ranks.watch.end();
  CHECK_FALSE(ranks.watch.is_gathering());
  CHECK_FALSE(ranks.watch.is_any_still());
  REQUIRE(tests::run_until(ranks.io, [&is_done] { return is_done; }));
}

TEST_CASE("ranks that say nothing are told of at their limit, and one that is stopped is named") {
  const standing_process first(says::nothing);
  const standing_process second(says::nothing);
  watched ranks(with_limit(500ms), {first.pid(), second.pid()});
  ranks.watch.begin(true);
  REQUIRE(tests::run_until(ranks.io, [&ranks] { return ranks.stood.has_value(); }));
  CHECK(ranks.stood->empty());
  CHECK_FALSE(ranks.named);
  REQUIRE(kill(second.pid(), SIGSTOP) == 0);
  ranks.watch.begin(true);
  REQUIRE(tests::run_until(ranks.io, [&ranks] { return ranks.named.has_value(); }));
  CHECK(ranks.named->rank == 1);
  CHECK_THAT(ranks.named->words, Catch::Matchers::EndsWith("rank 1 had been stopped (state T)"));
  // A daemon shows it, though no other node waits for its word.
  REQUIRE(tests::run_until(ranks.io, [&ranks] { return ranks.stalled.size() == 2; }));
  REQUIRE(ranks.stalled[1]);
  CHECK(ranks.stalled[1]->ranks.back().kind == stall_kind::stopped);
}

TEST_CASE("a rank that is stuck in the kernel is named, though it is in state D at each look") {
  const standing_process python(says::its_stack);
  const standing_process stuck(says::that_it_is_stuck);
  watched ranks(with_limit(500ms), {python.pid(), stuck.pid()});
  ranks.watch.begin(true);
  REQUIRE(tests::run_until(ranks.io, [&ranks] { return ranks.named.has_value(); }));
  CHECK(ranks.named->rank == 1);
  CHECK_THAT(ranks.named->words, Catch::Matchers::Contains("rank 1 waited in the kernel (state D"));
}

TEST_CASE("what a rank takes to answer is no move of it") {
  const tests::temporary_folder servers;
  const standing_process first(says::its_collectives, servers.path);
  const standing_process second(says::its_collectives, servers.path);
  watch_options options = with_limit(500ms);
  options.server_folder = servers.path;
  watched ranks(options, {first.pid(), second.pid()});
  ranks.watch.begin(true);
  REQUIRE(tests::run_until(ranks.io, [&ranks] { return ranks.named.has_value(); }));
  CHECK(ranks.named->rank == 0);
  const auto& seen = ranks.watch.gathered()->ranks;
  REQUIRE(seen.size() == 2);
  CHECK((seen[0].record && seen[1].record));
}

TEST_CASE("of two looks at a rank that has answered, the one that knows of it sees no move") {
  const tests::temporary_folder servers;
  const standing_process answers(says::its_collectives, servers.path);
  const std::map<pid_t, std::string> socket = {
      {answers.pid(), server_socket(servers.path, answers.pid())}};
  movement_question unaware;
  unaware.leaders = {answers.pid()};
  movement_question aware = unaware;
  aware.answerers = {answers.pid()};
  movement before;
  const auto until = std::chrono::steady_clock::now() + tests::patience;
  do {
    before = look_for_moves(aware, before);
    REQUIRE(ask_worker_servers(socket, false, tests::patience).size() == 1);
    // On a busy machine an answer may be spread over too long a time to be a move.
  } while (look_for_moves(unaware, before).moved.empty() &&
           std::chrono::steady_clock::now() < until);
  const movement seen = look_for_moves(aware, before);
  CHECK(seen.moved.empty());
  // And what was left out once is not left out again.
  CHECK(look_for_moves(aware, seen).answering == seen.answering);
}

TEST_CASE("a rank that is asked and computes moves all the same") {
  const standing_process computes(says::that_it_spins);
  movement_question asked;
  asked.leaders = {computes.pid()};
  asked.answerers = {computes.pid()};
  movement seen = look_for_moves(asked, {});
  const auto until = std::chrono::steady_clock::now() + tests::patience;
  do {
    std::this_thread::sleep_for(50ms);  // for the machine to let it compute
    seen = look_for_moves(asked, seen);
  } while (seen.moved.empty() && std::chrono::steady_clock::now() < until);
  CHECK(seen.moved.contains(computes.pid()));
}

TEST_CASE("in a round of several nodes it is said where ranks stand, and that one moves again") {
  const standing_process python(says::its_stack);
  const standing_process other(says::nothing);
  watched ranks(with_limit(500ms), {python.pid(), other.pid()});
  ranks.watch.begin(false);
  REQUIRE(tests::run_until(ranks.io, [&ranks] { return !ranks.stalled.empty(); }));
  REQUIRE(ranks.stalled[0]);
  CHECK(ranks.watch.is_stalled());
  CHECK(ranks.stalled[0]->age >= 500ms);
  const auto& seen = ranks.stalled[0]->ranks;
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].kind == stall_kind::unseen);
  CHECK(seen[0].first == 1);
  CHECK(seen[1] == stalled_ranks{0, 0, stall_kind::elsewhere, "stood in step (train.py:8)"});
  CHECK_FALSE(ranks.named);
  ++ranks.said_bytes;  // rank 1 prints something
  REQUIRE(tests::run_until(ranks.io, [&ranks] { return ranks.stalled.size() > 1; }));
  CHECK_FALSE(ranks.stalled[1]);
  CHECK_FALSE(ranks.watch.is_stalled());
}

TEST_CASE("that a rank has ended is a move of those that are left") {
  const standing_process python(says::its_stack);
  const standing_process other(says::nothing);
  watched ranks(with_limit(500ms), {python.pid(), other.pid()});
  ranks.watch.begin(false);
  REQUIRE(tests::run_until(ranks.io, [&ranks] { return ranks.stalled.size() == 1; }));
  ranks.pids.pop_back();
  REQUIRE(tests::run_until(ranks.io, [&ranks] { return ranks.stalled.size() == 3; }));
  CHECK_FALSE(ranks.stalled[1]);
  REQUIRE(ranks.stalled[2]);
  CHECK(ranks.stalled[2]->ranks.size() == 1);
}

std::chrono::nanoseconds processor_time_of(pid_t pid) {
  clockid_t clock{};
  timespec at{};
  REQUIRE(clock_getcpuclockid(pid, &clock) == 0);
  REQUIRE(clock_gettime(clock, &at) == 0);
  return std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec);
}

// What a process was given of a processor lately: one that wants it all and has got next to
// nothing, on a busy machine, cannot be told from one that stands still.
class recent_share {
 public:
  recent_share(pid_t pid, duration span) : pid_(pid), span_(span) {}

  // As often as can be.
  void look() {
    const auto now = std::chrono::steady_clock::now();
    looks_.emplace_back(now, processor_time_of(pid_));
    while (looks_.size() > 2 && looks_[1].first <= now - span_)
      looks_.pop_front();
  }
  // At least half a processor, over the span.
  bool is_fair() const { return looks_.back().second - looks_.front().second >= span_ / 2; }

 private:
  pid_t pid_;
  duration span_;
  std::deque<std::pair<std::chrono::steady_clock::time_point, std::chrono::nanoseconds>> looks_;
};

// Only NCCL could tell whether it waits, which would take seconds, and it may be healthy.
TEST_CASE("a rank that spins in one call makes no stop wait, one that stands still does") {
  const standing_process spinning(says::that_it_spins);
  const standing_process other(says::nothing);
  watch_options options = with_limit(1s);
  options.still_after = 2s;
  options.environment["NCCL_RAS_ADDR"] = "localhost:1";
  watched ranks(options, {spinning.pid(), other.pid()});
  ranks.watch.begin(true);
  REQUIRE(tests::run_until(ranks.io, [&ranks] { return ranks.watch.is_any_still(); }));
  ranks.newest_talks = true;
  ranks.watch.begin(true);
  bool was_still = false;
  recent_share given(spinning.pid(), options.still_after);
  const auto begun = processor_time_of(spinning.pid());
  REQUIRE(tests::run_until(
      ranks.io,
      [&] {
        given.look();
        if (ranks.watch.is_any_still()) {
          was_still = given.is_fair();
          if (!was_still) ranks.watch.begin(true);
        }
        // Measured by its own processor time, because on a busy machine everything takes longer.
        return was_still || processor_time_of(spinning.pid()) > begun + 5s;
      },
      1200s));
  CHECK_FALSE(was_still);
}

}  // namespace ddprun::launcher::evidence
