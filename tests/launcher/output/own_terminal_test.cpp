#include "launcher/output/own_terminal.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher;

TEST_CASE("rank 0 has the person's terminal, as wide as its lines are, and no file gets that") {
  constexpr terminal_size own{24, 80};
  log_route route;
  const auto of = [&](pty_mode mode, std::uint32_t rank) {
    return terminal_of_worker(mode, rank, route, own);
  };
  CHECK(of(pty_mode::automatic, 0) == own);
  CHECK_FALSE(of(pty_mode::automatic, 1));
  CHECK_FALSE(of(pty_mode::off, 0));
  CHECK_FALSE(terminal_of_worker(pty_mode::automatic, 0, route, {}));
  route.prefix = "[node-a:0] ";
  CHECK(of(pty_mode::automatic, 0) == terminal_size{24, 69});
  route.file = "stdout.log";
  CHECK_FALSE(of(pty_mode::automatic, 0));
  route.file.clear();
  route.is_shown = false;
  CHECK_FALSE(of(pty_mode::automatic, 0));
}

TEST_CASE("a terminal that does not say its width, or has less than the prefix, is left as it is") {
  CHECK(beside_prefix({24, 0}, "[a:0] ") == terminal_size{24, 0});
  CHECK(beside_prefix({24, 6}, "[a:0] ") == terminal_size{24, 6});
  CHECK(beside_prefix({24, 7}, "[a:0] ") == terminal_size{24, 1});
}
