#include "rendezvous/server/service.hpp"

#include "rendezvous/protocol/agent.hpp"
#include "rendezvous/version.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>
#include <variant>

namespace ddprun::server {
namespace {

using std::chrono::steady_clock;

// A loop is measured at least so often while agents are connected, and else so often.
constexpr duration tick_with_agents = std::chrono::seconds(1);
constexpr duration tick_without_agents = std::chrono::seconds(60);
constexpr duration lateness_worth_a_line = std::chrono::seconds(1);

// Rounds of the loop in a row without input before deadlines fire: what the first finds ready is
// only taken in the second. Bounded, lest a flood of input stop the time.
constexpr int quiet_turns_wanted = 2;
constexpr int drain_turns_max = 10'000;

}  // namespace

service::service(net::executor where, service_options options)
    : executor_(where),
      options_(std::move(options)),
      recovery_until_(steady_clock::now() + options_.recovery_window),
      timer_(where) {
  if (!options_.newcomers) options_.newcomers = std::make_shared<waiting_room>();
  schedule_arming();
}

void service::accept(net::tcp::socket socket) {
  ++inputs_;
  const connection_id id = ++last_connection_;
  agents_[id].session = std::make_unique<agent_session>(
      std::move(socket), id, *this, options_.newcomers, options_.hello_limit, options_.hello_limit);
}

void service::when_no_agents(std::function<void()> handler) {
  on_no_agents_ = std::move(handler);
  notice_departure();
}

void service::notice_departure() {
  if (joined_count_ != 0 || !on_no_agents_) return;
  boost::asio::post(executor_, std::exchange(on_no_agents_, nullptr));
}

void service::on_message(agent_session& from, agent_message message) {
  ++inputs_;
  if (auto* greeting = std::get_if<hello>(&message)) return join(from, std::move(*greeting));
  if (const auto* word = std::get_if<guardian_word>(&message)) return hear_guardian(from, *word);
  const connection_id id = from.id();
  run_entry* const run = agents_.at(id).run;
  if (run == nullptr) return;
  if (auto* news = std::get_if<status>(&message)) {
    return step(*run, core::status_received{id, std::move(*news)});
  }
  // The last word: the machine forgets the connection, and nothing more is to be said.
  step(*run, core::goodbye_received{id});
  disconnect(id);
}

void service::join(agent_session& from, hello greeting) {
  const connection_id id = from.id();
  if (!has_room(greeting)) {
    log_some(refusals_, note_level::error,
             "no room for node " + greeting.node + " of run " + greeting.run_id + " (" +
                 from.peer_address() + "): " + std::to_string(joined_count_) +
                 " agents are the most; raise the limit of open files (ulimit -n) or use another "
                 "daemon");
    if (greeting.state.instance == 0) {
      return refuse(from, "this daemon serves at most " + std::to_string(joined_count_) +
                              " agents: raise its limit of open files (ulimit -n)");
    }
    // To be refused would end its workers. It comes again, and agents that are lost make room.
    from.close();
    return forget(id);
  }
  moment();  // a new run is to know the window as it has moved
  auto found = runs_.find(greeting.run_id);
  if (found == runs_.end()) {
    if (runs_.size() >= options_.runs_max && !forget_a_finished_run()) {
      log_some(refusals_, note_level::error,
               "refused run " + greeting.run_id + ": " + std::to_string(runs_.size()) +
                   " runs are the most");
      return refuse(from, "this daemon already holds " + std::to_string(runs_.size()) +
                              " runs that have not ended: start another daemon for more");
    }
    core::run_options options;
    options.run_id = greeting.run_id;
    options.version = version;
    options.recovery_until = recovery_until_;
    found = runs_.try_emplace(greeting.run_id, std::move(options)).first;
  }
  from.set_node_timeout(greeting.settings.timing.node_timeout);
  agent& who = agents_.at(id);
  who.run = &found->second;
  who.session_id = greeting.session;
  ++joined_count_;
  core::agent_joined event;
  event.connection = id;
  event.peer_address = from.peer_address();
  event.local_address = from.local_address();
  event.fresh_instance = draw_instance();
  event.hello = std::move(greeting);
  step(found->second, event);
}

// A session that comes again takes the place of its own connection, which the daemon may not know
// yet to be gone.
bool service::has_room(const hello& greeting) const {
  const bool port_has_room = !options_.has_room || options_.has_room();
  if (joined_count_ < options_.agents_max && port_has_room) return true;
  return std::any_of(agents_.begin(), agents_.end(), [&](const auto& one) {
    return one.second.run != nullptr && one.second.session_id == greeting.session &&
           one.second.run->id == greeting.run_id;
  });
}

void service::refuse(agent_session& from, const std::string& text) {
  from.refuse(text);
  forget(from.id());
}

void service::forget(connection_id connection) {
  const auto found = agents_.find(connection);
  if (found->second.run != nullptr) --joined_count_;
  agents_.erase(found);
  notice_departure();
}

bool service::has_agents(const run_entry& run) const {
  return std::any_of(agents_.begin(), agents_.end(),
                     [&](const auto& one) { return one.second.run == &run; });
}

// The one that was over first.
bool service::forget_a_finished_run() {
  const time_point now = steady_clock::now();
  auto oldest = runs_.end();
  std::optional<time_point> since;
  for (auto run = runs_.begin(); run != runs_.end(); ++run) {
    const auto over = run->second.machine.over_since(now);
    if (!over || (since && *since <= *over) || has_agents(run->second)) continue;
    oldest = run;
    since = over;
  }
  if (!since) return false;
  runs_.erase(oldest);
  return true;
}

void service::hear_guardian(agent_session& from, const guardian_word& word) {
  const connection_id id = from.id();
  const auto found = runs_.find(word.run_id);
  if (found != runs_.end()) {
    log_some(guardians_, note_level::info,
             "the guardian of session " + to_string(word.session) + " at " + from.peer_address() +
                 ": its agent is dead, its workers are killed");
    step(found->second, core::guardian_reported{word.session});
  }
  disconnect(id);
}

void service::on_end(agent_session& from, const std::string& why) {
  ++inputs_;
  const connection_id id = from.id();
  log(note_level::debug,
      "connection " + std::to_string(id) + " of " + from.peer_address() + " ended: " + why);
  run_entry* const run = agents_.at(id).run;
  forget(id);
  if (run != nullptr) step(*run, core::agent_disconnected{id});
}

void service::step(run_entry& run, const core::run_event& event) {
  const time_point now = moment();
  core::run_effects effects;
  run.machine.step(event, now, effects);
  run.deadline = run.machine.next_deadline();
  carry_out(run, effects);
  schedule_arming();
}

void service::carry_out(run_entry& run, core::run_effects& effects) {
  for (const core::run_effect& effect : effects) {
    if (const auto* message = std::get_if<core::send_to_agent>(&effect)) {
      send(message->connection, message->message);
    } else if (const auto* gone = std::get_if<core::disconnect_agent>(&effect)) {
      disconnect(gone->connection);
    } else if (const auto* note = std::get_if<core::run_note>(&effect)) {
      const std::string text = run.id + ": " + note->text;
      note->is_refusal ? log_some(refusals_, note->level, text) : log(note->level, text);
    }
  }
}

void service::send(connection_id connection, const std::shared_ptr<const daemon_message>& message) {
  const auto found = agents_.find(connection);
  if (found == agents_.end()) return;
  net::shared_bytes line;
  if (message == shared_message_) {
    line = shared_line_;
  } else {
    line = std::make_shared<const std::string>(protocol::encode(*message));
    // Held by the machine too: others may be sent the same.
    if (message.use_count() > 1) {
      shared_message_ = message;
      shared_line_ = line;
    }
  }
  found->second.session->send(message->index(), std::move(line));
}

void service::disconnect(connection_id connection) {
  const auto found = agents_.find(connection);
  if (found == agents_.end()) return;
  found->second.session->finish();
  forget(connection);
}

// Now; if the loop stood still since the timer was to fire, every run hears of that first.
time_point service::moment() {
  const time_point now = steady_clock::now();
  const std::optional<duration> late = lateness_.notice(now);
  if (!late) return now;
  log(*late < lateness_worth_a_line ? note_level::debug : note_level::warning,
      "this daemon stood still for " + to_text(*late) + ": all deadlines move by as much");
  recovery_until_ += *late;
  for (auto& [id, run] : runs_) {
    core::run_effects effects;
    run.machine.step(core::loop_was_late{*late}, now, effects);
    run.deadline = run.machine.next_deadline();
    carry_out(run, effects);
  }
  return now;
}

// Once for all that happens in this turn of the loop.
void service::schedule_arming() {
  if (std::exchange(arming_, true)) return;
  boost::asio::post(executor_, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    arming_ = false;
    arm();
  });
}

