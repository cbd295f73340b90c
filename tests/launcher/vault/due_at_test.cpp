#include "launcher/vault/due_at.hpp"

#include "tests/support/catch.hpp"

#include <cstdint>

using namespace std::chrono_literals;
using ddprun::launcher::vault::due_at;

TEST_CASE("a copy goes on when it has taken as long as its rate allows", "[vault]") {
  const auto begun = std::chrono::steady_clock::time_point() + 5s;
  CHECK(due_at(begun, 0, 1000) == begun);
  CHECK(due_at(begun, 1500, 1000) == begun + 1500ms);
  CHECK(due_at(begun, std::uint64_t{1} << 62, 0) == begun);
}

TEST_CASE("a rate so low that no clock can name its end does not make a copy fast", "[vault]") {
  const auto begun = std::chrono::steady_clock::time_point() + 5s;
  CHECK(due_at(begun, 20'000'000'000, 1) > begun + 24h);
}
