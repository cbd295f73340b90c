#include "launcher/hosts/ssh/start_rules.hpp"

#include "tests/support/catch.hpp"

#include <set>

using namespace ddprun;
using namespace ddprun::launcher::ssh;
using namespace std::chrono_literals;

namespace {

const time_point start_moment{};
const std::string dropped_words_seen =
    "kex_exchange_identification: Connection closed by remote host";
using numbers = std::vector<std::size_t>;

start_rules rules_of(std::size_t hosts, std::size_t least) {
  return start_rules({hosts, least, 60s, 7}, start_moment);
}

}  // namespace

TEST_CASE("at most 64 hosts are connected to at once, in the order of the list") {
  start_rules rules = rules_of(100, 100);
  const numbers first = rules.take_next(start_moment);
  REQUIRE(first.size() == connecting_max);
  CHECK(first.front() == 0);
  CHECK(first.back() == 63);
  CHECK(rules.take_next(start_moment).empty());
  rules.agent_runs(5);
  rules.agent_runs(6);
  CHECK(rules.take_next(start_moment) == numbers{64, 65});
}

TEST_CASE("a connection that was dropped is tried again after a pause that grows") {
  start_rules rules = rules_of(1, 1);
  time_point now = start_moment;
  duration last{};
  for (int drops = 0; drops < 4; ++drops) {
    REQUIRE(rules.take_next(now) == numbers{0});
    REQUIRE(rules.connection_failed(0, dropped_words_seen, now));
    const auto again = rules.next_deadline();
    REQUIRE(again);
    CHECK(*again - now >= first_pause / 2 * (1 << drops));
    CHECK(*again - now <= first_pause * (1 << drops));
    CHECK(rules.take_next(*again - 1ms).empty());
    last = *again - now;
    now = *again;
  }
  CHECK(last > first_pause);
}

TEST_CASE("hosts that were dropped together do not come back together") {
  start_rules rules = rules_of(32, 32);
  rules.take_next(start_moment);
  std::set<time_point> moments;
  for (std::size_t host = 0; host < 32; ++host)
    rules.connection_failed(host, dropped_words_seen, start_moment);
  for (auto due = rules.next_deadline(); due && moments.size() < 32; due = rules.next_deadline()) {
    moments.insert(*due);
    if (rules.take_next(*due).empty()) break;
  }
  CHECK(moments.size() > 20);
}

TEST_CASE("only a connection that was dropped is tried again") {
  for (const char* const words :
       {"root@10.0.0.2: Permission denied (publickey).", "Host key verification failed.",
        "ssh: Could not resolve hostname node-b: Name or service not known",
        "ssh: connect to host node-b port 22: No route to host",
        "ssh: connect to host node-b port 22: Connection refused",
        "Received disconnect from 10.0.0.2 port 22:2: Too many authentication failures\n"
        "Connection closed by 10.0.0.2 port 22"}) {
    start_rules rules = rules_of(2, 1);
    rules.take_next(start_moment);
    CHECK_FALSE(rules.connection_failed(1, words, start_moment));
    CHECK(rules.stage_of(1) == stage::failed);
    CHECK_FALSE(rules.has_too_few());
  }
  CHECK(is_dropped("ssh_exchange_identification: read: Connection reset by peer"));
  CHECK(is_dropped("Connection closed by UNKNOWN port 65535"));
}

TEST_CASE("a host that does not run in time has failed, whatever it waits for") {
  start_rules rules = rules_of(3, 2);
  rules.take_next(start_moment);
  rules.agent_runs(0);
  rules.connection_failed(1, dropped_words_seen, start_moment);
  CHECK(rules.take_late(start_moment + 59s).empty());
  CHECK(rules.take_late(start_moment + 60s) == numbers{1, 2});
  CHECK(rules.take_next(start_moment + 61s).empty());
  CHECK_FALSE(rules.next_deadline());
  CHECK(rules.has_too_few());
  CHECK_FALSE(rules.is_over());
  rules.agent_ended(0);
  CHECK(rules.is_over());
}

