// Runs ddprun-nccl-id, which makes NCCL's unique ids of the rounds that this node leads. It is a
// process of its own, so that the agent never loads NCCL, and what an id keeps open ends with its
// round.
//
// A helper is started before it is needed, so that NCCL is loaded by then; the next one is started
// after the round's workers have started, for the next restart. Each makes the ids of one round,
// and is killed with it. It has the workers' environment, because NCCL reads its settings there.
//
// Thread rule: the main thread. `made` is called from the executor, never from inside a call,
// exactly once for each make(), unless let_go() or the next make() comes first. Errors: one line of
// text; the helper's standard error is shown as its output.
#pragma once

#include "launcher/log/log_mux.hpp"
#include "launcher/process/spawner.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

struct nccl_helper_options {
  std::string program;                   // path of ddprun-nccl-id
  std::vector<std::string> arguments;    // which libnccl to load
  std::vector<std::string> environment;  // as NAME=value
  std::string prefix;                    // of its output, "[node-a:nccl] "
  duration limit = std::chrono::seconds(30);
  duration pause = std::chrono::milliseconds(100);  // from the ids to the start of the next helper
};

struct nccl_answer {
  std::vector<std::string> ids;  // all of them
  std::uint32_t version = 0;
  std::string address;
  std::string problem;  // not empty: there are no ids
};

class nccl_helper {
 public:
  using handler = std::function<void(nccl_answer answer)>;
  // A helper has ended unexpectedly after its ids were handed out.
  using loss_handler = std::function<void(const std::string& how)>;

  nccl_helper(boost::asio::any_io_executor executor, spawner& spawn, log_mux& mux,
              nccl_helper_options options, loss_handler lost);
  // Kills running helpers, and waits up to a second for their end.
  ~nccl_helper();
  nccl_helper(const nccl_helper&) = delete;
  nccl_helper& operator=(const nccl_helper&) = delete;

  // Starts a helper, unless one is waiting.
  void warm_up();
  void make(std::uint32_t count, handler made);
  // The round is over.
  void let_go();

 private:
  struct process;
  std::shared_ptr<process> start();
  void ask(std::shared_ptr<process> whom, std::uint32_t count, handler made);
  bool ask_another(process& dead);
  void listen(const std::shared_ptr<process>& from);
  void hear(process& from, const std::string& line);
  void answer(process& from);
  void ended(process& over, exit_status status);
  void end(std::shared_ptr<process>& one);

  boost::asio::any_io_executor executor_;
  spawner& spawner_;
  log_mux& mux_;
  nccl_helper_options options_;
  loss_handler lost_;
  boost::asio::steady_timer next_;               // starts the helper for the next round
  std::shared_ptr<process> waiting_;             // for the number of ids
  std::shared_ptr<process> of_round_;            // was asked, or has answered
  std::vector<std::shared_ptr<pid_t>> running_;  // including killed ones; -1: it has ended
  lifetime alive_;
};

}  // namespace ddprun::launcher
