// The addresses by which the nodes of a round reach one another, as this node sees them: its own,
// that of the leader, and the interface that Gloo should use.
//
// Thread rule: one thread, that of the executor. It asks the kernel; a name service is asked on
// another thread.
#pragma once

#include "launcher/network/gloo_interface.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <optional>
#include <string>

namespace ddprun::launcher {

class node_addresses {
 public:
  struct options {
    std::string published;     // what the user has said that this node's is; empty: nothing
    std::string leader;        // and the leader's, in the static rendezvous; empty: nothing
    bool chooses_gloo = true;  // the user has chosen no interface for Gloo
  };

  node_addresses(boost::asio::any_io_executor executor, options values);

  // A name service may take seconds, so ask it long before workers need the answer.
  void look_up() { gloo_.look_up(); }
  // The daemon sees this node at that address.
  void seen_by_daemon(const std::string& address) { seen_ = address; }

  // How this node dials the leader that the other nodes know as `master_address`.
  std::string of_leader(const std::string& master_address) const;
  // This node's address for nodes that reach the store at `store_address`; empty: unknown.
  std::string own_for(const std::string& store_address) const;
  // Empty: Gloo needs no help, or the user has chosen.
  std::optional<gloo_interface::choice> choose_gloo(const assignment& assigned) const;

 private:
  options options_;
  gloo_interface gloo_;
  std::string seen_;  // empty: no daemon has answered yet
};

}  // namespace ddprun::launcher
