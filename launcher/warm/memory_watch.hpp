// A memory_watch reports when memory gets short, so that idle processes can be ended before a
// worker needs their pages, and when there is room again.
//
// Memory is short if less than memory_reserve() is left, on the machine or below the limit of a
// cgroup, or if all processes there stall on memory for a tenth of the time. There is room again
// when twice the reserve and the requested amount have been left for a while; each time that this
// was too optimistic, the while doubles.
//
// It looks once per second, more often if little is left, and not at all if there is nothing to
// end.
//
// Thread rule: the main thread; events come from the executor, never from inside a call, and may
// destroy the watch. `read` is called on another thread, because it may block while memory is
// short.
#pragma once

#include "launcher/base/memory_gauge.hpp"
#include "launcher/process/background_task.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/base/time.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::warm {

using memory_levels = std::vector<memory_level>;

// The bytes that must be left of `most`: a twentieth, at least 64 MiB and at most 1 GiB.
std::uint64_t memory_reserve(std::uint64_t most);

// "80 MiB of 2.0 GiB are left in cgroup /sys/fs/cgroup/job"; empty: memory is not short.
std::string shortage_of(const memory_levels& levels);

bool have_room_for(const memory_levels& levels, std::uint64_t bytes);

class memory_watch {
 public:
  struct options {
    std::function<memory_levels()> read;  // empty: the levels are unknown
    std::chrono::milliseconds pause{1000};
    std::chrono::milliseconds pause_near{250};  // if little more than the reserve is left
    std::chrono::milliseconds rest{10'000};     // how long there must have been room
    std::chrono::milliseconds rest_max{600'000};
  };
  struct events {
    std::function<bool()> is_wanted;  // true if there are processes to end
    std::function<void(const std::string& why)> is_short;
    std::function<void()> has_room;
  };

  memory_watch(boost::asio::any_io_executor executor, options values, events handlers);
  memory_watch(const memory_watch&) = delete;
  memory_watch& operator=(const memory_watch&) = delete;

  // There are processes that could be ended.
  void start();

  // Memory is short, as this watch or anyone else has found: the next event is that there is room
  // for `bytes`.
  void await_room_for(std::uint64_t bytes);

  bool is_short() const { return is_short_; }

 private:
  void look();
  void look_later(std::chrono::milliseconds pause);
  void judge(const memory_levels& levels);

  options options_;
  events handlers_;
  boost::asio::steady_timer timer_;
  background_task<memory_levels> reading_;
  bool is_looking_ = false;
  bool is_short_ = false;
  std::uint64_t needed_ = 0;  // while is_short_
  std::chrono::milliseconds rest_{0};
  std::optional<time_point> room_since_;
  lifetime alive_;
};

}  // namespace ddprun::launcher::warm
