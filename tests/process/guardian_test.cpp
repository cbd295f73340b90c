// An agent dies of SIGKILL: none of its workers or their children may live on.
#include "tests/support/catch.hpp"
#include "tests/support/child_program.hpp"
#include "tests/support/effort.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <netinet/in.h>
#include <sys/socket.h>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds generous = tests::patience;

// A worker with a child in its group; both ignore every signal that can be ignored.
const char* const stubborn =
    "trap '' TERM INT HUP; sh -c \"trap '' TERM INT HUP; sleep 1000\" & echo child $!; wait";

// A running agent with two such workers.
struct guarded_agent {
  explicit guarded_agent(std::vector<std::string> options = {}) : program(words(options)) {
    const bool guarded =
        std::find(options.begin(), options.end(), "--no-guardian") == options.end();
    if (guarded) guardian = program.number_after("guardian");
    // The lines of workers and agent come in any order.
    while (processes.size() < 4) {
      const std::string line = program.line();
      if (line.starts_with("worker ") || line.starts_with("child ")) {
        processes.emplace_back(std::atoi(line.c_str() + line.find(' ') + 1));
      }
    }
  }

  static std::vector<std::string> words(const std::vector<std::string>& options) {
    std::vector<std::string> all = {"test_agent"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {stubborn, stubborn});
    return all;
  }

  // Milliseconds until all four are dead.
  double wait_for_death() {
    const auto begin = clock::now();
    for (const auto& process : processes)
      REQUIRE(process.gone_within(generous));
    return std::chrono::duration<double, std::milli>(clock::now() - begin).count();
  }

  child_program program;
  pid_t guardian = -1;
  std::vector<process_watch> processes;
};

// A port that the system picks, on which no process listens yet.
struct silent_listener {
  silent_listener() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port = ntohs(address.sin_port);
  }

  void listen() const { REQUIRE(::listen(fd.get(), 4) == 0); }

  bool has_caller(std::chrono::milliseconds limit) const {
    pollfd entry{fd.get(), POLLIN, 0};
    return ::poll(&entry, 1, static_cast<int>(limit.count())) == 1;
  }

  // Accepts a connection, and resets it without reading.
  void break_next() const {
    REQUIRE(has_caller(generous));
    const unique_fd peer(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const linger at_once{1, 0};
    ::setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }

  std::string receive() const {
    REQUIRE(has_caller(generous));
    const unique_fd peer(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::string text;
    char chunk[256];
    ssize_t count;
    while ((count = ::read(peer.get(), chunk, sizeof(chunk))) > 0) {
      text.append(chunk, static_cast<std::size_t>(count));
    }
    return text;
  }

  unique_fd fd;
  std::uint16_t port = 0;
};

struct listener : silent_listener {
  listener() { listen(); }
};

}  // namespace

TEST_CASE("an agent killed by SIGKILL takes workers and their children with it, each time") {
  std::vector<double> times;
  const std::size_t rounds = tests::cases_to_take(50, 15).size();
  while (times.size() < rounds) {
    guarded_agent agent;
    agent.program.kill(SIGKILL);
    times.push_back(agent.wait_for_death());
    const process_watch guardian(agent.guardian);
    REQUIRE(guardian.gone_within(generous));
  }
  std::sort(times.begin(), times.end());
  std::printf("agent killed -> 4 processes gone: median %.2f ms, worst of %zu %.2f ms\n",
              times[rounds / 2], rounds, times.back());
}

TEST_CASE("a worker's child that has left its group and session dies with the agent, too") {
  const listener daemon;
  const char* const escaping =
      "(trap '' TERM INT HUP; setsid sh -c 'echo escaped $$; exec sleep 1000' &); wait; sleep 1000";
  child_program agent({"test_agent", "--tell", "127.0.0.1", std::to_string(daemon.port),
                       "dead: a\n", escaping, escaping});
  agent.number_after("guardian");
  std::vector<process_watch> escaped;
  while (escaped.size() < 2) {
    const std::string line = agent.line();
    if (line.starts_with("escaped ")) escaped.emplace_back(std::atoi(line.c_str() + 8));
  }
  // A process whose session only looks similar is left alone.
  child_program other({"sh", "-c", "DDPRUN_SESSION=test- exec sleep 1000"});
  agent.kill(SIGKILL);
  CHECK(daemon.receive() == "dead: a\n");
  for (const auto& process : escaped)
    CHECK(process.gone_within(std::chrono::seconds(0)));
  CHECK(agent.error_line() ==
        "ddprun guardian: the agent died; killed 2 worker process groups and 2 processes that had "
        "left them");
  other.kill(SIGKILL);
}

TEST_CASE("without a guardian the workers die with the agent by their death signal") {
  guarded_agent agent({"--no-guardian"});
  // Workers and children came in any order; the workers are the session leaders.
  std::vector<const process_watch*> workers;
  for (const auto& process : agent.processes) {
    if (::getsid(process.pid()) == process.pid()) workers.push_back(&process);
  }
  REQUIRE(workers.size() == 2);
  agent.program.kill(SIGKILL);
  for (const auto* worker : workers)
    CHECK(worker->gone_within(generous));
  // Their children still live, which the guardian has to end.
  for (const auto* worker : workers)
    CHECK(::kill(-worker->pid(), SIGKILL) == 0);
}

