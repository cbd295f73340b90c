// Runs a user's command by /bin/sh -c, once for each call: one at a time and in order. Nothing
// waits for it, except the end of the agent, for a limited time.
//
// It is not a worker: it has no session mark and is in no cgroup of ours. Processes that it leaves
// in its process group are killed when it ends; at the agent's death the guardian kills the group.
//
// Thread rule: the main thread; `say` and `done` are called from the executor, `say` also from
// inside a call. Errors: one line each, by `say`.
#pragma once

#include "launcher/log/log_mux.hpp"
#include "launcher/log/output_tail.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/hook_queue.hpp"
#include "launcher/process/spawner.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/base/time.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

struct hook_options {
  std::string name;     // in messages, "--on-event"
  std::string command;  // for /bin/sh -c
  std::vector<std::string> environment;
  std::string prefix;  // of its output, which goes to standard error
  duration limit = std::chrono::seconds(30);
  std::size_t waiting_max = 16;
};

class hook_runner {
 public:
  using say_handler = std::function<void(const std::string& line)>;

  // The references must outlive it. Without a guardian, only the shell dies with the agent, by
  // PDEATHSIG.
  hook_runner(boost::asio::any_io_executor executor, spawner& spawn, log_mux& mux, guardian* guard,
              hook_options options, say_handler say);
  // Kills a running command, and waits up to a second for its end.
  ~hook_runner();
  hook_runner(const hook_runner&) = delete;
  hook_runner& operator=(const hook_runner&) = delete;

  void run(hook_call call);

  // Calls `done` once, when no command runs or waits; after `limit` a running one is killed, and
  // waiting ones are dropped.
  void finish(duration limit, std::function<void()> done);

 private:
  void start_next();
  bool start(const hook_call& call);
  void ended(exit_status status);
  void is_over();
  void kill(const std::string& why);
  void cannot_run(const std::string& why);
  void tell_left_out();
  void say(const std::string& text);

  boost::asio::any_io_executor executor_;
  spawner& spawner_;
  log_mux& mux_;
  guardian* guardian_;  // may be null
  hook_options options_;
  say_handler say_;
  hook_queue queue_;
  boost::asio::steady_timer limit_;      // of the running command
  boost::asio::steady_timer end_limit_;  // of finish()
  std::string what_;                     // of the running command, as the next three
  std::function<void(const hook_end&)> tell_end_;
  std::string problem_;
  std::shared_ptr<output_tail> tail_;
  pid_t pid_ = -1;  // -1: none is running
  bool was_killed_ = false;
  std::vector<log_mux::source_id> outputs_;
  std::function<void()> done_;
  lifetime alive_;
};

}  // namespace ddprun::launcher
