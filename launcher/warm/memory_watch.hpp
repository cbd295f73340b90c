// A memory_watch says when memory gets short, so that what only waits can be ended before a worker
// needs its pages, and when there is room again.
//
// Memory is short where less is left than memory_reserve(), of the machine or below the limit of a
// cgroup, or where all processes there wait for memory a tenth of the time. It has room again when
// twice the reserve and what is asked for has been left for a while; each time that it was not
// enough after all, the while doubles.
//
// It looks once a second, more often when little is left, and not at all when nothing is wanted of
// it.
//
// Thread rule: the main thread; events come on the executor, never from inside a call, and may
// destroy the watch. `read` is called on another thread: it may wait where memory is short.
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

// Bytes that must be left of so many: a twentieth, at least 64 MiB and at most 1 GiB.
std::uint64_t memory_reserve(std::uint64_t most);

// "80 MiB of 2.0 GiB are left in cgroup /sys/fs/cgroup/job"; empty: memory is not short.
std::string shortage_of(const memory_levels& levels);

bool have_room_for(const memory_levels& levels, std::uint64_t bytes);

class memory_watch {
 public:
  struct options {
    std::function<memory_levels()> read;  // empty: nothing is known
    std::chrono::milliseconds pause{1000};
    std::chrono::milliseconds pause_near{250};  // when little more than the reserve is left
    std::chrono::milliseconds rest{10'000};     // so long there must have been room
    std::chrono::milliseconds rest_max{600'000};
  };
  struct events {
    std::function<bool()> is_wanted;  // whether there is what could be ended
    std::function<void(const std::string& why)> is_short;
    std::function<void()> has_room;
  };

  memory_watch(boost::asio::any_io_executor executor, options values, events handlers);
  memory_watch(const memory_watch&) = delete;
  memory_watch& operator=(const memory_watch&) = delete;

  // There is what could be ended.
  void start();

  // Memory is short, whoever has found that: the next event is that there is room for so much.
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
  std::uint64_t needed_ = 0;  // where it is short
  std::chrono::milliseconds rest_{0};
  std::optional<time_point> room_since_;
  lifetime alive_;
};

}  // namespace ddprun::launcher::warm
