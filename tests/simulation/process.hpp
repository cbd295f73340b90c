// Simulated hosts and the processes on them. A host has power or not, and runs or stands still. A
// process lives on one host, and has a clock, an inbox for what arrives while it stands still, and
// one timer. Its subclasses (agent, daemon, guardian) define what it does.
//
// Ownership: the world owns hosts and processes, and keeps dead ones until it ends, so that
// pointers stay valid.
#pragma once

#include "tests/simulation/timeline.hpp"
#include "tests/simulation/transport.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddprun::simulation {

class world;
struct connection;
using host_id = std::uint32_t;

struct host {
  host_id id = 0;
  std::string name;
  std::string address;
  bool powered = true;
  bool standing_still = false;  // the whole machine, as a paused VM
  bool clock_stands_still = false;
  std::optional<moment> clock_went_on_at;  // when it last did, after standing still
  moment still_since{};
  std::uint64_t boots = 1;
  std::uint16_t port_next = 30000;
  std::uint32_t island = 0;                     // hosts of different islands hear nothing
  local_clock clock{duration::zero(), 0};       // hands out its rate and base to its processes
  std::vector<std::function<void()>> deferred;  // of its workers, while it stands still
};

class process {
 public:
  process(world& in, host& on);
  virtual ~process() = default;
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  bool alive() const { return alive_; }
  bool standing_still() const { return stopped_ || host_.standing_still; }
  host& where() { return host_; }
  time_point local_now() const;

  // Runs `what` in this process: now, or when it runs again, or never if it dies before that.
  void post(std::function<void()> what);

  // SIGSTOP and SIGCONT, and the same for the whole host.
  void stand_still();
  void continue_after_stop();
  void host_stands_still();
  void go_on();
  // When it last ran again after standing still; none if it never stood still.
  std::optional<moment> went_on_at() const { return went_on_at_; }

  // The process has ended, for whatever reason; the network deals with its sockets.
  virtual void die();

  // Events from the network. `end` is this process's side of the connection.
  virtual void on_accepted(connection& from, int end, std::uint16_t port) = 0;
  virtual void on_dialed(std::uint64_t dial, connection& to, int end) = 0;
  virtual void on_dial_failed(std::uint64_t dial, const std::string& text) = 0;
  virtual void on_message(connection& from, int end, const payload& message) = 0;
  virtual void on_closed(connection& from, int end, const std::string& text) = 0;
  // What it does or waits for, in words.
  virtual std::string why() const = 0;

  std::unordered_map<std::uint64_t, std::shared_ptr<connection>> connections;
  moment heard_by_daemon{};  // when a daemon read its newest message
  // Set when a daemon read a message from it that came after orphan_limit of silence.
  std::optional<moment> orphan_until;

 protected:
  virtual void on_wake() = 0;
  virtual void on_late(duration by) = 0;
  void wake_at(std::optional<time_point> deadline);

  world& world_;
  host& host_;

 private:
  void timer_fired(std::uint64_t timer);

  bool alive_ = true;
  bool stopped_ = false;
  bool draining_ = false;
  std::optional<moment> still_since_;
  std::optional<moment> went_on_at_;
  std::deque<std::function<void()>> inbox_;
  std::optional<time_point> deadline_;
  std::optional<moment> armed_;
  std::uint64_t timer_ = 0;
  std::uint64_t wakes_at_one_moment_ = 0;
  moment last_wake_{};
};

}  // namespace ddprun::simulation
