// Reports a TrainJob's progress to Kubeflow's Trainer, whatever script it runs: the bar that rank 0
// draws on its standard error (bar_progress.hpp), the round, and the used restarts. Only rank 0's
// agent does. `kubectl get trainjob` shows it.
//
// A failed report is tried again, with the newest status, after 1 s to a minute; the run waits for
// it only at its end, for a moment.
//
// Thread rule: one thread, that of the executor; reports are sent by another thread, which is left
// behind if the server hangs at the end.
#pragma once

#include "launcher/hosts/kubernetes/bar_progress.hpp"
#include "launcher/hosts/kubernetes/trainer_post.hpp"
#include "launcher/report/run_events.hpp"
#include "rendezvous/base/time.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>

namespace ddprun::launcher::kubernetes {

// The server's format; `now` in seconds since 1970. Without a bar there is no progress in it.
std::string trainer_status_json(const std::optional<bar_progress>& progress, round_number round,
                                std::uint32_t restarts_used, std::int64_t now);

class trainer_status {
 public:
  struct outside {
    std::function<std::string()> newest_output;  // of rank 0's standard error
    // The first time, and again after a success.
    std::function<void(const std::string& problem)> failed;
  };

  trainer_status(boost::asio::any_io_executor loop, trainer_server server, outside given,
                 duration pause = std::chrono::seconds(10));
  ~trainer_status();
  trainer_status(const trainer_status&) = delete;
  trainer_status& operator=(const trainer_status&) = delete;

  void tell(const run_event& event);
  // Calls `done` when everything was sent, or after `limit`.
  void finish(duration limit, std::function<void()> done);

 private:
  class sender;

  void look();
  void offer();

  outside outside_;
  duration pause_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<sender> sender_;
  bool leads_ = false;
  round_number round_ = 0;
  std::uint32_t restarts_used_ = 0;
  std::optional<bar_progress> progress_;
};

}  // namespace ddprun::launcher::kubernetes
