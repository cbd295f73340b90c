// A data loader that runs out of memory, or gets no thread: the program gets an exception, and no
// thread is left.
#include "tests/no_memory/without_memory.hpp"
#include "tests/support/patience.hpp"
#include "worker/training/data_loader.hpp"

#include <chrono>
#include <cstddef>
#include <dirent.h>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace ddprun::worker;
using ddprun::tests::fail_each_allocation;
using ddprun::tests::failing_allocations;

namespace {

constexpr std::size_t workers = 3;

std::size_t threads_now() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/task"), ::closedir);
  std::size_t count = 0;
  while (const dirent* each = ::readdir(folder.get()))
    count += each->d_name[0] != '.';
  return count;
}

// The kernel lists a thread for a moment after it is joined.
bool is_alone() {
  const auto limit = std::chrono::steady_clock::now() + ddprun::tests::patience;
  while (threads_now() != 1 && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  return threads_now() == 1;
}

int zero(std::uint64_t, sample_span) {
  return 0;
}

// What `make` throws; "": nothing.
template <typename Make>
std::string text_of(Make make) {
  try {
    make();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// As long as this object lives, new threads need a larger stack than there are addresses.
class no_room_for_stacks {
 public:
  no_room_for_stacks() {
    ::pthread_getattr_default_np(&usual_);
    pthread_attr_t larger;
    ::pthread_getattr_default_np(&larger);
    ::pthread_attr_setstacksize(&larger, std::size_t{1} << 48);
    ::pthread_setattr_default_np(&larger);
    ::pthread_attr_destroy(&larger);
  }
  ~no_room_for_stacks() {
    ::pthread_setattr_default_np(&usual_);
    ::pthread_attr_destroy(&usual_);
  }
  no_room_for_stacks(const no_room_for_stacks&) = delete;
  no_room_for_stacks& operator=(const no_room_for_stacks&) = delete;

 private:
  pthread_attr_t usual_;
};

}  // namespace

TEST_CASE("memory that ends while a loader is made is an exception, and no thread is left") {
  const std::size_t count = GENERATE(std::size_t{1}, failing_allocations::all);
  const data_loader<int>::load_function load = zero;
  std::size_t told = 0;
  fail_each_allocation(count, [&](std::size_t before) {
    std::optional<data_loader<int>> loader;
    std::optional<failing_allocations> failing(std::in_place, before, count);
    const std::string text = text_of([&] {
      loader.emplace(load, data_loader_options{workers, 1});
    });
    const bool has_failed = failing->any();
    failing.reset();
    CAPTURE(text);
    REQUIRE(loader.has_value() == !has_failed);
    if (!loader) REQUIRE(is_alone());
    // Before the threads are started, a failure is a plain std::bad_alloc.
    if (text.starts_with("cannot start a thread for worker ")) {
      ++told;
      REQUIRE(text.find(" of 3 of a data loader: Cannot allocate memory; this host") !=
              std::string::npos);
    } else if (has_failed) {
      REQUIRE(text == "std::bad_alloc");
    }
    return has_failed;
  });
  // If only one allocation fails, there is memory for the line.
  if (count == 1) REQUIRE(told >= workers);
}

TEST_CASE("a loader that gets no thread says so in one line") {
  const no_room_for_stacks none;
  const std::string text = text_of([&] { data_loader<int>(zero, {workers, 1}); });
  REQUIRE(text.starts_with("cannot start a thread for worker 1 of 3 of a data loader: "));
  REQUIRE(text.find("; look at the limit of processes") != std::string::npos);
  REQUIRE(text.find('\n') == std::string::npos);
  REQUIRE(is_alone());
}

TEST_CASE("more workers than any memory has room for are refused in one line") {
  const std::string text = text_of([&] { data_loader<int>(zero, {~std::size_t{0} / 2, 1}); });
  REQUIRE(text.starts_with("cannot start a thread for worker 1 of "));
}

TEST_CASE("memory that ends on a loader's own thread is an exception where its batch is taken") {
  const std::size_t count = GENERATE(std::size_t{1}, failing_allocations::all);
  const std::vector<std::size_t> samples{1, 2};
  const std::vector<sample_span> passes{sample_span(samples).subspan(0, 1),
                                        sample_span(samples).subspan(1, 1)};
  std::size_t told = 0;
  fail_each_allocation(count, [&](std::size_t before) {
    // Both are used only on the single worker.
    std::optional<failing_allocations> failing;
    bool has_failed = false;
    data_loader<int> loader(
        [&](std::uint64_t, sample_span picked) -> int {
          if (picked[0] == 2) {
            has_failed = failing->any();
            failing.reset();
            return 2;
          }
          failing.emplace(before, count);
          const std::unique_ptr<int> batch(new int(1));
          throw std::runtime_error("no such picture");
        },
        {1, 2});
    loader.begin(1, passes);
    const std::string text = text_of([&] { (void)loader.take(1, passes[0]); });
    REQUIRE(loader.take(1, passes[1]) == 2);  // which is loaded after it
    CAPTURE(text, has_failed);
    if (!has_failed) {
      REQUIRE(text == "cannot load sample 1 of epoch 1: no such picture");
    } else if (text == "cannot load sample 1 of epoch 1: there is no memory left") {
      ++told;
    } else {
      REQUIRE(text == "std::bad_alloc");
    }
    return has_failed;
  });
  if (count == 1) REQUIRE(told >= 1);
}
