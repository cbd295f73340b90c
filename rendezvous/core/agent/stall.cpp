// Ranks of this node that stand still: what the daemon is told of them, and what it answers.
#include "rendezvous/core/agent/state.hpp"

namespace ddprun::core {

void agent::state::handle(const ranks_stalled& event) {
  if (event.round != here.number() || here.phase() != member_phase::running) return;
  if (here.stall.set(event.stall, real_now)) changed = true;
}

// The leader's node is told, too, because that is where people look.
void agent::state::hear_hung(const desired& message) {
  const bool is_of_this = message.phase == desired_phase::run &&
                          message.instance == here.instance() && message.round == here.number();
  if (!message.hung || !is_of_this || here.phase() != member_phase::running) return;
  const std::uint32_t first = here.assignment()->rank_first;
  const std::uint32_t rank = message.hung->rank;
  if (rank >= first && rank - first < options.greeting.worker_count) {
    emit(name_hung{here.number(), *message.hung});
  } else {
    note(note_level::warning, message.hung->text);
  }
}

}  // namespace ddprun::core
