// The command of --on-event hears each event, and the end of the agent waits for it.
#include "launcher/agent/event_listeners.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/process_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <memory>
#include <string>

using namespace ddprun;
using namespace ddprun::launcher;

TEST_CASE("the command hears each event, and the end waits for the last one") {
  const tests::temporary_folder folder;
  process_fixture fixture;
  hook_options options;
  options.name = "--on-event";
  options.command = "cat >> " + folder.path + "/heard";
  options.environment = process_fixture::environment();
  options.limit = test_limit;
  event_listeners listeners("job1", "a",
                            std::make_unique<hook_runner>(
                                fixture.io.get_executor(), fixture.spawn, *fixture.mux, nullptr,
                                std::move(options), [](const std::string& line) { FAIL(line); }),
                            nullptr);
  run_event event;
  event.kind = run_event_kind::round_started;
  event.round = 1;
  listeners.tell(event);
  event.kind = run_event_kind::ended;
  listeners.tell(event);
  const auto heard = [&] { return tests::content_of(folder.path + "/heard"); };
  fixture.run_until([&] { return heard().find("\"ended\"") != std::string::npos; });
  CHECK(heard().find("\"round_started\"") < heard().find("\"ended\""));
  CHECK(heard().find("\"job1\"") != std::string::npos);
  listeners.tell(event);
  bool is_over = false;
  listeners.finish([&] { is_over = true; });
  CHECK_FALSE(is_over);
  fixture.run_until([&] { return is_over; });
}

TEST_CASE("without a listener the end waits for nothing") {
  event_listeners listeners("job1", "a", nullptr, nullptr);
  listeners.tell({});
  bool is_over = false;
  listeners.finish([&] { is_over = true; });
  CHECK(is_over);
}
