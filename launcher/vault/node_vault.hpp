// The node_vault is this node's part in the vault of a job, round by round: where --vault asks for
// one it has a keeper, else it says to the other nodes that it has none.
//
// Thread rule: the main thread; handlers come from the executor, but for `ready` where there is no
// vault. Ownership: destroy it before its io_context. Errors: lines; the run goes on.
#pragma once

#include "launcher/cli/vault_options.hpp"
#include "launcher/process/background_task.hpp"
#include "launcher/vault/agreement.hpp"
#include "launcher/vault/desk.hpp"
#include "launcher/vault/keeper.hpp"
#include "rendezvous/core/agent/agent.hpp"

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
    vault_options wanted;  // without a disk: there is no --vault
    std::string mark;      // of this agent alone
    bool has_other_nodes = false;
    store_mode store = store_mode::agent;
    std::function<std::optional<std::uint64_t>()> memory_left;  // of the node, in bytes; blocks
    desk::teller say;
    // The workers of that round wait still, while so many bytes were put back.
    std::function<void(round_number round, std::uint64_t bytes)> restoring;
    // This node, as others reach it from where they reach that address; empty: not known.
    std::function<std::string(const std::string& store_address)> own_address;
  };

  node_vault(boost::asio::any_io_executor executor, wiring parts);
  ~node_vault();
  node_vault(const node_vault&) = delete;
  node_vault& operator=(const node_vault&) = delete;

  // What the leader gives all members; says that it has a vault, if it has.
  leader_data given_by_leader(leader_data data) const;

  // Before the workers of a round are started; `store_address`: as this node dials its store. What
  // has to be put back from a disk takes its time; without a vault `ready` is called at once.
  void prepare(const core::start_workers& round, const std::string& store_address,
               std::function<void()> ready);
  // False: it is not what that round's workers wait for. Else `ready` is not called any more.
  bool stop_preparing(round_number round);
  // For the workers of the round that was prepared last; empty: none.
  const std::string& folder() const { return folder_; }

  // What had nothing to do with what the workers went on from is not held against that.
  void judge(const round_report& report);
  void save_now();
  // See keeper.
  void finish(bool ends_well, std::function<void()> done);

 private:
  bool is_of_nodes() const { return keeper_ && parts_.has_other_nodes; }
  void say_without(const core::start_workers& round, const std::string& store_address);
  round_place place(const core::start_workers& round, const std::string& store_address) const;

  wiring parts_;
  std::unique_ptr<keeper> keeper_;  // none: nobody has asked for one
  std::string folder_;
  background_task<bool> saying_;         // to the other nodes that there is none
  bool is_told_ = false;                 // the same, to the person
  std::optional<round_number> awaited_;  // its workers are started when that is prepared
};

}  // namespace ddprun::launcher::vault
