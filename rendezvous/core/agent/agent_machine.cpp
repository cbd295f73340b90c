#include "rendezvous/core/agent/agent_machine.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/agent/agent_state.hpp"

#include <algorithm>

namespace ddprun::core {

agent::agent(agent_options options) : state_(std::make_unique<state>(std::move(options))) {}
agent::~agent() = default;
agent::agent(agent&&) noexcept = default;
agent& agent::operator=(agent&&) noexcept = default;

void agent::start(time_point now, agent_effects& effects) {
  state_->effects = &effects;
  state_->set_time(now);
  state_->daemon.start(state_->now);
  state_->emit(connect_daemon{});
  state_->effects = nullptr;
}

void agent::step(const agent_event& event, time_point now, agent_effects& effects) {
  state& self = *state_;
  // `leave` was the last effect.
  if (self.left) return;
  self.set_time(now);
  self.effects = &effects;
  std::visit([&self](const auto& value) { self.handle(value); }, event);
  if (!self.left) self.send_status_if_due();
  self.effects = nullptr;
}

std::optional<time_point> agent::next_deadline() const {
  if (state_->left) return std::nullopt;
  return next_due(*state_, state::timer_table());
}

const timers& agent::timing() const {
  return state_->timing;
}

// The guardian's limit, in case the caller stands still. If a run has only one node, which holds
// the daemon, too, there is no other node, and it may go on whenever it wakes up.
std::optional<time_point> agent::workers_live_until() const {
  const state& self = *state_;
  const hello& greeting = self.options.greeting;
  const bool is_all = greeting.hosts_daemon && greeting.settings.nodes_max == 1;
  if (self.left || self.local.workers.living() == 0 || (is_all && self.local.is_alone()))
    return std::nullopt;
  return isolation_deadline(self.local, self.daemon, self.timing, self.clock);
}

std::optional<agent::worker_group_rank> agent::group_rank_of_workers() const {
  const local_round& local = state_->local;
  const std::optional<assignment>& assigned = local.assignment();
  // In a round of one node no other member exists that would have to wait for these workers.
  if (state_->left || !assigned || assigned->group_world_size == 1) return std::nullopt;
  switch (local.phase()) {
    case member_phase::assigned:
    case member_phase::starting:
    case member_phase::running:
    case member_phase::failed:
    case member_phase::stopping:
      return worker_group_rank{local.instance(), local.number(), assigned->group_rank,
                               assigned->rank_first};
    case member_phase::joined:
    case member_phase::preparing:
    case member_phase::succeeded:
    case member_phase::stopped:
    case member_phase::lost:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string agent::why(time_point now) const {
  state_->set_time(now);
  return why_text(state_->options, state_->endpoint_index, state_->newest, state_->wait,
                  state_->local, state_->shutdown, state_->search());
}

member_phase agent::phase() const {
  return state_->local.phase();
}
round_number agent::round() const {
  return state_->local.number();
}

agent::state::state(agent_options given)
    : options(std::move(given)), timing(options.greeting.settings.timing), random(options.seed) {
  DDPRUN_ASSERT(!options.endpoints.empty());
  for (const std::string& one : options.endpoints)
    endpoints_text += (endpoints_text.empty() ? "" : " or ") + one;
}

void agent::state::set_time(time_point real) {
  clock.set(real);
  now = clock.now();
  real_now = real;
}

void agent::state::emit(agent_effect effect) {
  effects->push_back(std::move(effect));
}

void agent::state::note(note_level level, std::string text) {
  emit(agent_note{level, std::move(text)});
}

void agent::state::finish(leave last) {
  if (left) return;
  let_go();
  close_service_here();
  // A goodbye proves that no worker lives: the daemon starts the next round on it.
  if (local.workers.living() == 0 && daemon.is_in_session())
    // It comes after let_go(), because the daemon then counts this node's tethers as gone, too.
    emit(send_to_daemon{goodbye{options.greeting.session}});
  emit(std::move(last));
  left = true;
}

void agent::state::handle(const daemon_said& event) {
  if (!event.message || !daemon.is_connected()) return;
  daemon.heard(now);
  if (const auto* first = std::get_if<welcome>(event.message.get())) {
    welcomed_by(*first);
  } else if (const auto* message = std::get_if<ack>(event.message.get())) {
    acked_by(*message);
  } else if (const auto* order = std::get_if<desired>(event.message.get())) {
    told(*order);
  } else if (const auto* no = std::get_if<refused>(event.message.get())) {
    refused_by(*no);
  } else if (const auto* other = std::get_if<not_primary>(event.message.get())) {
    turned_away_by(*other);
  }
}

void agent::state::handle(const agent_loop_was_late& event) {
  was_late(std::clamp<duration>(event.by, duration::zero(), std::chrono::hours(24)));
}

void agent::state::handle(const agent_time_passed&) {
  for (const auto& one : timer_table()) {
    if (!left) do_if_due(*this, one);
  }
}

// In the order in which they are judged: what must end workers comes first.
std::span<const machine_timer<agent::state>> agent::state::timer_table() {
  using row = machine_timer<state>;
  static constexpr row table[] = {
      {[](const state& agent) -> timer_moment {
         return isolation_deadline(agent.local, agent.daemon, agent.timing, agent.clock);
       },
       &state::on_isolation},
      {[](const state& agent) -> timer_moment { return agent.local.unclear.deadline(); },
       &state::on_unclear_over},
      {[](const state& agent) -> timer_moment {
         return own_stop_deadline(agent.local, agent.daemon, agent.timing, agent.clock);
       },
       &state::on_nobody_says_stop},
      {[](const state& agent) -> timer_moment { return agent.local.workers.deadline(); },
       &state::on_workers_overdue},
      {[](const state& agent) -> timer_moment {
         return drain_deadline(agent.shutdown, agent.daemon, agent.timing, agent.clock);
       },
       &state::leave_if_drained},
      {[](const state& agent) -> timer_moment { return reach_deadline(agent.local, agent.timing); },
       &state::on_leader_unreachable},
      {[](const state& agent) -> timer_moment { return agent.local.tether.beat_deadline(); },
       &state::beat_if_due},
      {[](const state& agent) -> timer_moment {
         return agent.local.tether.silence_deadline(silence_limit(agent.timing));
       },
       &state::on_tether_silent},
      {[](const state& agent) -> timer_moment {
         return agent.daemon.silence_deadline(silence_limit(agent.timing));
       },
       &state::on_daemon_silent},
      {[](const state& agent) -> timer_moment {
         return join_deadline(agent.local, agent.daemon, agent.timing, agent.clock);
       },
       &state::on_no_daemon},
      // step() sends a status that is due after every event.
      {[](const state& agent) -> timer_moment {
        return agent.daemon.status_due(agent.timing.heartbeat_interval);
      }},
  };
  return table;
}

}  // namespace ddprun::core
