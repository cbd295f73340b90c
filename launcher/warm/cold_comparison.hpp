// A cold_comparison finds out whether a worker that failed right after a warm start failed because
// of it. It watches the next worker of the same local rank, which is started cold:
//
//   - It ends in the same way: the script is the reason.
//   - It ends well, or lives on after it has imported what the other had: the warm start is.
//   - It is stopped, or ends in another way: that proves nothing, and the next one is compared.
//
// Its lifetime alone proves nothing, because its imports take seconds that a warm worker is spared.
//
// Thread rule: the main thread; events come from the executor or the end of a worker, and may
// destroy the comparison. Ownership: the spawner must outlive it.
#pragma once

#include "launcher/process/spawner.hpp"
#include "launcher/warm/answer_options.hpp"
#include "launcher/warm/recording.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ddprun::launcher::warm {

class cold_comparison {
 public:
  struct suspect {
    std::string rank;         // "LOCAL_RANK=1"
    exit_status status;       // how it has ended
    std::uint64_t bytes = 0;  // of its list of imports
  };
  struct options {
    std::chrono::milliseconds look_pause{500};  // between looks at the list of imports
    std::chrono::milliseconds lives_after{5000};
    answer_options answers;  // as in warm_options
  };
  struct events {
    std::function<void()> is_script;
    std::function<void(const std::string& why)> is_warm_start;
  };

  cold_comparison(boost::asio::any_io_executor executor, spawner& inner, suspect failed,
                  options values, events handlers);
  cold_comparison(const cold_comparison&) = delete;
  cold_comparison& operator=(const cold_comparison&) = delete;

  // Starts a worker cold, and watches it if it has that local rank.
  spawn_result spawn(const spawn_request& request, spawn_handlers handlers);

  // The end of a worker that we have signalled proves nothing.
  void signalled(pid_t pid);

 private:
  void look();
  void judge(exit_status status);

  spawner& inner_;
  suspect failed_;
  options options_;
  events handlers_;
  std::optional<recording> record_;
  pid_t pid_ = -1;  // the compared worker; -1: none runs
  boost::asio::steady_timer timer_;
  lifetime alive_;
};

}  // namespace ddprun::launcher::warm
