// What people are told about a run: why it waits, and all of it as values.
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/rank_text.hpp"
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/core/messages/wait_text.hpp"
#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>
#include <vector>

namespace ddprun::core {

namespace {

constexpr std::size_t names_max = 8;  // in one sentence
// Looking for missing nodes costs a step for each rank, so it is done only when few are missing.
constexpr std::uint32_t missing_max = 64;

std::string nodes_text(const run_settings& settings) {
  if (settings.nodes_min == settings.nodes_max) return counted(settings.nodes_max, "node");
  return std::to_string(settings.nodes_min) + " to " + counted(settings.nodes_max, "node");
}

}  // namespace

// "; here: node-a (2 workers), node-b (1 worker)".
std::string here_text(const gathering& groups) {
  std::string text;
  std::size_t named = 0;
  for (const auto& [order, who] : groups.counted()) {
    if (named == names_max) break;
    text += (named++ == 0 ? "; here: " : ", ") + who->label() + " (" +
            counted(who->greeting.worker_count, "worker") + ")";
  }
  const std::size_t here = groups.here();
  if (here > named) text += " and " + std::to_string(here - named) + " more";
  return text;
}

// " (node ranks 1 and 3 to 5)"; empty: ranks are hints, or too many are missing.
std::string missing_ranks(const roster& nodes, const settings_group& group) {
  const std::uint32_t count = group.settings().nodes_max;
  const bool are_exact = group.settings().ranks == rank_policy::exact;
  if (!are_exact || count - group.here() > missing_max) return {};
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const auto& same = nodes.of_rank(rank);
    const bool is_here = std::any_of(same.begin(), same.end(), [&](const auto& entry) {
      return entry.second->counted && entry.second->group == &group;
    });
    if (!is_here) missing.push_back(rank);
  }
  return missing.empty() ? "" : " (node " + text_of_ranks(missing) + ")";
}

std::string gathering_reason(const run_options& options, const entered_phase& phase,
                             const current_instance& current, const recovery_claims& claims,
                             const stale_workers& stale, const closed_instances& closed,
                             const persisted_run& persisted, const roster& nodes,
                             const gathering& groups, const wait_message& waiting,
                             const machine_clock& clock) {
  if (claims.has_claimants()) {
    return "nodes have come that are in a round of which this daemon has no record: waiting for "
           "the other nodes of that round" +
           here_text(groups);
  }
  if (is_recovering(phase, claims)) {
    return "the daemon has just started and waits for nodes that may still have workers of this "
           "run" +
           here_text(groups);
  }
  if (groups.empty()) return "waiting for nodes; none is here";
  std::vector<const settings_group*> by_size;
  for (const settings_group& group : groups) {
    if (group.here() != 0) by_size.push_back(&group);
  }
  std::stable_sort(by_size.begin(), by_size.end(), [](const auto* left, const auto* right) {
    return left->here() > right->here();
  });
  const settings_group& group = by_size.empty() ? groups.first() : *by_size.front();
  const run_settings& wanted = group.settings();
  std::string text;
  const bool waits = !group.has_enough();
  if (waits) {
    const std::uint32_t missing = wanted.nodes_min - group.here();
    text = "waiting for " + std::to_string(missing) + " of " + nodes_text(wanted) +
           missing_ranks(nodes, group);
  } else if (group.is_full()) {
    text = "all of " + nodes_text(wanted) + " are here";
  } else {
    text = "enough nodes are here (" + std::to_string(group.here()) + " of " + nodes_text(wanted) +
           "), last call for more nodes";
  }
  text += here_text(groups);
  if (by_size.size() > 1) text += disagreement(options, groups, *by_size[0], *by_size[1]);
  // Of interest only as long as a node is missing.
  if (!current.refusal.empty() && !group.is_full()) text += "; " + current.refusal;
  if (waits) text += neighbour_text(waiting.neighbour());
  text += stale_reason(current, stale, closed, persisted, nodes, clock);
  if (const roster::orders& stuck = nodes.stuck(); !stuck.empty()) {
    const node& first = nodes.at(*stuck.begin());
    text += "; " + first.label() +
            (first.obedience == obedience::ignores ? " does not carry out what the daemon orders"
                                                   : " has workers that do not end");
    if (stuck.size() > 1) text += " (and " + counted(stuck.size() - 1, "more node") + ")";
  }
  return text;
}

