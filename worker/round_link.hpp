// The connection between a worker that can survive a round and its agent: a Unix socket in the
// abstract namespace, whose name is in DDPRUN_SURVIVORS. launcher/survivors/survivor_spawner.hpp
// describes the protocol.
//
// A thread waits for the agent to say that the round is over. It then ends what the program is
// waiting for: the waits of its round parts (round_parts.hpp), and its connections to the round's
// store, which keeps serving until every worker has left.
//
// Thread rule: one thread at a time, the one that trains. Ownership: the round parts belong to
// others. In a forked child all calls do nothing.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "worker/environment.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace ddprun::worker {

// NAME=VALUE sets a variable, NAME alone removes it.
using environment_changes = std::vector<std::string>;

class round_link {
 public:
  // None if survivors are off for this process, or if its agent cannot be reached.
  static std::unique_ptr<round_link> open(const variable_lookup& lookup);
  // After this the agent stops the process with SIGTERM, like any other worker.
  ~round_link();
  round_link(const round_link&) = delete;
  round_link& operator=(const round_link&) = delete;

  // True if the round is over and this process may live on. It waits for that, but not longer than
  // `limit`: a collective fails before the agent reports that a peer has died.
  bool may_leave(std::chrono::milliseconds limit);
  // How long the launcher advises to wait in may_leave().
  std::chrono::milliseconds patience() const { return patience_; }

  // Call it after may_leave(). Tells the agent that this process has left the round, and waits for
  // the next one. None if this process is given no further round.
  std::optional<environment_changes> next_round();
  // Tells the agent that the changes are in place and the round has begun for this process.
  void begin(const variable_lookup& lookup);

 private:
  round_link(unique_fd socket, const variable_lookup& lookup);
  void listen(const variable_lookup& lookup);
  void hear(const std::string& host, const std::string& port);
  void stop_listening();

  unique_fd socket_;
  std::chrono::milliseconds patience_;
  pid_t process_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;      // the agent has said so, or has closed the connection
  bool is_to_leave_ = false;  // the agent has said so
  bool has_left_ = false;     // nothing in the program waits for others any more
  std::thread thread_;
};

}  // namespace ddprun::worker
