// The way to the agent of a worker that may live on from one round to the next: a Unix socket in
// the abstract namespace, whose name is in DDPRUN_SURVIVORS. What is said on it stands in
// launcher/survivors/survivor_spawner.hpp.
//
// A thread hears the agent's word that the round is over, and then ends what the program waits for:
// its round parts (round_parts.hpp), and its connections to the round's store, which would go on
// serving until every worker has left.
//
// Thread rule: one thread, the one that trains. Ownership: the round parts are others'.
// A child that is forked off has nothing to say on it; its calls do nothing.
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

// NAME=VALUE, or NAME of a variable that goes.
using environment_changes = std::vector<std::string>;

class round_link {
 public:
  // None: nobody lets this process live on, or its agent cannot be reached.
  static std::unique_ptr<round_link> open(const variable_lookup& lookup);
  // From now on a stop is SIGTERM, as for any worker.
  ~round_link();
  round_link(const round_link&) = delete;
  round_link& operator=(const round_link&) = delete;

  // Whether the round is over and this process may live on. It waits for that, no longer than
  // `limit`: an error of a collective is here before the word that a peer has died.
  bool may_leave(std::chrono::milliseconds limit);
  // For how long the launcher advises to wait for that.
  std::chrono::milliseconds patience() const { return patience_; }

  // After may_leave(): says that the round is left, and waits for the next. None: there is none for
  // this process.
  std::optional<environment_changes> next_round();
  // With these in place: the round has begun for this process.
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
  bool is_over_ = false;      // by the agent's word, or because it has hung up
  bool is_to_leave_ = false;  // by its word
  bool has_left_ = false;     // the program waits for nothing of it any more
  std::thread thread_;
};

}  // namespace ddprun::worker
