// A GPU that waits for a rank that is lost, played by flags.
#include "worker/training/device_watch.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
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
    if (before_answer) before_answer();
    if (fails) throw std::runtime_error("CUDA error: unspecified launch failure");
    return done;
  }
  std::atomic<bool> done, fails{false};
  mutable std::atomic<int> looks{0};
  std::function<void()> before_answer;
};

// What the watch is given, and what became of it.
class device_under_test {
 public:
  std::atomic<bool> stop_has_come{false}, stop_throws{false};
  std::atomic<int> aborts{0};
  std::function<void()> in_abort, in_sign;
  std::string unsaid;            // why the other ranks cannot be told
  std::string said;              // to them; and the aborts
  std::uint64_t steps_done = 6;  // before this process

  worker::device_collectives collectives() {
    return {[this] {
              if (in_sign) in_sign();
              const std::lock_guard lock(mutex_);
              return sign_;
            },
            [this](std::uint64_t step) {
              said += "aborts in " + std::to_string(step) + ";";
              return unsaid;
            },
            [this] {
              if (in_abort) in_abort();
              said += "abort;";
              ++aborts;
            }};
  }
  void lose(const std::string& sign) {
    const std::lock_guard lock(mutex_);
    sign_ = sign;
  }
  void begin_step() { watch.begin_step(++steps_done, collectives()); }
  void make_step() {
    begin_step();
    CHECK(watch.wait_for(flag(true)).empty());
    watch.end_step(std::make_shared<flag>(true));
  }

 private:
  std::mutex mutex_;
  std::string sign_;

 public:
  device_watch watch{1h, [this] {
                       if (stop_throws) throw std::runtime_error("no such stop");
                       return stop_has_come.load();
                     }};  // it uses all of the others
};

TEST_CASE("a step whose gradients are reduced goes on", "[training]") {
  device_under_test device;
  device.make_step();
  flag gradients;
  device.begin_step();
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
  device.begin_step();
  flag gradients;
  // The abort lets the kernels run that wait behind the collective.
  device.in_abort = [&] { gradients.done = true; };
  device.lose("nccl has lost another rank");
  CHECK(device.watch.wait_for(gradients) == "nccl has lost another rank");
  CHECK(device.watch.end(patience).empty());
  CHECK(device.aborts == 1);
  // No step is made with what the aborted collective has left.
  device.begin_step();
  CHECK(device.watch.wait_for(flag(true)) == "nccl has lost another rank");
  CHECK(device.aborts == 1);
}

TEST_CASE("a thread that is blocked before it waits is helped, too", "[training]") {
  device_under_test device;
  device.make_step();
  std::promise<void> aborted;
  device.in_abort = [&] { aborted.set_value(); };
  device.begin_step();
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
  device.begin_step();
  CHECK(device.watch.wait_for(flag()) == "nccl has lost another rank");
}

TEST_CASE("a last step that is not done before the abort is not whole", "[training]") {
  device_under_test device;
  device.make_step();
  device.begin_step();
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

// An abort may spoil the step that is under way on other ranks, and none that this rank has whole.
TEST_CASE("the other ranks hear which step an abort may spoil before it begins", "[training]") {
  const auto phase = GENERATE(std::string("in a step"), std::string("between steps"),
                              std::string("before the update"), std::string("not whole"));
  device_under_test device;
  device.make_step();
  const auto last = std::make_shared<flag>(phase != "not whole");
  device.watch.end_step(last);
  if (phase == "in a step" || phase == "not whole") {
    device.begin_step();
    device.lose("nccl has lost another rank");
    CHECK_FALSE(device.watch.wait_for(flag()).empty());
  } else if (phase == "before the update") {
    device.begin_step();
    CHECK(device.watch.wait_for(flag(true)).empty());
  }
  CHECK(device.watch.end(patience).empty() == (phase != "not whole"));
  CHECK(device.said == (phase == "not whole" ? "aborts in 7;abort;" : "aborts in 8;abort;"));
}

TEST_CASE("a rank that cannot say that it aborts does not", "[training]") {
  device_under_test device;
  device.make_step();
  device.unsaid = "the store is gone";
  device.begin_step();
  device.lose("nccl has lost another rank");
  CHECK(device.watch.wait_for(flag()) == "nccl has lost another rank");
  CHECK(device.watch.end(patience) ==
        "its collectives on the GPU were not ended, because the other ranks could not be told of "
        "that: the store is gone");
  CHECK(device.aborts == 0);
}

TEST_CASE("what cannot be asked is a sign of a loss", "[training]") {
  device_under_test device;
  device.make_step();
  const bool is_stop = GENERATE(false, true);
  device.in_sign = [is_stop] {
    if (!is_stop) throw std::runtime_error("no such communicator");
  };
  device.stop_throws = is_stop;
  device.begin_step();
  CHECK(
      device.watch.wait_for(flag()) ==
      (is_stop ? "1 s after SIGTERM the GPU still waits for other ranks" : "no such communicator"));
}

// The query may be blocked for as long as the abort takes, or report what comes of it.
TEST_CASE("a wait that finds a rank lost asks the device no more", "[training]") {
  device_under_test device;
  device.make_step();
  std::promise<void> aborted;
  device.in_abort = [&] { aborted.set_value(); };
  device.begin_step();
  flag gradients;
  gradients.before_answer = [&] {
    device.lose("nccl has lost another rank");
    aborted.get_future().wait();
    gradients.fails = true;
  };
  CHECK(device.watch.wait_for(gradients) == "nccl has lost another rank");
  CHECK(gradients.looks == 1);
  CHECK(device.watch.wait_for(gradients) == "nccl has lost another rank");
  CHECK(gradients.looks == 1);
}

TEST_CASE("an abort that hangs delays nothing else", "[training]") {
  std::promise<void> may_end;
  const auto ended = std::make_shared<std::promise<void>>();
  {
    device_watch watch(1h, [] { return false; });
    watch.begin_step(1, {[] { return std::string(); }, nullptr,
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
  device.begin_step();
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
