// What waiting nodes are told: the message that they share, which nodes are missing, and why a node
// that is here, or comes, cannot take part with the others.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/run_machine.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::core {

class closed_instances;
struct current_instance;
class entered_phase;
class gathering;
struct headcount;
struct node;
class outbox;
class persisted_run;
class recovery_claims;
class round_memberships;
class round_numbers;
class settings_group;
class settle_timer;
class stale_workers;

// The message that all waiting nodes get: built once for all of them, and again when the reason may
// have changed. Each node gets the new one at its own next heartbeat, so that n joins do not cost n
// * n messages. Times in it are accurate to a second.

inline constexpr duration wait_message_age_max = std::chrono::seconds(1);

class wait_message {
 public:
  // The reason may have changed.
  void change() { ++edition_; }
  std::uint64_t edition() const { return edition_; }  // from 1 on
  // Whether a node that was told this edition last has to be told again; 0: it does not wait.
  bool is_news_after(std::uint64_t edition) const { return edition != 0 && edition != edition_; }

  // Another run that gathers at this daemon, and may be the one that was meant. The reason names
  // it.
  const neighbour_seen& neighbour() const { return neighbour_; }
  void set_neighbour(const neighbour_seen& seen) { neighbour_ = seen, change(); }

  // The message, if it is of this edition and not old; null: it must be built. An agent accepts
  // only what is newer than the last it was told, so an older shared message is no use to it.
  std::shared_ptr<const daemon_message> message_after(std::uint64_t told_seq, time_point now) const;
  void build(std::uint64_t seq, time_point now, std::shared_ptr<const daemon_message> message);

 private:
  std::uint64_t edition_ = 1;
  std::uint64_t built_edition_ = 0;
  std::uint64_t seq_ = 0;  // of the message
  time_point built_at_{};
  std::shared_ptr<const daemon_message> message_;
  neighbour_seen neighbour_;
};

// The nodes that are missing since the last round that ran: its members that were lost or have
// left, until the next round runs; and nodes that have waited since and no longer do. It is for
// people, so that a wait names its cause; no decision depends on it.

// The most nodes that only waited and are named.
inline constexpr std::size_t gone_waiting_max = 16;

struct departed_node {
  std::string node;  // its label
  std::string address;
  std::uint32_t rank_first = 0;
  std::uint32_t worker_count = 1;
  ddprun::cause cause;  // node_lost or drain
  time_point at{};
  bool was_member = true;  // false: it had no ranks
  std::string position_name;
};

class departures {
 public:
  // The first report of a node counts. A node that has come back is not missing.
  void add(const session_id& who, departed_node gone);
  void drop(const session_id& who);
  // Another agent has come from that place, so a node that only waited there is back.
  void drop_waiting(const std::string& position_name);
  bool has_members() const { return !gone_.empty(); }

  // None: no node is missing.
  std::optional<departure> told(time_point now) const;
  // The next round starts with these newcomers, which were not in the last: "node-b was replaced by
  // node-c", "node-c has joined", "going on without node-b"; empty: nothing has changed.
  std::string change(const std::vector<std::string>& newcomers, std::size_t count) const;
  // Whether one of the missing nodes was lost.
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

// Which nodes are missed, and why a node cannot take part.

bool is_missed(const entered_phase& phase, const gathering& groups, const settle_timer& settle,
               machine_time now);
std::string spare_advice(const current_instance& current, const round_memberships& memberships);
std::string names_in(const gathering& groups, const settings_group& group);
std::string disagreement(const run_options& options, const gathering& groups,
                         const settings_group& one, const settings_group& other);
std::string full_text(const current_instance& current, const std::optional<started_job>& newcomer);
std::string different_scripts(const run_options& options, const gathering& groups);
std::string twins(const current_instance& current, const gathering& groups, machine_time now);
std::string neighbour_text(const neighbour_seen& neighbour);
std::string misfits(const run_options& options, const current_instance& current,
                    const gathering& groups, machine_time now);
const node* first_here(const run_options& options, const entered_phase& phase,
                       const current_instance& current, const recovery_claims& claims,
                       const gathering& groups, machine_time now);
const run_settings* settings_here(const run_options& options, const entered_phase& phase,
                                  const current_instance& current, const recovery_claims& claims,
                                  const gathering& groups, machine_time now);
std::string difference(const run_options& options, const entered_phase& phase,
                       const current_instance& current, const recovery_claims& claims,
                       const gathering& groups, machine_time now, const hello& greeting);
std::string difference_problem(const run_options& options, const entered_phase& phase,
                               const current_instance& current, const recovery_claims& claims,
                               const gathering& groups, machine_time now, const hello& greeting);
void remember_refusal(const run_options& options, const entered_phase& phase,
                      current_instance& current, const recovery_claims& claims,
                      const gathering& groups, wait_message& waiting, machine_time now,
                      const hello& greeting);
void limit_wait(const entered_phase& phase, const current_instance& current,
                const recovery_claims& claims, const stale_workers& stale,
                const closed_instances& closed, const persisted_run& persisted,
                const gathering& groups, const machine_clock& clock, ddprun::desired& value);
void dismiss_unable(const headcount& counts, current_instance& current, const round_numbers& rounds,
                    time_point real_now, outbox& out, node& who);
void hear_of_unable(current_instance& current, wait_message& waiting, outbox& out,
                    const agent_joined& event);

}  // namespace ddprun::core
