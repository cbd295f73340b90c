// Batches that are loaded ahead are the same, in the same order, with any number of threads.
#include "worker/training/data_loader.hpp"

#include "tests/support/catch.hpp"

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

std::string batch_of(std::uint64_t epoch, sample_span samples) {
  std::string text = "epoch " + std::to_string(epoch) + ":";
  for (const std::size_t sample : samples)
    text += " " + std::to_string(sample);
  return text;
}

// An epoch of `count` passes of two samples each: 0 1, 2 3, ...
struct epoch_of_passes {
  explicit epoch_of_passes(std::size_t count) {
    for (std::size_t sample = 0; sample < 2 * count; ++sample)
      samples.push_back(sample);
    for (std::size_t at = 0; at < count; ++at)
      passes.push_back(sample_span(samples).subspan(2 * at, 2));
  }
  std::vector<std::size_t> samples;
  std::vector<sample_span> passes;
};

std::string failure_of(data_loader<std::string>& loader, std::uint64_t epoch, sample_span samples) {
  try {
    return "taken: " + loader.take(epoch, samples);
  } catch (const loading_error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("batches come in the order of the passes with any number of workers", "[training]") {
  const std::size_t workers = GENERATE(0u, 1u, 3u);
  data_loader<std::string> loader(batch_of, {workers, 2});
  const epoch_of_passes all(20);
  for (const std::uint64_t epoch : {1, 2}) {
    // As after a resume, start in the middle.
    const auto left = std::span(all.passes).subspan(epoch == 1 ? 7 : 0);
    loader.begin(epoch, left);
    for (const auto& pass : left)
      CHECK(loader.take(epoch, pass) == batch_of(epoch, pass));
  }
}

TEST_CASE("a batch that is loaded before an earlier one waits for it", "[training]") {
  std::promise<void> later_is_loaded;
  auto is_later_loaded = later_is_loaded.get_future().share();
  const epoch_of_passes all(2);
  data_loader<std::string> loader(
      [&](std::uint64_t epoch, sample_span samples) {
        if (samples[0] == 0) is_later_loaded.wait();
        if (samples[0] == 2) later_is_loaded.set_value();
        return batch_of(epoch, samples);
      },
      {2, 1});
  loader.begin(1, all.passes);
  for (const auto& pass : all.passes)
    CHECK(loader.take(1, pass) == batch_of(1, pass));
}

TEST_CASE("no more batches are loaded ahead than was asked for", "[training]") {
  constexpr std::size_t workers = 2, prefetch_factor = 3;
  std::atomic<std::size_t> taken{0}, too_early{0};
  const epoch_of_passes all(50);
  data_loader<std::string> loader(
      [&](std::uint64_t epoch, sample_span samples) {
        if (samples[0] / 2 >= taken + workers * prefetch_factor) ++too_early;
        return batch_of(epoch, samples);
      },
      {workers, prefetch_factor});
  loader.begin(1, all.passes);
  for (const auto& pass : all.passes) {
    ++taken;
    CHECK(loader.take(1, pass) == batch_of(1, pass));
  }
  CHECK(too_early == 0);
}

TEST_CASE("what a data set throws is one line, when its batch is taken", "[training]") {
  const std::size_t workers = GENERATE(0u, 2u);
  const epoch_of_passes all(4);
  data_loader<std::string> loader(
      [&](std::uint64_t epoch, sample_span samples) -> std::string {
        if (samples[0] == 2)
          throw std::runtime_error("no such picture\nException raised from f at g.cpp");
        if (samples[0] == 4) throw 7;
        if (samples.size() > 2) throw std::runtime_error("too many");
        return batch_of(epoch, samples);
      },
      {workers, 2});
  loader.begin(3, all.passes);
  CHECK(loader.take(3, all.passes[0]) == batch_of(3, all.passes[0]));
  CHECK(failure_of(loader, 3, all.passes[1]) ==
        "cannot load samples 2, 3 of epoch 3: no such picture");
  CHECK(failure_of(loader, 3, all.passes[2]) ==
        "cannot load samples 4, 5 of epoch 3: an exception that is not a std::exception");
  CHECK(loader.take(3, all.passes[3]) == batch_of(3, all.passes[3]));
  CHECK(failure_of(loader, 3, all.samples) ==
        "cannot load samples 0, 1, 2, 3 and 4 more of epoch 3: too many");
  CHECK(failure_of(loader, 3, sample_span(all.samples).subspan(2, 1)) ==
        "cannot load sample 2 of epoch 3: no such picture");
}

TEST_CASE("an epoch may be left while its batches are loaded", "[training]") {
  std::promise<void> is_loading, may_load;
  auto allowed = may_load.get_future().share();
  std::atomic<bool> is_first{true};
  data_loader<std::string> loader(
      [&](std::uint64_t epoch, sample_span samples) {
        if (is_first.exchange(false)) {
          is_loading.set_value();
          allowed.wait();
        }
        return batch_of(epoch, samples);
      },
      {1, 2});
  auto left = std::make_unique<epoch_of_passes>(5);
  loader.begin(1, left->passes);
  is_loading.get_future().wait();
  left.reset();  // a worker is still reading its samples
  const epoch_of_passes next(3);
  loader.begin(2, next.passes);
  may_load.set_value();
  for (const auto& pass : next.passes)
    CHECK(loader.take(2, pass) == batch_of(2, pass));
}

TEST_CASE("no thread of a loader is left behind it", "[training]") {
  std::promise<void> is_loading;
  std::atomic<std::size_t> under_way{0};
  std::atomic<bool> is_told{false};
  {
    const epoch_of_passes all(9);
    data_loader<std::string> loader(
        [&](std::uint64_t epoch, sample_span samples) {
          ++under_way;
          if (!is_told.exchange(true)) is_loading.set_value();
          auto made = batch_of(epoch, samples);
          --under_way;
          return made;
        },
        {2, 2});
    loader.begin(1, all.passes);
    is_loading.get_future().wait();
  }
  CHECK(under_way == 0);
}

TEST_CASE("a batch that is not ahead is loaded where it is asked for", "[training]") {
  std::thread::id loaded_by;
  data_loader<std::string> loader(
      [&](std::uint64_t epoch, sample_span samples) {
        if (epoch == 9) loaded_by = std::this_thread::get_id();
        return batch_of(epoch, samples);
      },
      {1, 2});
  const epoch_of_passes all(4);
  CHECK(loader.take(9, all.passes[2]) == batch_of(9, all.passes[2]));  // no epoch has begun
  CHECK(loaded_by == std::this_thread::get_id());
  loader.begin(1, all.passes);
  CHECK(loader.take(9, all.passes[0]) == batch_of(9, all.passes[0]));
  CHECK(loader.take(1, all.passes[0]) == batch_of(1, all.passes[0]));
  // A pass that is not taken is dropped when a later one is.
  CHECK(loader.take(1, all.passes[2]) == batch_of(1, all.passes[2]));
  CHECK(loader.take(1, all.passes[1]) == batch_of(1, all.passes[1]));
  CHECK(loader.take(1, all.passes[3]) == batch_of(1, all.passes[3]));
}

TEST_CASE("a signal never interrupts a worker that loads", "[training]") {
  data_loader<bool> loader(
      [](std::uint64_t, sample_span) {
        sigset_t blocked;
        ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
        return ::sigismember(&blocked, SIGTERM) == 1;
      },
      {1, 1});
  const epoch_of_passes all(1);
  loader.begin(1, all.passes);
  CHECK(loader.take(1, all.passes[0]));
  CHECK_FALSE(loader.take(2, all.passes[0]));  // loaded on this thread
}

TEST_CASE("a loader that may load nothing ahead is refused", "[training]") {
  CHECK_THROWS_WITH(data_loader<std::string>(batch_of, {1, 0}),
                    "data loader: prefetch_factor must be at least 1");
}

}  // namespace ddprun::tests
