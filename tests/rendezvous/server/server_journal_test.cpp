// A whole daemon with a journal, and the daemon after it.
#include "rendezvous/journal/memory_journal.hpp"
#include "rendezvous/server/runs_json.hpp"
#include "tests/support/daemon_fixture.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using fixture = tests::daemon_fixture;
using tests::raw_peer;

namespace {

server::server_options with(std::shared_ptr<journal::memory> memory) {
  server::server_options options;
  options.daemon.open_journal = [memory](const net::executor& where, journal::handlers told,
                                         journal::open_failure&) {
    return std::make_unique<journal::memory_journal>(where, memory, std::move(told));
  };
  return options;
}

server::server_options without(bool is_taken) {
  server::server_options options;
  options.daemon.open_journal = [is_taken](const net::executor&, journal::handlers,
                                           journal::open_failure& failure) {
    failure = {"cannot open /x: No space left on device", is_taken};
    return std::unique_ptr<journal::journal>();
  };
  return options;
}

std::string numbered_hello_line(char number) {
  return R"({"type":"hello","protocol":4,"run_id":"r","session":")" + std::string(31, '0') +
         number + R"(","node":"n","settings":{"nodes_min":1,"nodes_max":1}})" + "\n";
}

const std::string get = " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

}  // namespace

TEST_CASE(
    "the first run of a daemon with a journal starts at once; one that was on is waited for") {
  const auto memory = std::make_shared<journal::memory>();
  {
    fixture f(with(memory), 10s);
    raw_peer one(f.io, f.port);
    one.say(numbered_hello_line('1'));
    REQUIRE(f.hears(one, R"("phase":"prepare")"));
    REQUIRE(memory->contains("r"));
  }
  // Workers of its round may be alive.
  memory->at("r").nodes = 1;
  fixture f(with(memory), 10s);
  raw_peer two(f.io, f.port);
  two.say(numbered_hello_line('2'));
  REQUIRE(f.hears(two, R"("phase":"wait")"));
  CHECK(f.hears(two, "the daemon has just started and waits"));
}

TEST_CASE("a journal that cannot be opened is done without, which everybody is told") {
  fixture f(without(false));
  REQUIRE_FALSE(f.log.empty());
  CHECK(f.log.front() ==
        "cannot open /x: No space left on device; decisions are kept in memory only, and are lost "
        "if this daemon ends: repair that, and start it again to persist them");
  raw_peer one(f.io, f.port);
  one.say(numbered_hello_line('1'));
  REQUIRE(f.hears(one, R"("phase":"prepare")"));
  raw_peer page(f.io, f.port);
  page.say("GET /healthz" + get);
  REQUIRE(f.closes(page));
  CHECK(page.heard().find(" 200 OK") != std::string::npos);
  CHECK(page.heard().find("ok, but kept in memory only: cannot open /x: No space left") !=
        std::string::npos);
  raw_peer runs(f.io, f.port);
  runs.say("GET " + std::string(server::runs_path) + get);
  REQUIRE(f.closes(runs));
  CHECK(runs.heard().find("kept in memory only, and lost with this daemon: cannot open /x") !=
        std::string::npos);
}

TEST_CASE("a daemon of a person's own does not start on the journal of another") {
  boost::asio::io_context io{1};
  server::server_options options = without(true);
  options.bind_address = "127.0.0.1";
  options.port = 0;
  options.journal_is_ours = true;
  server::server daemon(io.get_executor(), std::move(options));
  std::string problem;
  CHECK_FALSE(daemon.start(problem).has_value());
  CHECK(problem == "cannot open /x: No space left on device");
}

TEST_CASE("a loop that others live on does not wait for the journal of its daemon") {
  boost::asio::io_context io{1};
  const auto memory = std::make_shared<journal::memory>();
  const bool is_well = GENERATE(true, false);
  journal::opened_handler opened;
  server::server_options options;
  options.bind_address = "127.0.0.1";
  options.port = 0;
  options.daemon.recovery_window = 10s;
  options.daemon.window_without_journal = 0s;
  options.daemon.open_journal_in_background =
      [&](const net::executor& where, journal::handlers told, journal::opened_handler told_opened,
          journal::open_failure&) {
        opened = std::move(told_opened);
        return std::make_unique<journal::memory_journal>(where, memory, std::move(told));
      };
  server::server daemon(io.get_executor(), std::move(options));
  std::string problem;
  std::uint16_t port = 0;
  const error_code error =
      daemon.start_in_background(problem, [&](std::uint16_t serving) { port = serving; });
  INFO(problem);
  REQUIRE_FALSE(error);
  REQUIRE(opened);
  bool has_run = false;
  boost::asio::post(io, [&] { has_run = true; });
  tests::run_ready(io);
  CHECK(has_run);
  CHECK(port == 0);
  // The disk answers, or has not answered for too long.
  opened(is_well ? journal::open_failure{} : journal::open_failure{"no answer"});
  REQUIRE(port != 0);
  raw_peer one(io, port);
  one.say(numbered_hello_line('1'));
  REQUIRE(tests::run_until(
      io, [&] { return one.heard().find(R"("phase":"prepare")") != std::string::npos; }));
  CHECK(memory->contains("r") == is_well);
}