std::string stopping_reason(const current_instance& current, const round_numbers& rounds,
                            const round_memberships& memberships, const round_stop& stop,
                            const timers& timing) {
  const std::string head =
      "stopping round " + std::to_string(rounds.newest()) + " (" + current.last_end + ")";
  std::string names;
  std::size_t count = 0;
  // Names the reachable members that still stop; once there are none, the unreachable ones.
  const bool all_reached_are_down = memberships.are_all_ended_or_unreachable();
  const worker_liveness wanted =
      all_reached_are_down ? worker_liveness::unreachable : worker_liveness::in_reach;
  for (const membership& one : memberships) {
    if (one.liveness() != wanted) continue;
    if (++count > names_max) continue;
    if (count != 1) names += ", ";
    names += one.holder() == nullptr ? "group rank " + std::to_string(one.group_rank())
                                     : one.holder()->label();
  }
  if (count > names_max) names += " and " + std::to_string(count - names_max) + " more";
  if (count == 0) return head;
  if (!all_reached_are_down) return head + ", waiting for " + names;
  if (!stop.has_let_go()) {
    return head + "; no node of it can be reached, so its workers may still run: " + names +
           "; waiting until one of them comes back, or for " + to_text(timing.orphan_limit) +
           " (orphan_limit)";
  }
  return head + "; " + names + " cannot be reached: waiting until its workers must have ended";
}

// Without durations: the text is shared by all who wait, and sent again only when it changes.
std::string run::state::reason() const {
  switch (phase) {
    case run_phase::gathering:
      return gathering_reason(options, phase, current, claims, stale, closed, persisted, nodes,
                              groups, waiting, clock);
    case run_phase::settling:
      if (settle.is_pausing(now)) {
        return "the next round waits " +
               to_text(current.quick.pause(timing_of(current, groups).backoff_max)) + ": " +
               quick_row_text(current, timing_of(current, groups)) + here_text(groups);
      }
      if (settle.is_for_messages())
        return "waiting to hear from nodes that were silent" + here_text(groups);
      return "waiting a moment in case more nodes are lost or join (settle), after: " +
             current.last_end + here_text(groups);
    case run_phase::preparing:
      if (is_prepared(current, rounds, memberships) && !is_recorded()) {
        return "round " + std::to_string(rounds.newest()) +
               " is prepared; waiting for the journal's disk";
      }
      return "round " + std::to_string(rounds.newest()) + ": " + memberships.leader().label() +
             " prepares it for " + counted(memberships.size(), "node");
    case run_phase::running: {
      const std::string head = "round " + std::to_string(rounds.newest()) + " of " +
                               counted(memberships.size(), "node") + " and " +
                               counted(current.common.world_size, "worker");
      if (memberships.running() < memberships.size()) {
        return head + " starts; running on " + std::to_string(memberships.running()) + " of " +
               counted(memberships.size(), "node");
      }
      if (memberships.succeeded() == 0) return head + " runs";
      std::string text = head + " runs; " + counted(memberships.succeeded(), "node") +
                         (memberships.succeeded() == 1 ? " is" : " are") + " done, waiting for ";
      std::size_t named = 0;
      for (const membership& one : memberships) {
        if (one.phase() == member_phase::succeeded) continue;
        if (named == names_max) {
          text += " and more";
          break;
        }
        text += (named++ == 0 ? "" : ", ") + one.holder()->label();
      }
      return text;
    }
    case run_phase::stopping:
      return stopping_reason(current, rounds, memberships, stop, timing_of(current, groups));
    case run_phase::closed:
      return "closed: " + current.last_end;
  }
  return {};
}

std::string run::why(time_point real_now) const {
  const state& self = *state_;
  const machine_time now = self.clock.own(real_now);
  if (self.phase == run_phase::gathering && !self.current.is_decided() && self.nodes.empty()) {
    if (!self.persisted.is_there()) return "no node has joined";
    return "this run was active when the last daemon ended; no node has come back yet";
  }
  std::string text = self.reason();
  const auto gone = self.current.gone.told(real_now);
  const bool may_be_missed = self.phase == run_phase::gathering ||
                             (self.phase == run_phase::settling && self.settle.is_pausing(now));
  if (gone && may_be_missed) text += "; " + sentence_of(*gone);
  const std::string left_out = self.current.failing.text();
  if (!left_out.empty() && self.phase != run_phase::closed) {
    text += "; left out, as workers there were the first to fail too often: " + left_out;
  }
  if (const std::string ill = unhealthy_text(self.nodes);
      !ill.empty() && self.phase != run_phase::closed) {
    text += "; not taking part: " + ill;
  }
  if (const auto stall = stall_seen(self.phase, self.current, self.rounds, self.memberships))
    text += "; " + stall->text;
  const machine_time since = self.phase.since();
  if (since != machine_time{}) text += "; for " + to_text(now - since);
  return text;
}

