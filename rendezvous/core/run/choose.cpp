// Choose: DESIGN.md, rule 2. Which nodes take part in the next round, with which ranks, and where
// their workers meet.
#include "rendezvous/core/run/choose.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/name_text.hpp"
#include "rendezvous/core/messages/validation.hpp"
#include "rendezvous/core/run/gather.hpp"
#include "rendezvous/core/run/nodes.hpp"
#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::core {

// Chooses the next round once the last stop is over.
void run::state::choose() {
  release_unneeded(counts(), current);
  take_reserves(counts(), current, out);
  std::uint32_t spoken = 0;
  std::uint32_t silent = 0;
  for (const auto& [order, who] : nodes) {
    if (!is_candidate(nodes, *who)) continue;
    ++(stop.precedes(who->heard_step) ? spoken : silent);
  }
  // A node that was silent since before the stop may be dying with the others: its next heartbeat
  // tells. If the round is full without it, that is not waited for.
  const machine_time hold = stop.ordered_at() + 2 * timing_of(current, groups).heartbeat_interval;
  if (silent != 0 && spoken < current.settings->nodes_max && now < hold) {
    if (phase != run_phase::settling) enter(phase, waiting, now, run_phase::settling);
    settle.wait_for_messages(silent, hold);
    return;
  }
  settle.end_pause();
  if (!let_drained_go()) return;
  if (spoken >= current.settings->nodes_min) {
    start_round(groups.first());
  } else {
    begin_gathering();
  }
}

// Connected nodes that have asked to leave and were not released yet.
std::vector<node*> left_drained(const roster& nodes) {
  std::vector<node*> drained;
  for (const auto& [order, who] : nodes) {
    if (who->node_state == node_state::here && who->state.draining && who->connection != 0) {
      drained.push_back(who.get());
    }
  }
  return drained;
}

// Releases the nodes that have asked to leave, once it has been quiet. If no other node is left,
// the run is closed, and the result is false.
bool run::state::let_drained_go() {
  settle.forget_losses();  // the next loss begins another group
  const std::vector<node*> drained = left_drained(nodes);
  const bool nobody_is_left = groups.here() == 0 && !drained.empty();
  if (nobody_is_left) {
    close(code_of_drain(drained.front()->state), current.last_cause,
          "every node was asked to leave");
    return false;
  }
  tell_what_is_next(current, nodes, out);
  for (node* const who : drained)
    release(counts(), current, rounds, out, *who, 0);
  return true;
}

namespace {

// Candidates by join order, with what the rules of choice compare.
std::vector<rank_candidate> rank_candidates(const std::vector<node*>& from) {
  std::vector<rank_candidate> candidates;
  candidates.reserve(from.size());
  for (const node* const who : from) {
    const auto group_rank =
        is_exact(who->greeting) ? who->greeting.node_rank : who->last_group_rank;
    candidates.push_back({who->greeting.host, who->greeting.node_rank, group_rank, who->order,
                          who->greeting.worker_count, who->greeting.role});
  }
  return candidates;
}

}  // namespace

// From the first round on there is one group.
void fix_settings(const run_options& options, const headcount& counts, current_instance& current,
                  recovery_claims& claims, outbox& out, settings_group& group) {
  current.settings = group.settings();
  counts.groups.fix(group);
  refuse_others(options, counts, current, claims, out, group);
  counts.groups.forget_others();
}

// The refusal names the difference.
void refuse_others(const run_options& options, const headcount& counts, current_instance& current,
                   recovery_claims& claims, outbox& out, const settings_group& group) {
  std::vector<node*> others;
  for (const auto& [order, who] : counts.nodes) {
    if (who->group != nullptr && who->group != &group) others.push_back(who.get());
  }
  for (node* const who : others) {
    remember_refusal(options, counts.phase, current, claims, counts.groups, counts.waiting,
                     counts.now, who->greeting);
    refuse(counts, current, claims, out, *who,
           difference_problem(options, counts.phase, current, claims, counts.groups, counts.now,
                              who->greeting));
  }
}

