// The survivor_spawner lets workers survive from one round to the next. When a round is stopped
// because a worker failed, those that can are asked to leave it: they destroy their process group,
// keep their process, their data and their CUDA context, and get their assignment in the next round
// by a message. Only failed workers are started again. All else is passed to the inner spawner.
//
// A worker that can leave a round connects to a SOCK_SEQPACKET Unix socket in the abstract
// namespace, whose name is in DDPRUN_SURVIVORS:
//
//   worker -> here  stay             I can leave a round; answered with ok, or closed
//   here -> worker  leave            this round is over
//   worker -> here  left             my process group is destroyed, and I wait
//   here -> worker  round, a file    the changes of the environment: NAME=VALUE, or NAME for one
//                                    that is removed, each ended by a zero byte
//   worker -> here  begun            I have read it
//
// Only a process in a worker's session may connect, and only one per worker. A worker that does not
// leave within the time of may_stay() gets SIGTERM, as it does if none may stay. A worker that does
// not begin within `begin_limit`, or closes its connection while it waits, is killed.
//
// Thread rule, ownership: see spawner.hpp; the references must outlive it. Destroying it kills the
// workers that wait for a round, but not those of a running round.
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
  std::string address;  // of the socket, without the leading zero byte of the abstract namespace
  duration begin_limit = std::chrono::seconds(10);
};

class survivor_spawner final : public spawner {
 public:
  struct events {
    std::function<void(const std::string& line)> say;
    // The worker is killed because it hangs.
    std::function<void(pid_t pid, const std::string& why)> hangs;
  };

  // Prints the reason if workers cannot connect.
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

  // The next SIGTERM to workers is for a restart: those that can stay have this long to leave their
  // round. It holds until a round begins, or nobody_stays().
  void may_stay(duration leave_limit) { leave_limit_ = leave_limit; }
  void nobody_stays() { leave_limit_.reset(); }

  // True if the worker has left its round and waits for the next.
  bool waits(pid_t pid) const;
  // A round begins: resets stayed() and may_stay().
  void begin_round();
  // How many workers have survived into the round that began last.
  std::uint32_t stayed() const { return stayed_; }

  // No further round will come: waiting workers get SIGTERM, and SIGKILL after `grace`. Calls
  // `done` once, when none is left; not from inside the call.
  void end_all(duration grace, std::function<void()> done);
  // Kills the waiting workers at once.
  void kill_all();

 private:
  enum class stage {
    working,
    leaving,    // was asked to leave
    waiting,    // for a round; for its worker_group it has ended
    beginning,  // was given a round
    ending,     // has waited, and has to end
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
  std::optional<duration> leave_limit_;  // none: workers may not stay
  std::uint32_t stayed_ = 0;
  std::function<void()> all_ended_;  // none: no caller waits for that
  boost::asio::steady_timer end_timer_;
  lifetime alive_;
};

}  // namespace ddprun::launcher::survivors
