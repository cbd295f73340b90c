// The spawner_chain is what the workers of this node are started by: those that live on from the
// round before are given their part in the next one, spares of --warm become workers, and the rest
// is started cold.
//
// Thread rule: the main thread; handlers come from the executor, but for `done` where no worker may
// live on. Ownership: the references must outlive it. Destroying it kills those that wait for a
// round. Errors: lines; what cannot be started otherwise is started cold.
#pragma once

#include "launcher/log/log_mux.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/spawner.hpp"
#include "launcher/survivors/survivor_spawner.hpp"
#include "launcher/warm/warm_spawner.hpp"
#include "rendezvous/core/agent/agent.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

namespace ddprun::launcher::survivors {

class spawner_chain {
 public:
  struct wiring {
    std::optional<warm::warm_options> warm;  // none: no worker is started from a spare
    spawn_request like;                      // see warm_spawner::look_up
    std::string address;                     // see survivor_options; empty: no worker may live on
    std::uint32_t worker_count = 1;          // of this node
    std::function<void(note_level level, const std::string& text)> say;
    std::function<void(pid_t worker, const std::string& why)> hangs;  // it is killed for that
  };

  spawner_chain(boost::asio::any_io_executor executor, spawner& cold, guardian& guard, log_mux& mux,
                wiring parts);
  ~spawner_chain();
  spawner_chain(const spawner_chain&) = delete;
  spawner_chain& operator=(const spawner_chain&) = delete;

  spawner& front();

  void begin_round();
  // All workers of the round run: it is said how many of them have lived on.
  void all_started();
  // Before the workers are signalled for it.
  void prepare_stop(const core::stop_workers& order);

  // A worker that has left a round waits for another.
  bool waits(pid_t worker) const { return survivors_ && survivors_->waits(worker); }
  // False: no worker may live on, and nothing is done.
  bool kill_survivors();
  // No round will come; see survivor_spawner.
  void end_survivors(duration grace, std::function<void()> done);

 private:
  spawner& cold_;
  std::uint32_t worker_count_;
  std::function<void(note_level level, const std::string& text)> say_;
  std::unique_ptr<warm::warm_spawner> warm_;
  std::unique_ptr<survivor_spawner> survivors_;
};

}  // namespace ddprun::launcher::survivors