// False: too few of the nodes that are here have sent a message since the stop was ordered.
bool run::state::start_round(settings_group& group) {
  std::vector<node*> from;
  for (const auto& [order, who] : nodes) {
    const bool is_fit = is_candidate(nodes, *who) && who->group == &group;
    if (is_fit && stop.precedes(who->heard_step)) from.push_back(who.get());
  }
  if (from.size() < group.settings().nodes_min) return false;
  fix_settings(options, counts(), current, claims, out, group);
  current.warning = misfits(options, current, groups, now);
  const rank_assignment chosen = assign_ranks(rank_candidates(from), current.settings->nodes_max);
  note_changes(current, real_now, from, chosen);
  rounds.take_next();
  for (const auto& [order, who] : nodes)
    who->last_group_rank.reset();
  memberships.open(static_cast<std::uint32_t>(chosen.by_group_rank.size()));
  std::vector<node_addresses> addresses;
  addresses.reserve(chosen.by_group_rank.size());
  for (std::uint32_t group_rank = 0; group_rank < chosen.by_group_rank.size(); ++group_rank) {
    const assigned_ranks& ranks = chosen.by_group_rank[group_rank];
    node& member = *from[ranks.candidate];
    memberships.take(group_rank, member, ranks.rank_first, ranks.in_role);
    addresses.push_back({member.greeting.address, member.greeting.own_address, member.peer_address,
                         member.local_address});
  }
  note_placed(current, memberships, timing_of(current, groups));
  causes.clear();
  current.is_found = false;
  current.common = {};
  current.common.group_world_size = static_cast<std::uint32_t>(memberships.size());
  current.common.world_size = chosen.world_size;
  current.common.master_address = choose_master_address(addresses);
  enter(phase, waiting, now, run_phase::preparing);
  age.begin(now);
  memberships.start_until(now + timing_of(current, groups).start_timeout);

  node& leader = memberships.leader();
  ddprun::desired value = base_desired(current, rounds, out, desired_phase::prepare);
  value.world_size = current.common.world_size;
  value.group_world_size = current.common.group_world_size;
  value.master_address = current.common.master_address;
  memberships.command(*leader.membership, command::prepare);
  out.want(leader, finished(std::move(value)));
  out.note(note_level::info,
           "round " + std::to_string(rounds.newest()) + ": " + counted(memberships.size(), "node") +
               ", " + counted(current.common.world_size, "worker") + ", led by " + leader.label());
  refuse_left_out(options, counts(), current, claims, out);
  refuse_excess(options, counts(), current, claims, out);
  return true;
}

// What is said about newcomers and nodes that have gone; the members get it with their ranks.
void note_changes(current_instance& current, time_point real_now, const std::vector<node*>& from,
                  const rank_assignment& chosen) {
  std::vector<std::string> newcomers;
  std::size_t count = 0;
  for (const assigned_ranks& ranks : chosen.by_group_rank) {
    const node& member = *from[ranks.candidate];
    if (member.ran) continue;
    ++count;
    if (newcomers.size() < names_in_text_max) newcomers.push_back(member.label());
  }
  current.news.clear();
  current.unable = {};
  // In the first round every node is new, and all nodes look new to a restarted daemon: that is no
  // news.
  if (count < chosen.by_group_rank.size() || current.gone.has_members()) {
    current.news = current.gone.change(newcomers, count);
    const std::uint32_t losses = current.budget.node_losses(real_now);
    if (current.gone.has_lost() && losses != 0) {
      current.news += " (node loss " + std::to_string(losses) + " of " +
                      std::to_string(current.settings->node_losses_max) + " within an hour)";
    }
  }
  if (!current.refusal.empty()) {
    current.news += (current.news.empty() ? "" : "; ") + current.refusal;
  }
  if (!current.taken_back.empty()) {
    current.news += (current.news.empty() ? "" : "; ") + current.taken_back;
  }
}

// The members were told: later changes are news for the next round.
void forget_changes(current_instance& current, roster& nodes) {
  current.gone = {};
  current.refusal.clear();
  current.taken_back.clear();
  for (const auto& [order, who] : nodes)
    who->ran.reset();
}

assignment assignment_of(const current_instance& current, const membership& of) {
  assignment assigned = current.common;
  assigned.group_rank = of.group_rank();
  assigned.rank_first = of.rank_first();
  assigned.in_role = of.in_role();
  return assigned;
}

