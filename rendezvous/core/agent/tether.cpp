// Both ends of the tether.
//
// A member sends its next beat only once the last one was answered. So a beat tells the leader that
// the member got the answer before it, and the leader can count from when it gave that answer: both
// ends count from their own sending, and no delay on the way makes either believe too long.
#include "rendezvous/core/agent/state.hpp"

#include <algorithm>

namespace ddprun::core {

// ---- the member's end --------------------------------------------------------------------------

void agent::state::dial(duration delay) {
  tether.answered = false;
  tether.waiting = false;
  tether.waiting_since = now + delay;
  if (!tether.hello_pending) tether.hello_since = now;
  tether.hello_pending = true;
  emit(dial_tether{round, place->master_address, place->tether_port, delay,
                   tether_hello{instance, round, options.greeting.session, place->slot}});
}

void agent::state::dial_again(std::string text) {
  tether.error = std::move(text);
  const unsigned doublings = std::min(tether.attempts, 10U);
  ++tether.attempts;
  const duration step = timing.heartbeat_interval / 20;
  dial(jittered(std::min<duration>(timing.heartbeat_interval / 2, step * (1U << doublings))));
}

void agent::state::handle(const tether_connected&) {}  // The answer to the hello is what counts.

void agent::state::handle(const tether_disconnected& event) {
  if (event.round != round || !tether.wanted) return;
  tether.hello_pending = false;
  dial_again(event.text);
}

void agent::state::handle(const tether_answered& event) {
  if (event.round != round || !tether.wanted) return;
  moment sent;
  if (event.seq == 0) {
    // After a redial this may be the answer to an older hello: count from the oldest.
    if (!tether.hello_pending) return;
    sent = tether.hello_since;
    tether.hello_pending = false;
    tether.answered = true;
    tether.attempts = 0;
    tether.beat_due = tether.hello_since + timing.heartbeat_interval;
  } else {
    if (!tether.waiting || event.seq != tether.beat_seq) return;
    sent = tether.waiting_since;
    tether.waiting = false;
    tether.beat_due = *sent + timing.heartbeat_interval;
  }
  if (!tether.vouched || *sent > *tether.vouched) tether.vouched = sent;
  vouched_anew();
  spawn_when_vouched();
  if (tether.wanted && now >= tether.beat_due) send_beat();
}

void agent::state::send_beat() {
  tether.waiting = true;
  tether.waiting_since = now;
  emit(send_tether_beat{{++tether.beat_seq, phase == member_phase::succeeded}});
}

agent::state::moment agent::state::tether_deadline() const {
  if (!tether.wanted) return std::nullopt;
  if (tether.answered && !tether.waiting) return tether.beat_due;
  return tether.waiting_since + silence_limit();
}

// A node that cannot reach its leader says so well before start_timeout, with both addresses.
agent::state::moment agent::state::reach_deadline() const {
  if (phase != member_phase::assigned || !tether.wanted) return std::nullopt;
  return round_began + timing.start_timeout / 2;
}

void agent::state::check_tether() {
  if (const moment reach = reach_deadline(); reach && now >= *reach) {
    ddprun::cause why;
    why.kind = cause_class::start;
    why.text = tether_failure_text();
    emit(drop_tether{});
    tether.wanted = false;
    fail(std::move(why));
  }
  const moment due = tether_deadline();
  if (!due || now < *due) return;
  if (tether.answered && !tether.waiting) {
    send_beat();
  } else {
    emit(drop_tether{});
    dial_again("no answer for " + to_text(silence_limit()));
  }
}

// ---- the leader's end --------------------------------------------------------------------------

bool agent::state::accepts_tethers() const {
  return is_leader() && in_round() && phase != member_phase::stopping && service_wanted;
}

void agent::state::handle(const member_attached& event) {
  const tether_hello& hello = event.hello;
  std::string refusal;
  if (!accepts_tethers() || hello.round != round || hello.instance != instance) {
    refusal =
        "round " + std::to_string(hello.round) + " is not on at node " + options.greeting.node;
  } else if (hello.slot == 0 || hello.slot >= group_world_size) {
    refusal = "round " + std::to_string(round) + " has no member " + std::to_string(hello.slot);
  } else if (const auto known = held.by_slot.find(hello.slot);
             known != held.by_slot.end() && known->second.session != hello.session) {
    refusal = "member " + std::to_string(hello.slot) + " of round " + std::to_string(round) +
              " is another agent";
  }
  if (!refusal.empty()) {
    emit(refuse_member{event.tether, std::move(refusal)});
    return;
  }
  held_slot& member = held.by_slot[hello.slot];
  member.session = hello.session;
  if (held.by_tether.erase(member.tether) > 0) {
    emit(refuse_member{member.tether, "a newer tether of the same member has come"});
  }
  member.tether = event.tether;
  held_tether& link = held.by_tether[event.tether];
  link = {hello.slot, 0, std::nullopt};
  // A leader that nobody vouches for vouches for nobody.
  if (vouched()) {
    link.answered = now;
    emit(answer_member{event.tether, 0});
  }
}

void agent::state::handle(const member_beat& event) {
  const auto found = held.by_tether.find(event.tether);
  if (found == held.by_tether.end() || event.beat.seq <= found->second.beat_seq) return;
  held_tether& link = found->second;
  link.beat_seq = event.beat.seq;
  if (!event.beat.succeeded) held.needed_at = now;
  if (link.answered) {
    held_slot& member = held.by_slot[link.slot];
    if (!member.vouched || *link.answered > *member.vouched) {
      if (member.vouched) held.by_age.erase({*member.vouched, link.slot});
      member.vouched = link.answered;
      held.by_age.insert({*member.vouched, link.slot});
      vouched_anew();
      spawn_when_vouched();
    }
  }
  link.answered.reset();
  if (accepts_tethers() && vouched()) {
    link.answered = now;
    emit(answer_member{event.tether, event.beat.seq});
  }
}

void agent::state::handle(const member_detached& event) {
  held.by_tether.erase(event.tether);
}

}  // namespace ddprun::core