TEST_CASE("no pause goes beyond the last moment") {
  start_rules rules = rules_of(1, 1);
  rules.take_next(start_moment);
  CHECK_FALSE(rules.connection_failed(0, dropped_words_seen, start_moment + 59s + 999ms));
  CHECK(rules.stage_of(0) == stage::failed);
}

TEST_CASE("where hosts come and go, a run is neither short of them nor over") {
  start_rules rules({0, 2, 60s, 7, true, 4}, start_moment);
  CHECK_FALSE(rules.has_too_few());
  CHECK_FALSE(rules.is_over());
  CHECK_FALSE(rules.next_deadline());
  rules.add();
  CHECK(rules.take_next(start_moment + 3600s).empty());  // it is not admitted yet
  rules.admit(0, start_moment + 1h);
  CHECK(rules.next_deadline() == start_moment + 1h);
  CHECK(rules.take_next(start_moment + 1h) == numbers{0});
  CHECK(rules.next_deadline() == start_moment + 1h + 60s);  // its time has begun
  CHECK(rules.take_late(start_moment + 1h + 60s) == numbers{0});
  rules.close();
  CHECK(rules.is_over());
}

TEST_CASE("no more hosts than the run may have are connected to, and the others are not late") {
  start_rules rules({3, 1, 60s, 7, true, 2}, start_moment);
  CHECK(rules.take_next(start_moment) == numbers{0, 1});
  rules.agent_runs(0);
  rules.agent_runs(1);
  CHECK_FALSE(rules.next_deadline());
  CHECK(rules.take_late(start_moment + 1h).empty());
  rules.agent_ended(0);
  CHECK(rules.take_next(start_moment + 1h) == numbers{2});
  CHECK(rules.take_late(start_moment + 1h + 59s).empty());
}

TEST_CASE("one exit code for all") {
  const auto over = [](int code) { return agent_end{code, core::leave_reason::run_over}; };
  const agent_end drained{143, core::leave_reason::drained};
  const agent_end refused{78, core::leave_reason::refused};
  const agent_end unmet{69, core::leave_reason::unmet};
  CHECK(exit_code_of({{over(0), over(0)}, {}, {}}) == 0);
  CHECK(exit_code_of({{over(3), over(3)}, {}, {}}) == 3);
  CHECK(exit_code_of({{over(9), over(3), over(3)}, {}, {}}) == 3);
  CHECK(exit_code_of({{refused, over(0), over(0)}, {}, {}}) == 0);  // one was left out
  CHECK(exit_code_of({{refused, unmet, over(3)}, {}, {}}) == 3);
  CHECK(exit_code_of({{refused}, {}, {}}) == 78);
  CHECK(exit_code_of({{drained, refused}, {}, {}}) == 78);
  CHECK(exit_code_of({{drained, over(7)}, {}, {}}) == 7);  // one was ended by hand
  CHECK(exit_code_of({{drained, drained, over(0)}, {}, {}}) == 0);
  CHECK(exit_code_of({{drained}, {}, {}}) == 143);
  CHECK(exit_code_of({{agent_end{0, core::leave_reason::drained}, over(3)}, {}, {}}) == 3);
  CHECK(exit_code_of({{drained, over(143)}, {}, {}}) == 143);
  CHECK(exit_code_of({{over(78)}, {}, {}}) == 78);  // a run may fail with any code
  CHECK(exit_code_of({{}, {}, {}}) == 69);          // all were lost
  CHECK(exit_code_of({{over(0)}, 2, {}}) == 2);     // one could not begin
  CHECK(exit_code_of({{over(0)}, 0, {}}) == 69);
  CHECK(exit_code_of({{over(0), over(130)}, 69, 2}) == 130);
}

TEST_CASE(
    "a node that was drained says nothing of the run, and one that fails with its code does") {
  const agent_end drained{143, core::leave_reason::drained};
  CHECK_FALSE(is_decided({}));
  CHECK_FALSE(is_decided({{drained, drained}, {}, {}}));
  CHECK(is_decided({{drained, agent_end{0, core::leave_reason::run_over}}, {}, {}}));
  CHECK(is_decided({{agent_end{143, core::leave_reason::run_over}}, {}, {}}));
}