// A restarted daemon lets every node wait, because it cannot know yet how many will come. Once a
// round is chosen, it refuses those beyond the spares, the newest first.
void refuse_excess(const run_options& options, const headcount& counts, current_instance& current,
                   recovery_claims& claims, outbox& out) {
  const std::uint64_t room =
      std::uint64_t{current.settings->nodes_max} + current.settings->spares_max;
  std::vector<node*> excess;
  for (auto entry = counts.nodes.rbegin(); entry != counts.nodes.rend(); ++entry) {
    node& who = *entry->second;
    if (counts.groups.here() - excess.size() <= room) break;
    if (who.counted && who.membership == nullptr && !who.hosts_us) excess.push_back(&who);
  }
  for (node* const who : excess)
    refuse(counts, current, claims, out, *who,
           "run " + options.run_id + " " + full_text(current, who->greeting.job));
}

namespace {

bool is_digit(char character) {
  return character >= '0' && character <= '9';
}

// Takes a run of digits from the front, without its leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length]))
    ++length;
  std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  while (digits.size() > 1 && digits.front() == '0')
    digits.remove_prefix(1);
  return digits;
}

// Survivors by their group rank; joiners by hint, host and join order.
bool ranks_before(const rank_candidate& left, const rank_candidate& right) {
  if (left.last_group_rank.has_value() != right.last_group_rank.has_value())
    return left.last_group_rank.has_value();
  if (left.last_group_rank && *left.last_group_rank != *right.last_group_rank) {
    return *left.last_group_rank < *right.last_group_rank;
  }
  constexpr auto no_hint = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t left_hint = left.node_rank ? *left.node_rank : no_hint;
  const std::uint64_t right_hint = right.node_rank ? *right.node_rank : no_hint;
  if (left_hint != right_hint) return left_hint < right_hint;
  if (left.host != right.host) return natural_less(left.host, right.host);
  return left.join_order < right.join_order;
}

// If all nodes have one role, which is nearly always so, no ranks within roles are given.
void rank_within_roles(const std::vector<rank_candidate>& candidates,
                       std::vector<assigned_ranks>& ranks_of_all) {
  std::map<std::string_view, std::uint32_t> counts;
  for (const assigned_ranks& ranks : ranks_of_all) {
    const rank_candidate& candidate = candidates[ranks.candidate];
    counts[candidate.role] += candidate.worker_count;
  }
  if (counts.size() <= 1) return;
  std::map<std::string_view, std::uint32_t> placed;
  for (assigned_ranks& ranks : ranks_of_all) {
    const rank_candidate& candidate = candidates[ranks.candidate];
    std::uint32_t& rank_first = placed[candidate.role];
    ranks.in_role = {rank_first, counts[candidate.role]};
    rank_first += candidate.worker_count;
  }
}

}  // namespace

bool natural_less(std::string_view left, std::string_view right) {
  const std::string_view whole_left = left;
  const std::string_view whole_right = right;
  while (!left.empty() && !right.empty()) {
    if (is_digit(left.front()) && is_digit(right.front())) {
      const std::string_view left_number = take_number(left);
      const std::string_view right_number = take_number(right);
      if (left_number.size() != right_number.size()) {
        return left_number.size() < right_number.size();
      }
      if (left_number != right_number) return left_number < right_number;
    } else {
      if (left.front() != right.front()) {
        return static_cast<unsigned char>(left.front()) < static_cast<unsigned char>(right.front());
      }
      left.remove_prefix(1);
      right.remove_prefix(1);
    }
  }
  if (left.empty() != right.empty()) return left.empty();
  return whole_left < whole_right;
}

rank_assignment assign_ranks(const std::vector<rank_candidate>& candidates,
                             std::uint32_t nodes_max) {
  std::vector<std::size_t> chosen(candidates.size());
  for (std::size_t index = 0; index < chosen.size(); ++index)
    chosen[index] = index;
  std::sort(chosen.begin(), chosen.end(), [&](std::size_t left, std::size_t right) {
    return ranks_before(candidates[left], candidates[right]);
  });
  if (chosen.size() > nodes_max) chosen.resize(nodes_max);

  const auto first_joiner = std::find_if(chosen.begin(), chosen.end(), [&](std::size_t index) {
    return !candidates[index].last_group_rank.has_value();
  });
  std::vector<std::size_t> order;  // by group rank, closed up
  order.reserve(chosen.size());
  auto survivor = chosen.begin();
  auto joiner = first_joiner;
  for (std::uint64_t group_rank = 0; order.size() < chosen.size(); ++group_rank) {
    // A survivor keeps its own group rank; the first one moves down to group rank 0 if that is
    // free.
    const bool survivor_stands_here =
        survivor != first_joiner &&
        (*candidates[*survivor].last_group_rank <= group_rank || group_rank == 0);
    if (survivor_stands_here) {
      order.push_back(*survivor++);
    } else if (joiner != chosen.end()) {
      order.push_back(*joiner++);
    } else {
      order.insert(order.end(), survivor, first_joiner);
      survivor = first_joiner;
    }
  }

  rank_assignment result;
  result.by_group_rank.reserve(order.size());
  for (const std::size_t index : order) {
    result.by_group_rank.push_back({index, result.world_size, std::nullopt});
    result.world_size += candidates[index].worker_count;
  }
  rank_within_roles(candidates, result.by_group_rank);
  return result;
}

