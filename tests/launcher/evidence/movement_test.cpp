// What counts as a move between two looks at a process, in plain values.
#include "launcher/evidence/movement.hpp"

#include "tests/support/catch.hpp"

#include <optional>

namespace ddprun::launcher::evidence {
namespace {

constexpr unsigned long long ticks_that_count = 5;
constexpr unsigned long long some_bytes = 64 * 1024;

process_usage sleeping(unsigned long long ticks = 100, unsigned long long bytes = 1000) {
  return {'S', ticks, bytes, {}};
}

// In state D since it went to sleep for the 40th time.
process_usage in_kernel(std::optional<unsigned long long> sleeps = 40) {
  return {'D', 100, 1000, kernel_wait{"rpc_wait_bit_killable", sleeps}};
}

move between(const process_usage& before, const process_usage& now) {
  return move_between(before, now, ticks_that_count);
}

}  // namespace

TEST_CASE("a process moves that is new, reads or writes, or uses the processor") {
  CHECK(move_between(std::nullopt, sleeping(), ticks_that_count) == move::other);
  CHECK(between(sleeping(), sleeping()) == move::none);
  CHECK(between(sleeping(), sleeping(104, 1000 + some_bytes - 1)) == move::none);
  CHECK(between(sleeping(), sleeping(105)) == move::computed);
  CHECK(between(sleeping(), sleeping(105, 1000 + some_bytes)) == move::other);
}

TEST_CASE("a wait in the kernel is a move when it begins, and none while it lasts") {
  CHECK(between(sleeping(), in_kernel()) == move::other);
  CHECK(between(in_kernel(), in_kernel()) == move::none);
  CHECK(between(in_kernel(), sleeping()) == move::none);
  process_usage busy = in_kernel();
  busy.ticks += ticks_that_count;  // its other threads
  CHECK(between(in_kernel(), busy) == move::computed);
  busy.bytes += some_bytes;
  CHECK(between(in_kernel(), busy) == move::other);
}

TEST_CASE("one that waits for a slow disk again and again moves") {
  CHECK(between(in_kernel(40), in_kernel(41)) == move::other);
  process_usage elsewhere = in_kernel();
  elsewhere.waits->channel = "folio_wait_bit_common";
  CHECK(between(in_kernel(), elsewhere) == move::other);
}

TEST_CASE("where sleeps are not counted, a single byte shows that a wait is another one") {
  const process_usage first = in_kernel(std::nullopt);
  process_usage second = first;
  CHECK(between(first, second) == move::none);
  second.bytes += 1;
  CHECK(between(first, second) == move::other);
  CHECK(between(in_kernel(40), in_kernel(std::nullopt)) == move::other);
}

}  // namespace ddprun::launcher::evidence
