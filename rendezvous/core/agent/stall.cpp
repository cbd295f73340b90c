// Ranks of this node that stand still: what the daemon is told of them, and what it answers.
#include "rendezvous/core/agent/state.hpp"

namespace ddprun::core {

void agent::state::handle(const ranks_stalled& event) {
  if (event.round != local.number() || local.phase() != member_phase::running) return;
  if (local.stall.set(event.stall, real_now)) changed = true;
}

// The leader's node is told, too, because that is where people look.
void agent::state::hear_hung(const desired& message) {
  const bool is_of_this = message.phase == desired_phase::run &&
                          message.instance == local.instance() && message.round == local.number();
  if (!message.hung || !is_of_this || local.phase() != member_phase::running) return;
  const std::uint32_t first = local.assignment()->rank_first;
  const std::uint32_t rank = message.hung->rank;
  if (rank >= first && rank - first < options.greeting.worker_count) {
    emit(name_hung{local.number(), *message.hung});
  } else {
    note(note_level::warning, message.hung->text);
  }
}

}  // namespace ddprun::core
