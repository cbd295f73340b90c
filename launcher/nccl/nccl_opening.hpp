// The nccl_opening makes NCCL's unique ids of the rounds that this node leads: asked for when a
// round is prepared, and told with its service. Which of the two comes first waits for the other.
//
// Thread rule: the main thread; what it was given is called from inside its calls and from the
// executor. Ownership: the references must outlive it. Errors: a line, and the workers get no ids;
// where a person has asked for them, the round's service has failed.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/nccl/nccl_helper.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/core/agent/agent.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::launcher {

class nccl_opening {
 public:
  struct outside {
    std::function<void(note_level level, const std::string& text)> say;
    std::function<void(const core::agent_event& event)> tell;  // of the service
    std::function<void(std::string value)> put;     // into its store: ids, where they are too many
    std::function<void(round_number round)> close;  // the service
  };

  // `is_required`: a person has asked for ids. `store`: whose the job store is.
  nccl_opening(boost::asio::any_io_executor executor, spawner& spawn, log_mux& mux,
               nccl_helper_options helper, bool is_required, store_mode store,
               environment_map environment, outside with);
  ~nccl_opening();
  nccl_opening(const nccl_opening&) = delete;
  nccl_opening& operator=(const nccl_opening&) = delete;

  // This node leads that round, whose service is about to be opened.
  void make(const core::open_service& wanted);
  // The round is over, or never opened.
  void drop();
  // What the service says: told on, with the ids where it has opened.
  void hear(const core::agent_event& event);

 private:
  void take(round_number round, const nccl_answer& answer);

  struct opening {
    round_number round = 0;
    std::optional<core::service_opened> service;
    std::optional<leader_data> data;
    std::string for_store;  // all of them, where they are too many
  };
  outside outside_;
  bool is_required_;
  store_mode store_;
  environment_map environment_;
  std::optional<opening> opening_;
  nccl_helper helper_;
};

// What the helper is started with; none: no ids are made on this node.
std::optional<nccl_helper_options> wanted_nccl_helper(const launch_options& options,
                                                      const std::string& node,
                                                      std::uint32_t visible_gpus,
                                                      const environment_map& environment);

}  // namespace ddprun::launcher
