// The spawner_chain starts the workers of this node: survivors of the previous round get their
// assignment in the next one, spares of --warm become workers, and the rest are started cold.
//
// Thread rule: the main thread; handlers are called from the executor, except that `done` is called
// at once if workers cannot survive. Ownership: the references must outlive it. Destroying it kills
// the workers that wait for a round. Errors: lines; a worker that cannot be started otherwise is
// started cold.
#pragma once

#include "launcher/log/log_mux.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/spawner.hpp"
#include "launcher/survivors/survivor_spawner.hpp"
#include "launcher/warm/warm_spawner.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"

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
    std::optional<warm::warm_options> warm;  // none: there are no spares
    spawn_request like;                      // see warm_spawner::look_up
    std::string address;                     // see survivor_options; empty: workers cannot survive
    std::uint32_t worker_count = 1;          // of this node
    std::function<void(note_level level, const std::string& text)> say;
    std::function<void(pid_t worker, const std::string& why)>
        hangs;  // it is killed because it hangs
  };

  spawner_chain(boost::asio::any_io_executor executor, spawner& cold, guardian& guard, log_mux& mux,
                wiring parts);
  ~spawner_chain();
  spawner_chain(const spawner_chain&) = delete;
  spawner_chain& operator=(const spawner_chain&) = delete;

  spawner& front();

  void begin_round();
  // All workers of the round run: prints how many of them have survived.
  void all_started();
  // Call it before the workers are signalled for that order.
  void prepare_stop(const core::stop_workers& order);

  // The worker has left a round and waits for the next.
  bool waits(pid_t worker) const { return survivors_ && survivors_->waits(worker); }
  // False: workers cannot survive, and nothing was done.
  bool kill_survivors();
  // No further round will come; see survivor_spawner.
  void end_survivors(duration grace, std::function<void()> done);

 private:
  spawner& cold_;
  std::uint32_t worker_count_;
  std::function<void(note_level level, const std::string& text)> say_;
  std::unique_ptr<warm::warm_spawner> warm_;
  std::unique_ptr<survivor_spawner> survivors_;
};

}  // namespace ddprun::launcher::survivors
