// The nodes that are missing since the last round that ran: members of it that were lost or have
// left, until the next one runs; and nodes that have waited since and no longer do. It is for
// people, so that a wait names its cause; nothing is decided by it.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::core {

// Beyond them whoever only waited is not named.
inline constexpr std::size_t gone_waiting_max = 16;

struct departed_node {
  std::string node;  // its label
  std::string address;
  std::uint32_t rank_first = 0;
  std::uint32_t worker_count = 1;
  ddprun::cause cause;  // node_lost or drain
  time_point at{};
  bool was_member = true;  // false: it had no ranks
  std::string place_name;
};

class departures {
 public:
  // The first word of one counts. Who has come back is not missing.
  void add(const session_id& who, departed_node gone);
  void drop(const session_id& who);
  // Another agent comes from there: one that only waited is back.
  void drop_waiting(const std::string& place_name);
  bool has_members() const { return !gone_.empty(); }

  // None: nobody is missing.
  std::optional<departure> told(time_point now) const;
  // The next round starts with these, who were not in the last: "node-b was replaced by node-c",
  // "node-c has joined", "going on without node-b"; empty where nothing has changed.
  std::string change(const std::vector<std::string>& newcomers, std::size_t count) const;
  // Of those that are missing.
  bool has_lost() const;

 private:
  struct entry {
    departed_node node;
    std::uint64_t order = 0;
  };
  const entry& first() const;  // a member, if there is one

  std::map<session_id, entry> gone_;    // no more than the round had members
  std::map<session_id, entry> waited_;  // had no ranks; at most gone_waiting_max
  std::uint64_t next_order_ = 0;
};

}  // namespace ddprun::core
