// The nccl_opening makes NCCL's unique ids of the rounds that this node leads. They are requested
// when a round is prepared, and reported together with its service, when both are ready.
//
// Thread rule: the main thread; callbacks come from inside its calls and from the executor.
// Ownership: the references must outlive it. Errors: a line, and the workers get no ids; if the
// user has asked for ids, the round's service has failed.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/nccl/nccl_helper.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"

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
    std::function<void(const core::agent_event& event)> tell;  // about the service
    std::function<void(std::string value)>
        put;  // into its store: ids that do not fit into leader_data
    std::function<void(round_number round)> close;  // the service
  };

  // `is_required`: the user has asked for ids. `store`: who serves the job store.
  nccl_opening(boost::asio::any_io_executor executor, spawner& spawn, log_mux& mux,
               nccl_helper_options helper, bool is_required, store_mode store,
               environment_map environment, outside with);
  ~nccl_opening();
  nccl_opening(const nccl_opening&) = delete;
  nccl_opening& operator=(const nccl_opening&) = delete;

  // This node leads that round, whose service is about to be opened.
  void make(const core::open_service& wanted);
  // The round is over, or its service was never opened.
  void drop();
  // An event of the service: it is passed on, with the ids if the service has opened.
  void hear(const core::agent_event& event);

 private:
  void take(round_number round, const nccl_answer& answer);

  struct opening {
    round_number round = 0;
    std::optional<core::service_opened> service;
    std::optional<leader_data> data;
    std::string for_store;  // all ids, if they do not fit into leader_data
  };
  outside outside_;
  bool is_required_;
  store_mode store_;
  environment_map environment_;
  std::optional<opening> opening_;
  nccl_helper helper_;
};

// The options of the helper; none: this node makes no ids.
std::optional<nccl_helper_options> wanted_nccl_helper(const launch_options& options,
                                                      const std::string& node,
                                                      std::uint32_t visible_gpus,
                                                      const environment_map& environment);

}  // namespace ddprun::launcher
