#include "rendezvous/server/daemon_shell.hpp"

#include "rendezvous/base/version.hpp"
#include "rendezvous/protocol/agent_protocol.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>
#include <variant>

namespace ddprun::server {
namespace {

using std::chrono::steady_clock;

// How often the loop's lateness is measured at least, with and without connected agents.
constexpr duration tick_with_agents = std::chrono::seconds(1);
constexpr duration tick_without_agents = std::chrono::seconds(60);
constexpr duration lateness_worth_a_line = std::chrono::seconds(1);

// Turns of the loop without input before deadlines fire. What the first turn finds ready is only
// handled in the second. Bounded, so that a flood of input cannot delay deadlines for ever.
constexpr int quiet_turns_wanted = 2;
constexpr int drain_turns_max = 10'000;

core::daemon_options of_machine(const daemon_shell_options& options, journal::journal* opened) {
  core::daemon_options made;
  made.began = steady_clock::now();
  made.persists_records = opened != nullptr;
  if (opened != nullptr) made.remembered = opened->take_loaded();
  made.version = version;
  made.opened_by = options.opened_by;
  made.runs_max = options.runs_max;
  made.agents_max = options.agents_max;
  made.recovery_until =
      made.began + (opened != nullptr
                        ? options.recovery_window
                        : options.window_without_journal.value_or(options.recovery_window));
  return made;
}

}  // namespace

daemon_shell::daemon_shell(net::executor where, daemon_shell_options options)
    : executor_(where),
      options_(std::move(options)),
      machine_(of_machine(options_, nullptr)),
      timer_(where) {
  if (!options_.newcomers) options_.newcomers = std::make_shared<evictable_peers>();
  schedule_arming();
}

journal::handlers daemon_shell::of_journal() {
  journal::handlers told;
  told.persisted = [this](std::uint64_t number) { step(core::records_persisted{number}); };
  told.health = [this](const std::string& problem) { hear_of_journal(problem); };
  return told;
}

void daemon_shell::begin_with_journal() {
  // Safe, because no agent is accepted before the journal is open.
  machine_ = core::daemon(of_machine(options_, journal_.get()));
  schedule_arming();
}

journal::open_failure daemon_shell::open_journal() {
  journal::open_failure failure;
  if (!options_.open_journal) return failure;
  journal_ = options_.open_journal(executor_, of_journal(), failure);
  if (!journal_) return failure;
  begin_with_journal();
  return {};
}

void daemon_shell::open_journal_in_background(journal::opened_handler opened) {
  journal::open_failure failure;
  if (options_.open_journal_in_background) {
    journal_ = options_.open_journal_in_background(
        executor_, of_journal(),
        [this, opened](const journal::open_failure& why) {
          why.problem.empty() ? begin_with_journal() : journal_.reset();
          opened(why);
        },
        failure);
    if (journal_) return;
  }
  opened(failure);
}

void daemon_shell::hear_of_journal(const std::string& problem) {
  if (problem.empty()) {
    say_of_journal(note_level::info,
                   "the journal is writable again: decisions are persisted again");
  } else {
    say_of_journal(note_level::error,
                   problem +
                       "; until it can be written again, decisions are kept in memory only, "
                       "and are lost if this daemon ends");
  }
  journal_problem_ = problem;
}

void daemon_shell::go_on_without_journal(const std::string& problem) {
  say_of_journal(
      note_level::error,
      problem +
          "; decisions are kept in memory only, and are lost if this daemon ends: repair "
          "that, and start it again to persist them");
  journal_problem_ = problem;
}

void daemon_shell::say_of_journal(note_level level, const std::string& text) const {
  options_.journal_log ? options_.journal_log(level, text) : log(level, text);
}

void daemon_shell::accept(net::tcp::socket socket) {
  ++inputs_;
  const connection_id id = ++last_connection_;
  const std::string refusal = options_.allows_other_users ? std::string() : users_.refusal(socket);
  auto session = std::make_unique<agent_session>(std::move(socket), id, *this, options_.newcomers,
                                                 options_.hello_limit, options_.hello_limit);
  // The session tells the peer why: a socket that is only closed looks like a broken network.
  if (!refusal.empty()) {
    session->turn_away(refusal);
    warn_of_refusal(*session, refusal);
  }
  sessions_[id] = std::move(session);
}

void daemon_shell::when_no_agents(std::function<void()> handler) {
  on_no_agents_ = std::move(handler);
  notice_departure();
}

void daemon_shell::notice_departure() {
  if (machine_.agent_count() != 0 || !on_no_agents_) return;
  boost::asio::post(executor_, std::exchange(on_no_agents_, nullptr));
}

void daemon_shell::on_message(agent_session& from, agent_message message) {
  ++inputs_;
  core::agent_said said;
  said.connection = from.id();
  said.peer_address = from.peer_address();
  said.local_address = from.local_address();
  if (std::holds_alternative<hello>(message)) {
    said.fresh_instance = draw_instance();
    said.port_has_room = !options_.has_room || options_.has_room();
  }
  said.message = std::move(message);
  step(std::move(said));
}

void daemon_shell::on_end(agent_session& from, const std::string& why) {
  ++inputs_;
  const connection_id id = from.id();
  try {
    log(note_level::debug,
        "connection " + std::to_string(id) + " of " + from.peer_address() + " ended: " + why);
  } catch (const std::bad_alloc&) {
    // The message is not logged.
  }
  sessions_.erase(id);
  step(core::connection_ended{id});
}

void daemon_shell::on_other_version(agent_session& from, const std::string& why) {
  warn_of_refusal(from, why);
}

void daemon_shell::warn_of_refusal(const agent_session& of, const std::string& why) {
  const auto line =
      strangers_.admit("refused " + of.peer_address() + ": " + why, steady_clock::now());
  if (line) log(note_level::warning, *line);
}

void daemon_shell::step(core::daemon_event event) {
  try {
    step_at(moment(), std::move(event));
  } catch (const std::bad_alloc&) {
    schedule_arming();  // time must go on, whatever failed
    throw;
  }
  schedule_arming();
}

void daemon_shell::step_at(time_point now, core::daemon_event event) {
  core::daemon_effects effects;
  machine_.step(std::move(event), now, effects);
  std::exception_ptr failure;  // of one effect; the others are still applied
  for (const core::daemon_effect& effect : effects) {
    try {
      std::visit([this](const auto& one) { apply(one); }, effect);
    } catch (const std::bad_alloc&) {
      failure = std::current_exception();
    }
  }
  notice_departure();
  if (failure) std::rethrow_exception(failure);
}

void daemon_shell::apply(const core::send_to_agent& effect) {
  const auto found = sessions_.find(effect.connection);
  if (found == sessions_.end()) return;
  try {
    found->second->send(effect.message->index(), line_of(effect.message));
  } catch (const std::bad_alloc&) {
    found->second->cut();  // the agent reconnects and is told then
  }
}

net::shared_bytes daemon_shell::line_of(const std::shared_ptr<const daemon_message>& message) {
  if (message == shared_message_) return shared_line_;
  auto line = std::make_shared<const std::string>(protocol::encode(*message));
  // Other agents may get the same message: keep its encoded line.
  if (message.use_count() > 1) {
    shared_message_ = message;
    shared_line_ = line;
  }
  return line;
}

void daemon_shell::apply(const core::disconnect_agent& effect) {
  const auto found = sessions_.find(effect.connection);
  if (found == sessions_.end()) return;
  found->second->finish();
  sessions_.erase(found);
}

void daemon_shell::apply(const core::drop_connection& effect) {
  sessions_.erase(effect.connection);
}

void daemon_shell::apply(const core::limit_stall& effect) {
  const auto found = sessions_.find(effect.connection);
  if (found != sessions_.end()) found->second->set_node_timeout(effect.limit);
}

void daemon_shell::apply(const core::persist_run_record& effect) {
  if (!journal_) return;
  effect.record ? journal_->keep(*effect.record) : journal_->forget(effect.run_id);
}

void daemon_shell::apply(const core::daemon_note& effect) {
  log(effect.level, effect.text);
}

// Returns the current time. If the loop stood still past the timer, the machine is told first.
time_point daemon_shell::moment() {
  const time_point now = steady_clock::now();
  const std::optional<duration> late = lateness_.notice(now);
  if (!late) return now;
  log(*late < lateness_worth_a_line ? note_level::debug : note_level::warning,
      "this daemon did not run for " + to_text(*late) +
          " (was it suspended, or is the machine overloaded?): all deadlines are extended by that");
  step_at(now, core::loop_was_late{*late});
  return now;
}

// Arms the timer once for everything that happens in this turn of the loop.
void daemon_shell::schedule_arming() {
  if (arming_) return;
  boost::asio::post(executor_, while_alive(alive_.watch(), [this] {
                      arming_ = false;
                      arm();
                    }));
  arming_ = true;
}

void daemon_shell::arm() {
  // fire() ends with a step, which arms the timer again.
  if (draining_) return;
  const time_point now = steady_clock::now();
  // While agents of an earlier daemon are awaited, a loop that stands still must not use up their
  // time, because they may be connecting meanwhile.
  const bool recovers = now < machine_.recovery_until();
  if (machine_.run_count() == 0 && !recovers) {
    // Without a run there is no deadline: an idle daemon sleeps until a peer connects.
    lateness_.expect_nothing();
    timer_.cancel();
    return;
  }
  const bool is_idle = sessions_.empty() && !recovers;
  time_point next = now + (is_idle ? tick_without_agents : tick_with_agents);
  if (const auto due = machine_.next_deadline()) next = std::min(next, *due);
  lateness_.expect(std::max(next, steady_clock::now()));
  timer_.expires_at(next);
  timer_.async_wait(while_alive(alive_.watch(), [this](error_code error) {
    if (error) return;
    draining_ = true;
    drain_then_fire(inputs_, 0, 0);
  }));
}

void daemon_shell::drain_then_fire(std::uint64_t inputs_seen, int quiet_turns, int turns) {
  if (quiet_turns >= quiet_turns_wanted || turns >= drain_turns_max) return fire();
  try {
    // Each of these turns is due at once, so a late one means that the loop stood still.
    lateness_.expect(moment());
    boost::asio::post(executor_,
                      while_alive(alive_.watch(), [this, inputs_seen, quiet_turns, turns] {
                        const bool quiet = inputs_ == inputs_seen;
                        drain_then_fire(inputs_, quiet ? quiet_turns + 1 : 0, turns + 1);
                      }));
  } catch (const std::bad_alloc&) {
    fire();  // deadlines must not wait for memory
  }
}

void daemon_shell::fire() {
  draining_ = false;
  step(core::time_passed{});
}

runs_page daemon_shell::runs(std::size_t first) const {
  runs_page page;
  page.first = first;
  page.run_count = machine_.run_count();
  const time_point now = steady_clock::now();
  std::size_t members_left = members_per_page;
  machine_.each_run(first, [&](const core::run& run) {
    page.runs.push_back(run.view(now, 0, members_left));
    add_problem(page.runs.back());
    members_left -= page.runs.back().members.size();
    return page.runs.size() < runs_per_page;
  });
  return page;
}

std::optional<core::run_view> daemon_shell::run(std::string_view id, std::size_t first,
                                                std::size_t most) const {
  const core::run* const found = machine_.find(id);
  if (found == nullptr) return std::nullopt;
  core::run_view seen =
      found->view(steady_clock::now(), first, std::clamp<std::size_t>(most, 1, members_per_page));
  add_problem(seen);
  return seen;
}

std::vector<std::string> daemon_shell::joined_names(std::size_t most,
                                                    const std::string& own_run) const {
  std::vector<std::string> names;
  machine_.each_run(0, [&](const core::run& run) {
    // The names are for one sentence, so the first page of a large run is enough.
    const core::run_view seen = run.view(steady_clock::now(), 0, members_per_page);
    for (const core::member_view& one : seen.members) {
      if (!one.connected || names.size() == most) continue;
      names.push_back(one.node + (seen.run_id == own_run ? "" : " of run " + seen.run_id));
    }
    return names.size() < most;
  });
  return names;
}

void daemon_shell::add_problem(core::run_view& seen) const {
  if (!journal_problem_.empty()) {
    seen.why += "; kept in memory only, and lost with this daemon: " + journal_problem_;
  }
}

instance_id daemon_shell::draw_instance() {
  instance_id drawn = 0;
  while (drawn == 0)
    drawn = static_cast<std::uint64_t>(random_()) << 32 | random_();
  return drawn;
}

void daemon_shell::log(note_level level, const std::string& text) const {
  if (options_.log) options_.log(level, text);
}

void daemon_shell::stop() {
  // From here on no callback and no session steps the machine.
  alive_.end();
  timer_.cancel();
  sessions_.clear();
  journal_.reset();
  machine_ = core::daemon({});
}

}  // namespace ddprun::server
