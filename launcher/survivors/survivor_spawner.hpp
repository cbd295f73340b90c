// The survivor_spawner lets workers live on from one round to the next. When a round is stopped
// because a worker failed, those that can are asked to leave it: they drop their process group,
// keep their process, their data and their CUDA context, and are given their part in the next round
// by a message. Only what has failed is started. For all else it is the spawner that it stands in
// front of.
//
// A worker that can connects to a Unix socket of packets in the abstract namespace, whose name is
// in DDPRUN_SURVIVORS, and says so:
//
//   worker -> here  stay             I can leave a round; answered with ok, else closed
//   here -> worker  leave            this round is over
//   worker -> here  left             I am in no group any more, and wait
//   here -> worker  round, a file    what changes in the environment: NAME=VALUE, or NAME for one
//                                    that goes, each ended by a zero byte
//   worker -> here  begun            I have taken it
//
// Only a process in the session of a worker is heard, and only one. One that does not leave in the
// time that may_stay() gives it is asked to end by SIGTERM, as it is where nobody may stay; one
// that does not begin within `begin_limit`, or hangs up while it waits, is killed.
//
// Thread rule, ownership: see spawner.hpp; the references must outlive it. Destroying it kills
// those that wait for a round, not the workers of one.
#pragma once

#include "launcher/process/guardian.hpp"
#include "launcher/process/spawner.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::survivors {

struct survivor_options {
  std::string address;  // of the socket, without the zero byte of the abstract namespace
  duration begin_limit = std::chrono::seconds(10);
};

class survivor_spawner final : public spawner {
 public:
  struct events {
    std::function<void(const std::string& line)> say;
    // It is killed for that.
    std::function<void(pid_t pid, const std::string& why)> hangs;
  };

  // Says why, if no worker can be heard.
  survivor_spawner(boost::asio::any_io_executor executor, spawner& inner, guardian& guard,
                   survivor_options options, events told);
  ~survivor_spawner() override;
  survivor_spawner(const survivor_spawner&) = delete;
  survivor_spawner& operator=(const survivor_spawner&) = delete;

  spawn_result spawn(const spawn_request& request, spawn_handlers handlers) override;
  bool adopt(pid_t pid, ended_handler ended) override;
  void signal_group(pid_t pid, int signal) override;
  void reap(pid_t pid) override;
  bool reap_within(pid_t pid, duration limit) override;
  std::vector<pid_t> living_groups(const std::vector<pid_t>& groups) override;
  bool owns(pid_t pid) const override;

  // The next SIGTERM to workers is for another round to come, and not for their end: those that can
  // have so long to leave this one. Until a round begins, or nobody_stays().
  void may_stay(duration leave_limit) { leave_limit_ = leave_limit; }
  void nobody_stays() { leave_limit_.reset(); }

  // Such a worker waits for a round.
  bool waits(pid_t pid) const;
  // A round begins: nobody has stayed for it yet, and nobody may for the next.
  void begin_round();
  // How many of the workers since then have stayed.
  std::uint32_t stayed() const { return stayed_; }

  // No round will come: those that wait for one are asked to end, and killed after `grace`. `done`,
  // once, when none of them is left; not from inside the call.
  void end_all(duration grace, std::function<void()> done);
  // At once.
  void kill_all();

 private:
  enum class stage {
    working,
    leaving,    // asked to
    waiting,    // for a round; its spawner's user holds it for ended
    beginning,  // it was given one
    ending,     // it waited, and is to end
  };
  struct member;
  using member_ptr = std::shared_ptr<member>;

  void listen();
  void await_caller();
  void take_callers();
  void await_word(const member_ptr& one);
  void take_word(member& one);
  void hung_up(member& one);
  void take_left(member& one);
  void take_begun(member& one);
  void limit(member& one, duration after, std::function<void(member&)> then);
  spawn_handlers handlers_of(const member_ptr& one);
  void child_ended(member& one, pid_t pid, exit_status status);
  std::optional<spawned_child> give(const spawn_request& request, const spawn_handlers& handlers);
  bool give_round(member& one, const spawn_request& request);
  void hush(member& one);
  void end(member& one, int signal = SIGKILL);
  void tell_if_all_ended();

  boost::asio::any_io_executor executor_;
  spawner& inner_;
  guardian& guardian_;
  survivor_options options_;
  events told_;
  boost::asio::posix::stream_descriptor listener_;
  std::map<pid_t, member_ptr> members_;
  std::optional<duration> leave_limit_;  // none: nobody may stay
  std::uint32_t stayed_ = 0;
  std::function<void()> all_ended_;  // none: nobody waits for that
  boost::asio::steady_timer end_timer_;
  lifetime alive_;
};

}  // namespace ddprun::launcher::survivors