run_sizes run::sizes() const {
  const state& self = *state_;
  run_sizes sizes;
  sizes.nodes = self.nodes.size();
  sizes.absent = static_cast<std::size_t>(
      std::count_if(self.nodes.begin(), self.nodes.end(), [](const auto& entry) {
        return entry.second->connection == 0 && entry.second->membership == nullptr;
      }));
  sizes.settings_groups = self.groups.size();
  sizes.closed_instances = self.closed.size();
  sizes.absent_at_close = self.closed.absent_count();
  return sizes;
}

member_view member_seen(const round_memberships& memberships, const node& who, machine_time at) {
  member_view one;
  one.node = who.label();
  one.host = who.greeting.host;
  one.address = who.peer_address;
  one.role = who.greeting.role;
  one.worker_count = who.greeting.worker_count;
  one.phase = who.state.phase;
  if (who.membership != nullptr) {
    one.group_rank = who.membership->group_rank();
    one.rank_first = who.membership->rank_first();
    // As this daemon judges it: a node never calls itself lost.
    one.phase = who.membership->phase();
  }
  one.connected = who.connection != 0;
  one.spare = !memberships.empty() && who.membership == nullptr && who.counted;
  one.since_heard = at - who.heard;
  return one;
}

run_view run::view(time_point now, std::size_t first, std::size_t most) const {
  const state& self = *state_;
  run_view view;
  view.run_id = self.options.run_id;
  view.instance = self.current.id;
  view.phase = self.phase;
  view.round = self.rounds.newest();
  view.restarts_used = self.current.budget.restarts_used();
  view.restarts_forgiven = self.current.budget.restarts_forgiven();
  view.node_losses = self.current.budget.node_losses(now);
  view.settings = self.current.settings;
  view.world_size = self.memberships.empty() ? 0 : self.current.common.world_size;
  view.master_address = self.current.common.master_address;
  view.master_port = self.current.common.master_port;
  view.leader_node = self.current.common.leader_node;
  view.leader_data = self.current.common.leader_data;
  if (self.phase == run_phase::closed && !self.closed.empty()) {
    view.exit_code = self.closed.newest().exit_code;
  }
  view.root_cause = self.current.last_cause;
  view.reports.assign(self.current.reports.begin(), self.current.reports.end());
  view.why = why(now);
  view.stall = stall_seen(self.phase, self.current, self.rounds, self.memberships);
  view.member_count = self.nodes.size();
  std::size_t index = 0;
  const auto show = [&](const node& who) {
    if (index++ >= first && view.members.size() < most) {
      view.members.push_back(member_seen(self.memberships, who, self.clock.own(now)));
    }
  };
  for (const membership& one : self.memberships) {
    if (one.holder() != nullptr) show(*one.holder());
  }
  for (const auto& [order, who] : self.nodes) {
    if (view.members.size() >= most) break;
    if (who->membership == nullptr) show(*who);
  }
  return view;
}

namespace {

// The limits for one label and one address: a fully qualified name with a suffix, an IPv6 address
// with a zone.
constexpr std::size_t label_bytes_max = 72;
constexpr std::size_t address_bytes_max = 56;
// " and 999999 more nodes with 4294967295 workers"
constexpr std::size_t rest_bytes_max = 48;

std::string shortened(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  return std::string(first_of(text, bytes_max - 3)) + "...";
}

std::string text_of(const named_member& one, bool shows_address) {
  std::string text = std::to_string(one.rank_first);
  if (one.worker_count > 1) text += "-" + std::to_string(one.rank_first + one.worker_count - 1);
  text += " on " + shortened(one.label, label_bytes_max);
  if (shows_address && !one.address.empty()) {
    text += " (" + shortened(one.address, address_bytes_max) + ")";
  }
  return text;
}

}  // namespace

std::string members_text(const std::vector<named_member>& first, std::uint32_t nodes,
                         std::uint32_t world_size) {
  std::string text = world_size == 1 ? "rank " : "ranks ";
  std::uint32_t named = 0;
  std::uint32_t ranks = 0;
  for (const named_member& one : first) {
    if (named == members_named_max) break;
    const std::string piece = (named == 0 ? "" : ", ") + text_of(one, nodes > 1);
    if (text.size() + piece.size() + rest_bytes_max > members_text_max) break;
    text += piece;
    ++named;
    ranks += one.worker_count;
  }
  if (named >= nodes) return text;
  return text + " and " + counted(nodes - named, "more node") + " with " +
         counted(world_size - std::min(ranks, world_size), "worker");
}

std::string_view known_address(const node_addresses& node, std::string_view daemon_host) {
  if (!node.given.empty()) return unmapped(node.given);
  if (!is_host_bound(node.own)) return unmapped(node.own);
  if (!is_host_bound(node.seen)) return unmapped(node.seen);
  if (is_loopback(node.seen) && !is_host_bound(daemon_host)) return unmapped(daemon_host);
  return unmapped(node.own.empty() ? node.seen : node.own);
}

}  // namespace ddprun::core
