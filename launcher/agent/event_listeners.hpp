// The programs outside of ddprun that hear the events of a run: the command of --on-event, and
// Kubeflow's Trainer.
//
// Thread rule: the main thread; `done` is called from the executor, or at once if there is nothing
// to wait for. Errors are printed by the two themselves.
#pragma once

#include "launcher/hosts/kubernetes/trainer_status.hpp"
#include "launcher/process/hook_runner.hpp"
#include "launcher/report/run_events.hpp"

#include <functional>
#include <memory>
#include <string>

namespace ddprun::launcher {

class event_listeners {
 public:
  // `node` is this node's label. Of the last two, null: there is no such listener.
  event_listeners(std::string run_id, std::string node, std::unique_ptr<hook_runner> command,
                  std::unique_ptr<kubernetes::trainer_status> trainer);

  void tell(const run_event& event);
  // Calls `done` once, when both have heard everything, or after a limit for each.
  void finish(std::function<void()> done);

 private:
  std::string run_id_;
  std::string node_;
  std::unique_ptr<kubernetes::trainer_status> trainer_;
  std::unique_ptr<hook_runner> command_;
};

}  // namespace ddprun::launcher
