#include "rendezvous/log/own_line.hpp"

#include "tests/support/catch.hpp"

#include <cstdlib>
#include <time.h>

using namespace ddprun;
using namespace ddprun::log;

namespace {

// Sets the time zone for one test.
struct in_zone {
  explicit in_zone(const char* name) {
    ::setenv("TZ", name, 1);
    ::tzset();
  }
  ~in_zone() {
    ::unsetenv("TZ");
    ::tzset();
  }
};

constexpr timespec moment{1'795'556'585, 412'999'999};  // 2026-11-24 21:43:05 UTC

}  // namespace

TEST_CASE("the time of a line, with its zone") {
  {
    const in_zone zone("ABC-1");
    CHECK(time_text(time_style::iso, moment) == "2026-11-24T22:43:05.412+01:00");
    CHECK(time_text(time_style::time, moment) == "22:43:05.412");
    CHECK(time_text(time_style::none, moment).empty());
  }
  const in_zone west("ABC+3:30");
  CHECK(time_text(time_style::iso, moment) == "2026-11-24T18:13:05.412-03:30");
}

TEST_CASE("a line as JSON is one line, whatever is in it") {
  const in_zone zone("UTC");
  CHECK(json_line({"p", "", ""}, time_style::time, {1, 5'000'000}, note_level::error, 0,
                  "bad \xff and \x1b[31m\"") ==
        "{\"time\":\"1970-01-01T00:00:01.005+00:00\",\"level\":\"error\",\"program\":\"p\","
        "\"message\":\"bad \xef\xbf\xbd and \\u001b[31m\\\"\"}\n");
  CHECK(json_line({}, time_style::none, {}, note_level::debug, 2, "a\n\n  | b\nc") ==
        "{\"level\":\"debug\",\"round\":2,\"message\":\"a\",\"lines\":[\"\",\"b\",\"c\"]}\n");
}
