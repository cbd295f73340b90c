// A GPU that waits for a rank that is lost, played by flags.
#include "worker/training/device_watch.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"

#include <atomic>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace ddprun::tests {
namespace {

using namespace std::chrono_literals;
using worker::device_watch;

struct flag final : worker::device_event {
  explicit flag(bool done = false) : done(done) {}
  bool is_done() const override {
    ++looks;
    if (fails) throw std::runtime_error("CUDA error: unspecified launch failure");
    return done;
  }
  std::atomic<bool> done, fails{false};
  mutable std::atomic<int> looks{0};
};

// What the watch is given, and what became of it.
class device_under_test {
 public:
  std::atomic<bool> stop_has_come{false};
  std::atomic<int> aborts{0};
  std::function<void()> in_abort;

  worker::device_collectives collectives() {
    return {[this] {
              const std::lock_guard lock(mutex_);
              return sign_;
            },
            [this] {
              if (in_abort) in_abort();
              ++aborts;
            }};
  }
  void lose(const std::string& sign) {
    const std::lock_guard lock(mutex_);
    sign_ = sign;
  }
  void make_step() {
    watch.begin_step(collectives());
    CHECK(watch.wait_for(flag(true)).empty());
    watch.end_step(std::make_shared<flag>(true));
  }

 private:
  std::mutex mutex_;
  std::string sign_;

 public:
  device_watch watch{1h, [this] { return stop_has_come.load(); }};  // it uses all of the others
};

TEST_CASE("a step whose gradients are reduced goes on", "[training]") {
  device_under_test device;
  device.make_step();
  flag gradients;
  device.watch.begin_step(device.collectives());
  auto waited = std::async(std::launch::async, [&] { return device.watch.wait_for(gradients); });
  while (gradients.looks < 3)
    std::this_thread::yield();
  gradients.done = true;
  CHECK(waited.get().empty());
  CHECK(device.aborts == 0);
}

TEST_CASE("a wait for a lost rank ends, and the last step is whole", "[training]") {
  device_under_test device;
  device.make_step();
  device.watch.begin_step(device.collectives());
  flag gradients;
  // The abort lets the kernels run that wait behind the collective.
  device.in_abort = [&] { gradients.done = true; };
  device.lose("nccl has lost another rank");
  CHECK(device.watch.wait_for(gradients) == "nccl has lost another rank");
  CHECK(device.watch.end(patience).empty());
  CHECK(device.aborts == 1);
  // No step is made with what the aborted collective has left.
  device.watch.begin_step(device.collectives());
  CHECK(device.watch.wait_for(flag(true)) == "nccl has lost another rank");
  CHECK(device.aborts == 1);
}

TEST_CASE("a thread that is blocked before it waits is helped, too", "[training]") {
  device_under_test device;
  device.make_step();
  std::promise<void> aborted;
  device.in_abort = [&] { aborted.set_value(); };
  device.watch.begin_step(device.collectives());
  device.lose("nccl has lost another rank");
  aborted.get_future().wait();  // as by a kernel for which the GPU has no room
  CHECK(device.watch.wait_for(flag(true)) == "nccl has lost another rank");
  CHECK(device.watch.end(patience).empty());
}

TEST_CASE("a loss that another call has found aborts the collectives, too", "[training]") {
  device_under_test device;
  device.make_step();
  CHECK(device.watch.end(patience).empty());
  CHECK(device.aborts == 1);
  CHECK(device.watch.end(patience).empty());
  CHECK(device.aborts == 1);
}

TEST_CASE("a rank that was lost between two steps ends the next one", "[training]") {
  device_under_test device;
  device.make_step();
  device.lose("nccl has lost another rank");
  device.watch.begin_step(device.collectives());
  CHECK(device.watch.wait_for(flag()) == "nccl has lost another rank");
}

TEST_CASE("a last step that is not done before the abort is not whole", "[training]") {
  device_under_test device;
  device.make_step();
  device.watch.begin_step(device.collectives());
  CHECK(device.watch.wait_for(flag(true)).empty());
  const auto step = std::make_shared<flag>();
  const bool fails = GENERATE(false, true);
  step->fails = fails;
  // Done by the abort: with what the collective has left.
  device.in_abort = [&] { step->done = true; };
  device.watch.end_step(step);
  CHECK(device.watch.end(patience) ==
        (fails ? "CUDA error: unspecified launch failure"
               : "when a rank was lost, the GPU had not done all of it"));
  CHECK(device.aborts == 1);
}

TEST_CASE("an abort that hangs delays nothing else", "[training]") {
  std::promise<void> may_end;
  const auto ended = std::make_shared<std::promise<void>>();
  {
    device_watch watch(1h, [] { return false; });
    watch.begin_step({[] { return std::string(); },
                      [end = may_end.get_future().share(), ended] {
                        end.wait();
                        ended->set_value();
                      }});
    CHECK(watch.end(10ms) == "the collectives on the GPU could not be ended within 10 ms");
  }
  may_end.set_value();
  ended->get_future().wait();
}

TEST_CASE("what a device reports goes through the wait", "[training]") {
  device_under_test device;
  device.watch.begin_step(device.collectives());
  flag gradients;
  gradients.fails = true;
  CHECK_THROWS_WITH(device.watch.wait_for(gradients), "CUDA error: unspecified launch failure");
}

TEST_CASE("a wait for what is done in time, and for what is not", "[training]") {
  CHECK(worker::wait_until_done(flag(true), 0ms));
  CHECK_FALSE(worker::wait_until_done(flag(), 1ms));
}

}  // namespace
}  // namespace ddprun::tests
