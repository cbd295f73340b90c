// What the daemon wants, and what that means to a node that may still be busy with an older order.
#include "rendezvous/core/agent/desired_state.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/agent/agent_state.hpp"
#include "rendezvous/core/agent/agent_text.hpp"
#include "rendezvous/core/messages/validation.hpp"
#include "rendezvous/core/messages/wait_text.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

namespace {

// The text of a stop is repeated by the report, once the root cause is known; that of a close when
// this node leaves.
bool is_said_later(const desired& message) {
  if (message.phase == desired_phase::close) return true;
  return message.phase == desired_phase::stop && !message.is_unreported;
}

}  // namespace

// A run that goes on without this node closes it with 0; a run all of whose nodes were asked to
// leave, with the signal's code. Any other code is the run's own.
leave_reason reason_of_close(const local_round& local, const shutdown_state& shutdown,
                             int exit_code) {
  const bool is_of_drain = exit_code == 0 || exit_code == shutdown.exit_code();
  const bool was_at_work = local.phase() != member_phase::succeeded;
  return shutdown.is_draining() && is_of_drain && was_at_work ? leave_reason::drained
                                                              : leave_reason::run_over;
}

void agent::state::told(const desired& message) {
  if (!daemon.is_in_session() || shutdown.leaving()) return;
  if (const std::string problem = problem_of(message); !problem.empty()) {
    const std::string text = "its order is invalid: " + problem;
    note_first_failure(text);
    return drop_daemon(text);
  }
  confirm_session();
  if (!newest.take(message)) return;
  changed = true;
  if (message.instance != 0) job = message.job;
  if (message.instance == local.instance()) hear_restarts(message);
  wait.hear(message, real_now);
  if (newest.take_warning(message.warning)) note(note_level::warning, message.warning);
  if (newest.take_news(message.news)) note(note_level::info, message.news);
  hear_hung(message);
  if (newest.take_text(message.text)) {
    const bool waits = message.phase == desired_phase::wait;
    note(is_said_later(message) ? note_level::debug : note_level::info,
         waits ? where_text(options, endpoint_index) + wait.text(message.text, real_now)
               : message.text);
  }

  // Close and fence are obeyed at once, whatever lives here, and replace what was deferred.
  if (message.phase == desired_phase::close) {
    newest.drop_deferred();
    shutdown.leave_with({message.exit_code, message.text, message.root_cause,
                         reason_of_close(local, shutdown, message.exit_code)});
    ask_to_end(message);
    return;
  }
  if (message.phase == desired_phase::fence) {
    newest.drop_deferred();
    fence();
    return;
  }
  // Workers of another instance are fenced like those of an older round, whatever is wanted next.
  if (local.instance() != 0 && message.instance != local.instance() && !local.has_nothing_on()) {
    newest.defer(message);
    fence();
    return;
  }
  obey(message);
}

// Obeys an order that may have to wait until older workers are gone.
void agent::state::obey(const desired& message) {
  switch (message.phase) {
    case desired_phase::wait:
      return obey_wait(message);
    case desired_phase::prepare:
      return obey_prepare(message);
    case desired_phase::run:
      return obey_run(message);
    case desired_phase::stop:
      return obey_stop(message);
    case desired_phase::fence:
    case desired_phase::close:
      return;
  }
}

// The charges never fall within an instance.
void agent::state::hear_restarts(const desired& message) {
  restarts_used = std::max(restarts_used, message.restarts_used);
  restarts_forgiven = std::max(restarts_forgiven, message.restarts_forgiven);
}

void agent::state::enter_instance(instance_id value) {
  if (local.instance() == value) return;
  if (local.instance() != 0) emit(end_survivors{});
  replace_round(local_round(value, 0));
  restarts_used = restarts_forgiven = 0;
}

// A fenced node says that it is in no round, so a restarted daemon may give out a number that was
// used here.
bool agent::state::has_left(const desired& message) const {
  return message.instance == entered_instance && message.round <= entered_round;
}

// Reporting "stopped" ends such a round at once; the next one has a new number.
void agent::state::stay_out(round_number number) {
  replace_round(local_round(local.instance(), number));
  local.stay_out();
}

void agent::state::obey_wait(const desired& message) {
  if (!local.has_nothing_on()) {
    newest.defer(message);
    // While a stop is under way, its own grace counts.
    if (local.phase() != member_phase::stopping) take_down(force::ask, timing.stop_grace);
    return;
  }
  newest.drop_deferred();
  enter_instance(message.instance);
  replace_round(local_round(local.instance(), local.number()));
  hear_restarts(message);
}