TEST_CASE("a guardian that was killed is started again, says so, and still guards") {
  guarded_agent agent;
  for (int time = 0; time < 3; ++time) {
    const process_watch before(agent.guardian);
    ::kill(agent.guardian, SIGKILL);
    CHECK(agent.program.error_line() ==
          "the guardian ended (killed by SIGKILL); starting it again");
    REQUIRE(before.gone_within(generous));
    agent.guardian = agent.program.number_after("guardian");
  }
  agent.program.kill(SIGKILL);
  agent.wait_for_death();
}

TEST_CASE("the word to the daemon comes after the last worker is dead") {
  const listener daemon;
  guarded_agent agent({"--tell", "127.0.0.1", std::to_string(daemon.port), "dead: a\n"});
  agent.program.kill(SIGKILL);
  CHECK(daemon.receive() == "dead: a\n");
  for (const auto& process : agent.processes)
    CHECK(process.gone_within(std::chrono::seconds(0)));
}

TEST_CASE("the word is said again until the daemon has taken it") {
  // First no process listens on the port; then a peer breaks the connection; then the daemon is
  // there.
  const silent_listener daemon;
  guarded_agent agent({"--tell", "127.0.0.1", std::to_string(daemon.port), "dead: a\n"});
  const process_watch guardian(agent.guardian);
  agent.program.kill(SIGKILL);
  agent.wait_for_death();
  CHECK(agent.program.error_line().starts_with("ddprun guardian: the agent died"));
  daemon.listen();
  daemon.break_next();
  CHECK(daemon.receive() == "dead: a\n");
  CHECK(guardian.gone_within(generous));
  CHECK(!daemon.has_caller(std::chrono::milliseconds(0)));
}

TEST_CASE("where a daemon that is gone has no successor, a refused word is soon given up") {
  const silent_listener nobody;
  const std::string at = std::to_string(nobody.port);
  guarded_agent patient({"--tell", "127.0.0.1", at, "dead: a\n"});
  guarded_agent brief({"--tell", "127.0.0.1", at, "dead: b\n", "--unless-refused"});
  const process_watch one_of_patient(patient.guardian);
  const process_watch one_of_brief(brief.guardian);
  patient.program.kill(SIGKILL);
  brief.program.kill(SIGKILL);
  CHECK(one_of_brief.gone_within(generous));
  CHECK(!one_of_patient.gone_within(std::chrono::seconds(0)));
  patient.wait_for_death();
  brief.wait_for_death();
  ::kill(patient.guardian, SIGKILL);
}

TEST_CASE("a word that the daemon's end has broken off is said again, though one may be refused") {
  const listener daemon;
  guarded_agent agent(
      {"--tell", "127.0.0.1", std::to_string(daemon.port), "dead: a\n", "--unless-refused"});
  const process_watch guardian(agent.guardian);
  agent.program.kill(SIGKILL);
  daemon.break_next();
  CHECK(daemon.receive() == "dead: a\n");
  CHECK(guardian.gone_within(generous));
}

TEST_CASE("an agent that ends in order reports no death, and leaves no guardian") {
  const listener daemon;
  child_program agent(
      {"test_agent", "--tell", "127.0.0.1", std::to_string(daemon.port), "dead: a\n", "exit 3"});
  const process_watch guardian(agent.number_after("guardian"));
  agent.rest();
  CHECK(WEXITSTATUS(agent.wait()) == 3);
  CHECK(guardian.gone_within(generous));  // the agent waits for it, but not for ever
  CHECK(!daemon.has_caller(std::chrono::milliseconds(0)));
}

TEST_CASE("a daemon that does not answer holds the guardian up for a bounded time") {
  // A full backlog: the connection is never accepted, the bytes are never read.
  const listener daemon;
  guarded_agent agent({"--tell", "127.0.0.1", std::to_string(daemon.port), "dead: a\n"});
  const process_watch guardian(agent.guardian);
  const auto begin = clock::now();
  agent.program.kill(SIGKILL);
  const double workers_ms = agent.wait_for_death();
  REQUIRE(guardian.gone_within(generous));
  const std::chrono::duration<double> whole = clock::now() - begin;
  std::printf("silent daemon: workers gone after %.2f ms, guardian after %.2f s\n", workers_ms,
              whole.count());
}

TEST_CASE("a stopped guardian does not hold up the agent's end") {
  child_program agent({"test_agent", "echo here; read line < /dev/zero"});
  const pid_t guardian = agent.number_after("guardian");
  const process_watch watch(guardian);
  while (agent.line() != "here") {
  }
  ::kill(guardian, SIGSTOP);
  agent.kill(SIGTERM);
  const bool gone = watch.gone_within(generous);
  ::kill(guardian, SIGKILL);
  REQUIRE(gone);
  CHECK(WEXITSTATUS(agent.wait()) == 128 + SIGKILL);
}

TEST_CASE("a guardian that is signalled politely, at any moment of its life, goes on guarding") {
  for (int time = 0; time < 20; ++time) {
    guarded_agent agent;
    // The first guardian may not have run an instruction of its own yet; the second is executed
    // again.
    const bool again = time % 2 == 1;
    if (again) {
      ::kill(agent.guardian, SIGKILL);
      agent.guardian = agent.program.number_after("guardian");
    }
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGUSR1}) {
      ::kill(agent.guardian, signal);
    }
    agent.program.kill(SIGKILL);
    agent.wait_for_death();
  }
}