void service::arm() {
  if (draining_) return;
  const time_point now = steady_clock::now();
  // While agents of an earlier daemon are waited for, a loop that stands still must not use up
  // their time: they knock meanwhile.
  const bool recovers = now < recovery_until_;
  if (runs_.empty() && !recovers) {
    lateness_.expect_nothing();
    timer_.cancel();
    return;
  }
  const bool is_idle = agents_.empty() && !recovers;
  time_point next = now + (is_idle ? tick_without_agents : tick_with_agents);
  for (const auto& [id, run] : runs_) {
    if (run.deadline) next = std::min(next, *run.deadline);
  }
  lateness_.expect(std::max(next, steady_clock::now()));
  timer_.expires_at(next);
  timer_.async_wait([this, alive = std::weak_ptr<bool>(alive_)](error_code error) {
    if (error || alive.expired()) return;
    // While input is drained, each turn of the loop is expected at once.
    lateness_.expect(moment());
    draining_ = true;
    drain_then_fire(inputs_, 0, 0);
  });
}

void service::drain_then_fire(std::uint64_t inputs_seen, int quiet_turns, int turns) {
  if (quiet_turns >= quiet_turns_wanted || turns >= drain_turns_max) return fire();
  boost::asio::post(executor_,
                    [this, inputs_seen, quiet_turns, turns, alive = std::weak_ptr<bool>(alive_)] {
                      if (alive.expired()) return;
                      lateness_.expect(moment());
                      const bool quiet = inputs_ == inputs_seen;
                      drain_then_fire(inputs_, quiet ? quiet_turns + 1 : 0, turns + 1);
                    });
}

