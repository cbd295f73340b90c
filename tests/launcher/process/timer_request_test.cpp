#include "launcher/process/timer_request.hpp"

#include "tests/support/catch.hpp"

#include <random>

using namespace ddprun::launcher::workers;

namespace {

constexpr std::string_view acquired =
    R"({"version": 1, "pid": 4711, "scope_id": "train.py#12", "expiration_time": 1764037000.5, )"
    R"("signal": 9})";

}  // namespace

TEST_CASE("a timer's request is what PyTorch's client writes") {
  const auto request = read_timer_request(acquired);
  REQUIRE(request);
  CHECK(request->process == 4711);
  CHECK(request->scope == "train.py#12");
  CHECK(request->expires_at == 1764037000.5);
  CHECK(request->signal == 9);
  const auto released = read_timer_request(
      R"({"version": 1, "pid": 1, "scope_id": "\u00e4", "expiration_time": -1, "signal": 0})");
  REQUIRE(released);
  CHECK(released->scope == "ä");
  CHECK(released->expires_at < 0);
  // From PyTorch's documentation: "a negative or zero signal will not kill the process".
  CHECK(read_timer_request(R"({"pid":1,"scope_id":"","expiration_time":1,"signal":-9})")->signal ==
        0);
}

TEST_CASE("what sets no timer is no request") {
  for (const char* const line :
       {"", "{", "[]", "3", "{}", "\xff", R"({"pid":1,"scope_id":"a","expiration_time":1})",
        R"({"pid":"1","scope_id":"a","expiration_time":1,"signal":9})",
        R"({"pid":1.5,"scope_id":"a","expiration_time":1,"signal":9})",
        R"({"pid":1,"scope_id":7,"expiration_time":1,"signal":9})",
        R"({"pid":1,"scope_id":"a","expiration_time":"1","signal":9})",
        R"({"pid":1,"scope_id":"a","expiration_time":Infinity,"signal":9})",
        R"({"pid":1,"scope_id":"a","expiration_time":1,"signal":true})",
        // These would be signals to groups, or to all processes.
        R"({"pid":0,"scope_id":"a","expiration_time":1,"signal":9})",
        R"({"pid":-1,"scope_id":"a","expiration_time":1,"signal":9})",
        R"({"pid":4294967297,"scope_id":"a","expiration_time":1,"signal":9})",
        R"({"pid":1,"scope_id":"a","expiration_time":1,"signal":65})"}) {
    INFO(line);
    CHECK_FALSE(read_timer_request(line));
  }
}

TEST_CASE("requests are found however their bytes come") {
  std::string bytes;
  for (int number = 0; number < 50; ++number)
    bytes += std::string(acquired) + "\n";
  std::minstd_rand random(7);
  timer_stream stream;
  std::size_t found = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = 1 + random() % 200;
    const auto heard = stream.read(std::string_view(bytes).substr(at, size));
    CHECK(heard.problem.empty());
    found += heard.requests.size();
    at += size;
  }
  CHECK(found == 50);
}

TEST_CASE("a line that is too long is left out up to its end, and no other") {
  const std::string line = std::string(acquired) + "\n";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{4000}, std::size_t{100'000}}) {
    const std::string bytes =
        line + std::string(timer_stream::line_bytes_max + 1, 'x') + "\n" + line;
    timer_stream stream;
    std::size_t found = 0;
    std::string problems;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      const auto heard = stream.read(std::string_view(bytes).substr(at, piece));
      found += heard.requests.size();
      problems += heard.problem;
    }
    CHECK(found == 2);
    CHECK(problems == "a line of more than 4096 bytes");
  }
  // The longest line that the client writes.
  std::string longest(acquired);
  longest.insert(longest.find("train"), timer_stream::line_bytes_max - longest.size(), 's');
  timer_stream stream;
  CHECK(stream.read(longest + "\n").requests.size() == 1);
}

TEST_CASE("garbage is shown as far as it is fit to be") {
  timer_stream stream;
  const auto heard = stream.read("a\tb\x01\xff\n" + std::string(acquired) + "\nmore garbage\n");
  CHECK(heard.problem == "a line that sets no timer: a b \ufffd");
  CHECK(heard.requests.size() == 1);
  CHECK(stream.read(std::string(100, 'x') + "\n").problem ==
        "a line that sets no timer: " + std::string(60, 'x') + "...");
}
