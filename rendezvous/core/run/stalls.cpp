// Ranks that stand still on all nodes of a round: which of them hangs. DESIGN.md, rule 15.
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/core/run/state.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::core {
namespace {

constexpr std::size_t sentence_bytes_max = 500;

// Of a member that runs; none: its ranks move, or nobody looks there.
const std::optional<stall>& stall_of(const current_instance& current, const round_numbers& rounds,
                                     const membership& one) {
  static const std::optional<stall> none;
  const node* const member = one.holder();
  if (member == nullptr || member->connection == 0) return none;
  const status& said = member->state;
  const bool runs = said.instance == current.id && said.round == rounds.newest() &&
                    said.phase == member_phase::running;
  return runs ? said.stall : none;
}

}  // namespace

// With each heartbeat of a node whose ranks stand still; those of others cost nothing.
void run::state::hear_stall(const node& who, const status& before) {
  if (phase != run_phase::running || memberships.size() == 1) return;
  if (who.state.stall) {
    stalls.hear(now);
  } else if (before.stall) {
    stalls.move();
  }
}

void run::state::look_at_stalls() {
  std::vector<stalled_ranks> ranks;
  stall_scope scope{true, false};
  duration age = duration::max();
  bool do_all_stand = phase == run_phase::running;
  for (const membership& one : memberships) {
    if (!do_all_stand) break;
    if (one.has_succeeded()) continue;
    const auto& said = stall_of(current, rounds, one);
    std::vector<stalled_ranks> own;
    if (said) own = within(said->ranks, one.rank_first(), one.holder()->greeting.worker_count);
    do_all_stand = !own.empty();
    if (own.empty()) break;
    age = std::min(age, said->age);
    scope.needs_waiting = scope.needs_waiting || said->is_learnt;
    std::move(own.begin(), own.end(), std::back_inserter(ranks));
  }
  if (!stalls.look(do_all_stand) || ranks.empty()) return;
  const std::string sentence(first_of(sentence_of(ranks), sentence_bytes_max));
  const std::string text = "no rank of this run has moved for " + to_text(age) +
                           (sentence.empty() ? "" : ": " + sentence);
  const auto hung = rank_that_hangs(ranks, scope);
  if (hung) return tell_hung(*hung, text);
  if (!sentence.empty()) note(note_level::warning, text + "; who it is cannot be said");
}

void run::state::tell_hung(std::uint32_t rank, const std::string& text) {
  for (membership& one : memberships) {
    node* const member = one.holder();
    if (member == nullptr || one.has_succeeded()) continue;
    const bool is_its =
        rank >= one.rank_first() && rank - one.rank_first() < member->greeting.worker_count;
    if (!is_its && one.group_rank() != 0) continue;
    ddprun::desired value = base_desired(desired_phase::run);
    value.assignment = assignment_of(current, one);
    value.hung =
        hung_rank{rank, is_its ? text : "rank " + std::to_string(rank) + " hangs: " + text};
    want(*member, finished(std::move(value)));
  }
  note(note_level::warning, "rank " + std::to_string(rank) + " hangs: " + text);
}

}  // namespace ddprun::core