void service::fire() {
  draining_ = false;
  const time_point now = moment();
  for (auto run = runs_.begin(); run != runs_.end();) {
    if (run->second.deadline && *run->second.deadline <= now) {
      step(run->second, core::time_passed{});
    }
    const bool forgotten = run->second.machine.forgettable(now) && !has_agents(run->second);
    run = forgotten ? runs_.erase(run) : std::next(run);
  }
  schedule_arming();
}

runs_page service::runs(std::size_t first) const {
  runs_page page;
  page.first = first;
  page.run_count = runs_.size();
  const time_point now = steady_clock::now();
  std::size_t members_left = members_per_page;
  std::size_t index = 0;
  for (const auto& [id, run] : runs_) {
    if (index++ < first) continue;
    if (page.runs.size() == runs_per_page) break;
    page.runs.push_back(run.machine.view(now, 0, members_left));
    members_left -= page.runs.back().members.size();
  }
  return page;
}

std::optional<core::run_view> service::run(std::string_view id, std::size_t first,
                                           std::size_t most) const {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return std::nullopt;
  return found->second.machine.view(steady_clock::now(), first,
                                    std::clamp<std::size_t>(most, 1, members_per_page));
}

instance_id service::draw_instance() {
  instance_id drawn = 0;
  while (drawn == 0)
    drawn = static_cast<std::uint64_t>(random_()) << 32 | random_();
  return drawn;
}

void service::log(note_level level, const std::string& text) const {
  if (options_.log) options_.log(level, text);
}

void service::log_some(core::log_limit& limit, note_level level, const std::string& text) {
  if (const auto line = limit.admit(text, steady_clock::now())) log(level, *line);
}

void service::stop() {
  alive_.reset();
  timer_.cancel();
  agents_.clear();
  joined_count_ = 0;
  runs_.clear();
}

}  // namespace ddprun::server
