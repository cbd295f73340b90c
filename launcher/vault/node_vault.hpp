// The node_vault is this node's part in a job's vault, round by round: with --vault it has a
// keeper, otherwise it tells the other nodes that this node has no vault.
//
// Thread rule: the main thread; handlers are called from the executor, except that `ready` is
// called at once if there is no vault. Ownership: destroy it before its io_context. Errors are
// printed as lines, and the run goes on.
#pragma once

#include "launcher/cli/vault_options.hpp"
#include "launcher/process/background_task.hpp"
#include "launcher/vault/agreement.hpp"
#include "launcher/vault/desk.hpp"
#include "launcher/vault/keeper.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::launcher::vault {

class node_vault {
 public:
  struct wiring {
    vault_options wanted;  // `disk` is empty without --vault
    std::string mark;      // unique to this agent
    bool has_other_nodes = false;
    store_mode store = store_mode::agent;
    std::function<std::optional<std::uint64_t>()> memory_left;  // of the node, in bytes; may block
    desk::teller say;
    // So many bytes were restored, and the workers of that round still wait.
    std::function<void(round_number round, std::uint64_t bytes)> restoring;
    // This node's address for nodes that reach the store at that address; empty: unknown.
    std::function<std::string(const std::string& store_address)> own_address;
  };

  node_vault(boost::asio::any_io_executor executor, wiring parts);
  ~node_vault();
  node_vault(const node_vault&) = delete;
  node_vault& operator=(const node_vault&) = delete;

  // Adds the vault's mark to what the leader gives to all members, if this node has a vault.
  leader_data given_by_leader(leader_data data) const;

  // Call it before the workers of a round start. `store_address`: as this node dials the round's
  // store. Restoring from a disk takes its time; without a vault `ready` is called at once.
  void prepare(const core::start_workers& round, const std::string& store_address,
               std::function<void()> ready);
  // Cancels the call of `ready`. False: the workers of that round do not wait for it.
  bool stop_preparing(round_number round);
  // For the workers of the round prepared last; empty: none.
  const std::string& folder() const { return folder_; }

  // Only a failure that the restored state may have caused counts against that state.
  void judge(const round_report& report);
  void save_now();
  // See keeper.
  void finish(bool ends_well, std::function<void()> done);

 private:
  bool is_of_nodes() const { return keeper_ && parts_.has_other_nodes; }
  void say_without(const core::start_workers& round, const std::string& store_address);
  round_place place(const core::start_workers& round, const std::string& store_address) const;

  wiring parts_;
  std::unique_ptr<keeper> keeper_;  // none: there is no --vault
  std::string folder_;
  background_task<bool> saying_;         // tells the other nodes that there is none
  bool is_told_ = false;                 // the same was told to the user
  std::optional<round_number> awaited_;  // its workers start when it is prepared
};

}  // namespace ddprun::launcher::vault
