// What a restarted daemon waits for, how it decides on the claims of nodes that come back, and what
// happens to members that do not come back.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/run_machine.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::core {

struct current_instance;
class entered_phase;
class gathering;
class membership;
struct node;
class outbox;
class persisted_run;
class round_age;
class round_memberships;
class round_numbers;
class round_stop;
class settings_group;
class wait_message;

// The wait for nodes of an instance that this daemon does not know: how long others of it may still
// come, and the newest round that any node of each instance has named, also nodes that have gone
// again.
//
// Always: at most newest_claims_max instances are remembered.

inline constexpr std::size_t newest_claims_max = 64;
inline constexpr std::uint32_t windows_reopened_max = 8;  // by claimants, in one instance

class recovery_claims {
 public:
  bool is_waiting() const { return until_.has_value(); }
  const std::optional<machine_time>& until() const { return until_; }
  void wait_until(machine_time until) { until_ = until; }
  void end_wait() { until_.reset(); }
  void end_wait_if_over(machine_time now);
  // A claimant came after the wait was over.
  void reopen(machine_time until);
  bool may_reopen() const { return windows_reopened_ < windows_reopened_max; }

  void add(instance_id of, round_number newest);
  // `least`, unless a newer round was named.
  round_number newest_of(instance_id of, round_number least) const;
  // An instance was adopted: what others have named no longer counts, and no node is a claimant any
  // more.
  void settle();
  // An instance was opened. Claimants that are here stay claimants.
  void begin_instance();

  // Whether nodes may be here that claim an instance.
  bool has_claimants() const { return has_claimants_; }
  void set_claimants(bool are_here) { has_claimants_ = are_here; }

 private:
  bool has_claimants_ = false;
  std::optional<machine_time> until_;  // none: no node is waited for
  std::uint32_t windows_reopened_ = 0;
  std::map<instance_id, round_number> newest_;
};

// Memberships of an earlier daemon's rounds whose workers are certainly dead, because their agent's
// guardian says so. That daemon lived in the agent and died with it, so its session is not known
// here: the guardian says where the workers were and, for people, which node it was.
//
// Always: at most dead_members_max are remembered; any others are fenced by time.

inline constexpr std::size_t dead_members_max = 64;

struct dead_member {
  instance_id instance = 0;
  round_number round = 0;
  std::uint32_t group_rank = 0;
  auto operator<=>(const dead_member&) const = default;
};

class dead_members {
 public:
  void add(const dead_member& one, dead_node who = {}) {
    if (memberships_.size() < dead_members_max) memberships_.try_emplace(one, std::move(who));
  }
  bool contains(const dead_member& one) const { return memberships_.contains(one); }
  // Null: it is not known to be dead.
  const dead_node* find(const dead_member& one) const {
    const auto found = memberships_.find(one);
    return found == memberships_.end() ? nullptr : &found->second;
  }
  std::size_t count() const { return memberships_.size(); }
  // Whether a member of this round is known to be dead.
  bool has_any_of(instance_id instance, round_number round) const {
    const auto found = memberships_.lower_bound({instance, round, 0});
    return found != memberships_.end() && found->first.instance == instance &&
           found->first.round == round;
  }

 private:
  std::map<dead_member, dead_node> memberships_;
};

// How a node was lost whose guardian has reported it.
inline constexpr const char* guardians_text =
    "its ddprun process died, and its guardian killed the workers";

// All members of the newest round are here and say that they run it, or are among the dead.
bool is_complete(const std::vector<node*>& claimants, round_number newest,
                 const dead_members& dead = {});

// Claims, and how they are decided.

bool is_of_running_instance(const entered_phase& phase, const current_instance& current,
                            const recovery_claims& claims, const node& who);
bool is_recovering(const entered_phase& phase, const recovery_claims& claims);
void remember_claim(recovery_claims& claims, const node& who);
round_number newest_named(const recovery_claims& claims, const std::vector<node*>& claimants);
bool is_outdated_claim(const recovery_claims& claims, const node& who);
bool outdates_found_round(const current_instance& current, const round_numbers& rounds,
                          const recovery_claims& claims, const persisted_run& persisted,
                          const node& who);
settings_group& group_of_most(const std::vector<node*>& claimants);
void place_found(round_memberships& memberships, const std::vector<node*>& claimants);
void take_found_facts(current_instance& current, round_age& age,
                      const std::vector<node*>& claimants);

// Members of a found round that have not come back.

// Null: it is not known to be dead.
const dead_node* dead_holder(const dead_members& dead, const current_instance& current,
                             const round_numbers& rounds, const membership& of);
void add_ends_of_missing(const dead_node* who, const current_instance& current,
                         std::vector<ended_ranks>& ends);
cause cause_of_missing(const current_instance& current, const round_numbers& rounds,
                       const dead_members& dead, const membership& of, std::string text);
std::optional<cause> cause_of_not_back(const current_instance& current, const round_numbers& rounds,
                                       const round_memberships& memberships,
                                       const dead_members& dead);
void remember_dead(current_instance& current, time_point real_now, const dead_node& who,
                   const cause& why);
void take_the_dead(current_instance& current, const round_numbers& rounds,
                   round_memberships& memberships, root_cause& causes, round_stop& stop,
                   const dead_members& dead, wait_message& waiting, const machine_clock& clock);
void keep_round(entered_phase& phase, current_instance& current, round_numbers& rounds,
                round_memberships& memberships, const gathering& groups, wait_message& waiting,
                machine_time now, outbox& out, const std::vector<node*>& claimants);

}  // namespace ddprun::core