void agent::state::obey_prepare(const desired& message) {
  if (shutdown.is_draining()) return;  // The status says so, and such a node is no candidate.
  if (message.instance == local.instance() && message.round <= local.number()) return;
  if (!local.has_nothing_on()) {
    // The new round has begun, so what still lives here of an older one must not live on.
    newest.defer(message);
    take_down(force::kill);
    return;
  }
  newest.drop_deferred();
  enter_instance(message.instance);
  if (has_left(message)) return stay_out(message.round);
  begin_round(message.round);
  hear_restarts(message);
  local.prepare(std::max(1U, message.group_world_size));
  emit(open_service{local.number(), local.group_world_size(), message.world_size,
                    message.master_address});
}

void agent::state::obey_run(const desired& message) {
  if (shutdown.is_draining()) return;
  if (message.instance == local.instance() && message.round <= local.number()) {
    // A round that was left is never entered again. For one that is on, these are only newer words.
    const bool is_awaited =
        message.round == local.number() && local.phase() == member_phase::preparing;
    if (is_awaited && message.assignment) take_assignment(message);
    return;
  }
  if (!local.has_nothing_on()) {
    newest.defer(message);
    take_down(force::kill);
    return;
  }
  newest.drop_deferred();
  enter_instance(message.instance);
  if (has_left(message)) return stay_out(message.round);
  begin_round(message.round);
  hear_restarts(message);
  take_assignment(message);
}

void agent::state::obey_stop(const desired& message) {
  // The stop of an older round says nothing about a newer one that has begun here.
  if (message.instance == local.instance() && message.round < local.number() && local.is_on())
    return;
  newest.drop_deferred();
  if (local.has_nothing_on()) {
    // The assignment may never have come: reporting "stopped" tells the daemon that it will not be
    // used.
    enter_instance(message.instance);
    if (message.round > local.number()) replace_round(local_round(local.instance(), message.round));
    hear_restarts(message);
    if (local.number() != 0) local.stay_out();
    return;
  }
  if (message.round > local.number()) newest.defer(message);
  ask_to_end(message);
}

// Obeys what was ordered while the last workers were ending.
void agent::state::obey_deferred() {
  if (newest.has_deferred() && local.workers.living() == 0) obey(newest.take_deferred());
}

void desired_state::connected() {
  connection_seq_ = 0;
  named_instance_ = 0;
  named_round_ = 0;
}

void desired_state::enter_epoch(std::uint64_t epoch) {
  DDPRUN_ASSERT(!is_older(epoch));
  epoch_ = epoch;
}

void desired_state::forget_instance() {
  instance_ = 0;
  round_ = 0;
}

bool desired_state::is_news(const desired& message) const {
  if (is_older(message.epoch)) return false;
  // A newer daemon restarts the numbers.
  if (message.epoch > word_epoch_) return true;
  if (instance_ == 0) return true;
  if (message.instance != instance_) return message.seq > connection_seq_;
  return message.seq > seq_ || message.round > round_;
}

bool desired_state::take(const desired& message) {
  named_instance_ = message.instance;
  named_round_ = message.round;
  if (!is_news(message)) return false;
  // Rounds of different instances cannot be compared.
  if (instance_ != 0 && instance_ != message.instance) round_ = 0;
  enter_epoch(message.epoch);
  word_epoch_ = message.epoch;
  instance_ = message.instance;
  round_ = std::max(round_, message.round);
  seq_ = message.seq;
  connection_seq_ = std::max(connection_seq_, message.seq);
  return true;
}

bool desired_state::take_text(const std::string& text) {
  const bool is_new = !text.empty() && text != text_;
  text_ = text;
  return is_new;
}

bool desired_state::take_news(const std::string& news) {
  const bool is_new = !news.empty() && news != news_;
  if (is_new) news_ = news;
  return is_new;
}

bool desired_state::take_warning(const std::string& warning) {
  const bool is_new = !warning.empty() && warning != warning_;
  if (is_new) warning_ = warning;
  return is_new;
}

desired desired_state::take_deferred() {
  DDPRUN_ASSERT(deferred_.has_value());
  return *std::exchange(deferred_, std::nullopt);
}

bool desired_state::names(instance_id instance, round_number round) const {
  return named_instance_ == instance && named_round_ == round;
}

round_number desired_state::round_in(instance_id instance, round_number round) const {
  return instance != 0 && instance == instance_ ? std::max(round, round_) : round;
}

std::uint64_t desired_state::seq_in(instance_id instance) const {
  return instance != 0 && instance == instance_ && word_epoch_ == epoch_ ? seq_ : 0;
}

void told_wait::hear(const desired& message, time_point now) {
  *this = {};
  if (message.phase != desired_phase::wait) return;
  heard_ = now;
  if (message.left > duration::zero()) until_ = now + message.left;
  is_last_call_ = message.is_last_call;
  gone_ = message.gone;
}

std::string told_wait::text(const std::string& text, time_point now) const {
  const duration left = until_ ? *until_ - now : duration::zero();
  return with_left(text, left, is_last_call_) + gone_text(now);
}

std::string told_wait::gone_text(time_point now) const {
  return gone_ ? "; " + sentence_of(*gone_, now - heard_) : "";
}

}  // namespace ddprun::core