namespace {

bool starts_with_no_case(std::string_view text, std::string_view prefix) {
  if (text.size() < prefix.size()) return false;
  for (std::size_t index = 0; index < prefix.size(); ++index) {
    if (std::tolower(static_cast<unsigned char>(text[index])) != prefix[index]) return false;
  }
  return true;
}

// fe80::/10, with or without a zone.
bool is_link_local(std::string_view address) {
  if (address.starts_with("169.254.")) return true;
  return starts_with_no_case(address, "fe8") || starts_with_no_case(address, "fe9") ||
         starts_with_no_case(address, "fea") || starts_with_no_case(address, "feb");
}

bool is_ipv6(std::string_view address) {
  return address.find(':') != std::string_view::npos;
}

bool on_another_host(const node_addresses& leader, const node_addresses& member) {
  const std::string_view seen_leader = unmapped(leader.seen);
  const std::string_view seen_member = unmapped(member.seen);
  if (seen_leader == seen_member) return false;
  // Both on the daemon's host, one by loopback, the other by an address of that host.
  const auto on_daemon_host = [](const node_addresses& node) {
    return is_loopback(unmapped(node.seen)) || unmapped(node.seen) == unmapped(node.local);
  };
  return !(on_daemon_host(leader) && on_daemon_host(member));
}

}  // namespace

std::string_view unmapped(std::string_view address) {
  constexpr std::string_view prefix = "::ffff:";
  if (starts_with_no_case(address, prefix) && address.find('.') != std::string_view::npos) {
    address.remove_prefix(prefix.size());
  }
  return address;
}

bool is_loopback(std::string_view address) {
  address = unmapped(address);
  return address == "::1" || address.starts_with("127.") || address == "localhost";
}

bool is_host_bound(std::string_view address) {
  address = unmapped(address);
  if (address.empty() || address == "0.0.0.0" || address == "::") return true;
  return is_loopback(address) ||
         (is_ipv6(address) ? is_link_local(address) : address.starts_with("169.254."));
}

std::string choose_master_address(const std::vector<node_addresses>& members) {
  if (members.empty()) return {};
  const node_addresses& leader = members.front();
  if (!leader.given.empty()) return std::string(unmapped(leader.given));

  const node_addresses* stranger = nullptr;
  for (const node_addresses& member : members) {
    if (on_another_host(leader, member)) {
      stranger = &member;
      break;
    }
  }
  const std::string_view own = unmapped(leader.own);
  const std::string_view seen = unmapped(leader.seen);
  if (members.size() == 1) return is_loopback(own) ? std::string(own) : "127.0.0.1";
  if (stranger == nullptr) {
    if (!own.empty() && own != "0.0.0.0" && own != "::") return std::string(own);
    return std::string(seen);
  }
  if (!is_host_bound(own)) return std::string(own);
  if (!is_host_bound(seen)) return std::string(seen);
  // The leader shares the daemon's host, so the other members reach it where they reached the
  // daemon.
  const std::string_view reached = unmapped(stranger->local);
  if (is_loopback(seen) && !is_host_bound(reached)) return std::string(reached);
  return std::string(own.empty() ? seen : own);
}

