#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/core/messages/settings_table.hpp"
#include "rendezvous/core/messages/validation.hpp"
#include "tests/support/catch.hpp"

using namespace std::chrono_literals;

TEST_CASE("a session is written as 32 hexadecimal digits") {
  CHECK(to_string(ddprun::session_id{1, 0xabcdef}) == "00000000000000010000000000abcdef");
}

TEST_CASE("a leader's data are what a line can carry without an escape") {
  CHECK(ddprun::core::is_opaque_data(" !#[]~"));
  for (const char* const bytes : {"\x1f", "\x7f", "\"", "\\", "\xc3\xa4"})
    CHECK_FALSE(ddprun::core::is_opaque_data(bytes));
}

TEST_CASE("each field of the timers has its row, and follows into range") {
  for (const ddprun::timer_row& row : ddprun::timer_table) {
    ddprun::run_settings here;
    ddprun::run_settings there;
    there.timing.*row.field += 1s;
    if (row.is_of_first) {
      CHECK_FALSE(first_difference(here, there));
      CHECK(agree(here, there));
    } else {
      REQUIRE(first_difference(here, there));
      CHECK(first_difference(here, there)->name == row.name);
      CHECK_FALSE(agree(here, there));
    }
    ddprun::timers taken = there.timing;
    take_from_first(taken, here.timing);
    CHECK((taken == here.timing) == row.is_of_first);
    there.timing.*row.field = ddprun::timer_max + 1s;
    CHECK(problem_of(there).starts_with(std::string(row.name) + " is 2592001 s, and may be "));
  }
  CHECK(ddprun::timer_table.size() * sizeof(ddprun::duration) == sizeof(ddprun::timers));
  CHECK(ddprun::timers_for(ddprun::timers().node_timeout) == ddprun::timers());
  CHECK(problem_of(ddprun::timers_for(1ms)).empty());
  CHECK(problem_of(ddprun::timers_for(ddprun::timer_max)).empty());
}

TEST_CASE("each setting is compared and checked") {
  ddprun::for_each_setting([](const auto& row) {
    ddprun::run_settings here;
    ddprun::run_settings there;
    if constexpr (requires { row.max_field; }) {
      there.*row.max_field = row.max + 1;
      CHECK(problem_of(there) ==
            "nnodes is 1:1000001, and may be MIN:MAX with 1 to MAX and 1 to 1000000");
    } else if constexpr (requires { row.counted; }) {
      there.*row.field = row.max + 1;
      CHECK(problem_of(there) == std::string(row.words.name) + " is " + value_text(row, there) +
                                     ", and may be 0 to " + std::to_string(row.max));
    } else {
      there.*row.field = row.last;
      CHECK(problem_of(there).empty());
    }
    REQUIRE(first_difference(here, there));
    CHECK(first_difference(here, there)->name == row.words.name);
  });
}

TEST_CASE("settings name the first difference") {
  ddprun::run_settings here;
  ddprun::run_settings there;
  CHECK_FALSE(first_difference(here, there));
  const auto is_first = [&](const std::string& name, const std::string& one,
                            const std::string& other) {
    const auto found = first_difference(here, there);
    return found && found->name == name && found->one == one && found->other == other;
  };
  there.nodes_max = 4;
  CHECK(is_first("nnodes", "1:1", "1:4"));
  there = here;
  there.timing.settle = 250ms;
  CHECK(is_first("settle", "0.5", "0.25"));
}

TEST_CASE("timers follow from the node timeout") {
  const ddprun::timers quick = ddprun::timers_for(3s);
  CHECK(quick.heartbeat_interval == 300ms);
  CHECK(quick.isolation_limit == 2400ms);
  CHECK(quick.recovery_window == 3s);
  CHECK(ddprun::timers_for(60s).heartbeat_interval == 1s);
}
