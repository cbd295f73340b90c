// The nodes of a run: each session that is connected, may come back, or has a membership in the
// round; by join order, session, connection, and the id and rank that a person gave it; and when to
// look whether it is still heard of.
//
// Always: a node is known by its session, and by its connection while it has one; it is looked for
// at one moment at most. Entries are checked when they fire and moved then, so that a heartbeat
// touches none of them.
//
// Ownership: the nodes; a reference is good until `remove`.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/run/node.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace ddprun::core {

class roster {
 public:
  using by_order = std::map<std::uint64_t, std::unique_ptr<node>>;

  // A session that is not known.
  node& admit(const hello& greeting);
  // It must have neither connection nor membership.
  void remove(node& who);

  node* find(connection_id connection) const;
  node* find(const session_id& session) const;
  // Of those with this id or rank given by hand, one behind the other, by join order.
  using same_by_order = std::map<std::uint64_t, node*>;
  const same_by_order& of_id(const std::string& id) const;
  const same_by_order& of_rank(std::uint32_t node_rank) const;
  node& at(std::uint64_t order) const { return *nodes_.at(order); }

  bool empty() const { return nodes_.empty(); }
  std::size_t size() const { return nodes_.size(); }
  std::size_t connected() const { return by_connection_.size(); }
  node& some_connected() const;  // there must be one
  by_order::const_iterator begin() const { return nodes_.begin(); }
  by_order::const_iterator end() const { return nodes_.end(); }
  by_order::const_reverse_iterator rbegin() const { return nodes_.rbegin(); }
  by_order::const_reverse_iterator rend() const { return nodes_.rend(); }

  void connect(node& who, connection_id connection);
  void disconnect(node& who);

  // To be looked for when it has been silent for so long.
  void watch(node& who, duration silence);
  void unwatch(node& who);
  std::optional<machine_time> next_look() const;
  node* due(machine_time now) const;  // whose moment has come

 private:
  by_order nodes_;
  std::map<session_id, node*> by_session_;
  std::unordered_map<connection_id, node*> by_connection_;
  std::unordered_map<std::string, same_by_order> by_given_id_;
  std::unordered_map<std::uint32_t, same_by_order> by_given_rank_;
  std::map<std::pair<machine_time, std::uint64_t>, node*> watch_;
  std::uint64_t next_order_ = 1;
};

}  // namespace ddprun::core