namespace {

// Whether `condition` holds for any node with the same given id or exact rank, including the node
// itself.
template <class Condition>
bool any_double(const roster& nodes, const hello& of, const Condition& condition) {
  const auto any = [&condition](const roster::same_by_order& same) {
    return std::any_of(same.begin(), same.end(),
                       [&condition](const auto& entry) { return condition(*entry.second); });
  };
  return (of.node_is_explicit && any(nodes.of_id(of.node))) ||
         (is_exact(of) && any(nodes.of_rank(*of.node_rank)));
}

std::string rank_used_by(const node& other) {
  return "node rank " + std::to_string(*other.greeting.node_rank) + " is already used by " +
         other.label() + " at " + other.peer_address +
         node_rank_advice(other.greeting.settings.nodes_max);
}

std::string id_used_by(const node& other) {
  return "node id " + other.label() + " is already used by a node at " + other.peer_address +
         ": give each node its own --node-id";
}

std::string used_by(const node& holder, const hello& other) {
  const bool have_one_rank =
      is_exact(holder.greeting) && is_exact(other) && holder.greeting.node_rank == other.node_rank;
  return have_one_rank ? rank_used_by(holder) : id_used_by(holder);
}

}  // namespace

std::vector<node*> doubles_of(const roster& nodes, const hello& of) {
  std::vector<node*> found;
  any_double(nodes, of, [&](node& other) {
    const bool is_known = std::find(found.begin(), found.end(), &other) != found.end();
    if (other.greeting.session != of.session && !is_known) found.push_back(&other);
    return false;
  });
  return found;
}

// Whether this node is the one that may use its id and rank: a member of the round comes first,
// then a node that is a candidate already, then the one that came first.
bool holds_its_place(const roster& nodes, const node& who) {
  const auto weight = [](const node& one) { return 2 * (one.membership != nullptr) + one.counted; };
  return !any_double(nodes, who.greeting, [&](const node& other) {
    const bool competes =
        &other != &who && other.group == who.group && other.connection != 0 && is_fit(other);
    if (!competes || weight(other) < weight(who)) return false;
    return weight(other) > weight(who) || other.order < who.order;
  });
}

// A node that replaces a candidate needs no room of its own.
bool replaces_one(const roster& nodes, const hello& of) {
  return any_double(nodes, of, [](const node& other) { return other.counted; });
}

// `other` has not been heard since `who` came from another host: its host may have lost power a
// moment ago, and `who` may be its replacement. The next heartbeat tells. An agent that holds this
// daemon is certainly alive.
bool may_be_dead(const node& other, const newcomer& who) {
  return !other.hosts_us && other.peer_address != who.peer_address && other.heard <= who.came;
}

// The refusal if a node that is heard already has this node id. A fenced node keeps its id: it
// comes again once it has ended its workers.
std::string id_problem(const current_instance& current, const roster& nodes, machine_time now,
                       const newcomer& who) {
  if (!who.greeting.node_is_explicit) return {};
  for (const auto& [order, other] : nodes.of_id(who.greeting.node)) {
    if (other->node_state == node_state::closing || !is_audible(current, now, *other)) continue;
    if (other->node_state == node_state::fenced || !may_be_dead(*other, who))
      return id_used_by(*other);
  }
  return {};
}

// The refusal if a node that is heard already has this exact rank.
std::string rank_problem(const current_instance& current, const roster& nodes, machine_time now,
                         const newcomer& who) {
  if (!is_exact(who.greeting)) return {};
  for (const auto& [order, other] : nodes.of_rank(*who.greeting.node_rank)) {
    const bool is_here = other->node_state == node_state::here && is_audible(current, now, *other);
    if (!is_here || other->greeting.session == who.greeting.session) continue;
    if (!may_be_dead(*other, who)) return rank_used_by(*other);
  }
  return {};
}

// `holder` has sent a message, so it was not dead: refuses the nodes that came for its id or rank
// since its previous message.
void refuse_doubles(const headcount& counts, current_instance& current, recovery_claims& claims,
                    outbox& out, const node& holder, machine_time word_before) {
  // After a longer silence the others were right to come; holds_its_place() decides between them.
  if (counts.now - word_before >= 3 * timing_of(current, holder).heartbeat_interval) return;
  for (node* const other : doubles_of(counts.nodes, holder.greeting)) {
    const bool waits = other->node_state == node_state::here && other->membership == nullptr;
    if (other->order > holder.order && waits && other->came > word_before &&
        may_be_dead(holder, {other->greeting, other->peer_address, counts.now}))
      refuse(counts, current, claims, out, *other, used_by(holder, other->greeting));
  }
}

}  // namespace ddprun::core
