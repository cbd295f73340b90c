#include "rendezvous/core/daemon/daemon_machine.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

daemon::daemon(daemon_options options)
    : options_(std::move(options)), recovery_until_(clock_.own(options_.recovery_until)) {
  for (run_record& record : std::exchange(options_.remembered, {}))
    remember(std::move(record));
}

void daemon::step(daemon_event event, time_point now, daemon_effects& effects) {
  clock_.set(now);
  effects_ = &effects;
  std::visit([this](auto& one) { handle(one); }, event);
  effects_ = nullptr;
}

std::optional<time_point> daemon::next_deadline() const {
  std::optional<time_point> next;
  for (const auto& [id, entry] : runs_) {
    if (entry.deadline && (!next || *entry.deadline < *next)) next = entry.deadline;
  }
  return next;
}

const run* daemon::find(std::string_view run_id) const {
  const auto found = runs_.find(run_id);
  return found == runs_.end() ? nullptr : &found->second.machine;
}

void daemon::handle(agent_said& event) {
  std::visit([&](auto& message) { hear(event, message); }, event.message);
}

void daemon::hear(const agent_said& event, hello& greeting) {
  // The node has obeyed a daemon that came after this one, so this one may not decide.
  if (greeting.state.epoch > options_.epoch) return send_on(event, greeting);
  if (!has_room(event, greeting)) return turn_away(event, greeting);
  run_entry* const entry = run_for(greeting, event.connection);
  if (entry == nullptr) return;
  agents_[event.connection] = {entry, greeting.session};
  ++entry->connections;
  // A peer that does not read gets as long as one that sends nothing.
  effects_->push_back(limit_stall{event.connection, greeting.settings.timing.node_timeout});
  step_run(*entry, agent_joined{event.connection, std::move(greeting), event.peer_address,
                                event.local_address, event.fresh_instance});
}

void daemon::hear(const agent_said& event, const guardian_word& word) {
  // A run that this daemon does not know has no node to fence, so the message can be dropped.
  const auto found = runs_.find(word.run_id);
  if (found != runs_.end()) {
    note_some(guardians_, note_level::info,
              "a guardian at " + event.peer_address + " says for run " + word.run_id +
                  " that its agent is dead, and its workers are killed");
    step_run(found->second, guardian_reported{word.session,
                                              word.instance,
                                              word.round,
                                              word.group_rank,
                                              {word.node, event.peer_address, word.rank_first,
                                               word.worker_count}});
  }
  effects_->push_back(disconnect_agent{event.connection});
}

void daemon::hear(const agent_said& event, status& news) {
  const auto found = agents_.find(event.connection);
  if (found == agents_.end()) return;
  step_run(*found->second.run, status_received{event.connection, std::move(news)});
}

// The agent's last message: the run forgets the connection, and nothing more is sent.
void daemon::hear(const agent_said& event, const goodbye&) {
  const auto found = agents_.find(event.connection);
  if (found == agents_.end()) return;
  step_run(*found->second.run, goodbye_received{event.connection});
  forget(event.connection);
  effects_->push_back(disconnect_agent{event.connection});
}

void daemon::handle(const connection_ended& event) {
  const auto found = agents_.find(event.connection);
  if (found == agents_.end()) return;
  run_entry& entry = *found->second.run;
  forget(event.connection);
  step_run(entry, agent_disconnected{event.connection});
}

void daemon::handle(const run_stop_requested& event) {
  const auto found = runs_.find(event.run_id);
  if (found != runs_.end()) step_run(found->second, operator_stop_requested{event.text});
}

void daemon::remember(run_record record) {
  const std::string run_id = record.run_id;
  run_options options = options_of(run_id);
  options.recovery_until = recovery_until();
  options.remembered = std::move(record);
  run_entry& entry = runs_.try_emplace(run_id, std::move(options)).first->second;
  entry.is_on_record = true;
  entry.deadline = entry.machine.next_deadline();
}

void daemon::ask_to_persist(run_entry& entry, const persist_record& effect) {
  entry.is_on_record = effect.record.has_value();
  pending_.push_back({++last_record_, entry.id, effect.revision});
  effects_->push_back(persist_run_record{last_record_, entry.id, effect.record});
}

void daemon::handle(const records_persisted& event) {
  // The newest revision of a run covers its earlier ones, so each run is stepped once.
  std::map<std::string, std::uint64_t> revisions;
  for (; !pending_.empty() && pending_.front().number <= event.number; pending_.pop_front())
    revisions[pending_.front().run_id] = pending_.front().revision;
  for (const auto& [run_id, revision] : revisions) {
    const auto found = runs_.find(run_id);
    if (found != runs_.end()) step_run(found->second, record_persisted{revision});
  }
}

void daemon::handle(const time_passed&) {
  for (auto at = runs_.begin(); at != runs_.end();) {
    run_entry& entry = at->second;
    if (entry.deadline && *entry.deadline <= clock_.real_now()) step_run(entry, time_passed{});
    const bool is_over = entry.connections == 0 && entry.machine.forgettable(clock_.real_now());
    at = is_over ? erase(at) : std::next(at);
  }
}

void daemon::handle(const loop_was_late& event) {
  clock_.lose(event.by);
  for (auto& [id, entry] : runs_)
    step_run(entry, event);
}

// A session that comes again replaces its own connection, which may be gone without this daemon
// knowing it yet.
bool daemon::has_room(const agent_said& event, const hello& greeting) const {
  if (agents_.size() < options_.agents_max && event.port_has_room) return true;
  // Only a full daemon searches.
  return std::any_of(agents_.begin(), agents_.end(), [&](const auto& one) {
    return one.second.session == greeting.session && one.second.run->id == greeting.run_id;
  });
}

void daemon::send_on(const agent_said& event, const hello& greeting) {
  const std::string epochs = greeting.node + " has already been served by a newer daemon (epoch " +
                             std::to_string(greeting.state.epoch) + ") than this one (epoch " +
                             std::to_string(options_.epoch) + ")";
  note_some(
      refusals_, note_level::warning,
      "turned a node of run " + greeting.run_id + " (" + event.peer_address + ") away: " + epochs);
  effects_->push_back(
      send_to_agent{event.connection, std::make_shared<const daemon_message>(not_primary{epochs})});
  effects_->push_back(disconnect_agent{event.connection});
}

void daemon::turn_away(const agent_said& event, const hello& greeting) {
  const std::string count = std::to_string(agents_.size());
  note_some(refusals_, note_level::error,
            "no room for node " + greeting.node + " of run " + greeting.run_id + " (" +
                event.peer_address + "): " + count +
                " agents are the maximum; raise the limit of open files (ulimit -n) or use another "
                "daemon");
  if (greeting.state.instance == 0) {
    return refuse(event.connection, "this daemon serves at most " + count +
                                        " agents: raise its limit of open files (ulimit -n)");
  }
  // A refusal would end its workers. It comes again instead, and agents that are lost make room.
  effects_->push_back(drop_connection{event.connection});
}

// Null: there is no room, and the connection was refused.
daemon::run_entry* daemon::run_for(const hello& greeting, connection_id connection) {
  const auto found = runs_.find(greeting.run_id);
  if (found != runs_.end()) return &found->second;
  if (runs_.size() >= options_.runs_max && !forget_a_finished_run()) {
    const std::string count = std::to_string(runs_.size());
    note_some(refusals_, note_level::error,
              "refused run " + greeting.run_id + ": " + count + " runs are the maximum");
    refuse(connection, "this daemon already holds " + count +
                           " runs that have not ended: start another daemon for more");
    return nullptr;
  }
  run_options options = options_of(greeting.run_id);
  // Without a journal every run may have been active; with one, a run that it does not know starts
  // at once.
  if (!options_.persists_records) options.recovery_until = recovery_until();
  return &runs_.try_emplace(greeting.run_id, std::move(options)).first->second;
}

run_options daemon::options_of(const std::string& run_id) const {
  run_options options;
  options.run_id = run_id;
  options.epoch = options_.epoch;
  options.version = options_.version;
  options.persists_records = options_.persists_records;
  options.began = options_.began;
  const auto& opened_by = options_.opened_by;
  if (opened_by && run_id == opened_by->run_id) options.opened_by = opened_by->job;
  return options;
}

// Forgets the run that was over first. False: there is none that is over.
bool daemon::forget_a_finished_run() {
  auto oldest = runs_.end();
  std::optional<time_point> since;
  for (auto at = runs_.begin(); at != runs_.end(); ++at) {
    if (at->second.connections != 0) continue;
    const auto over = at->second.machine.over_since(clock_.real_now());
    if (!over || (since && *since <= *over)) continue;
    oldest = at;
    since = over;
  }
  if (!since) return false;
  erase(oldest);
  return true;
}

daemon::run_map::iterator daemon::erase(run_map::iterator at) {
  // A new run of this name counts its revisions from the start: it must not take an answer for the
  // old one's.
  std::erase_if(pending_, [&](const pending_record& one) { return one.run_id == at->first; });
  if (at->second.is_on_record) {
    effects_->push_back(persist_run_record{++last_record_, at->first, std::nullopt});
  }
  gathering_.erase(at->first);
  return runs_.erase(at);
}

void daemon::step_run(run_entry& entry, const run_event& event) {
  carry_out(entry, event);
  look_for_neighbour(entry);
}

// An agent with a mistyped run id waits in a run of its own, beside the run that waits for it. A
// run learns of the other one at its own next event, such as a heartbeat, so that no run is stepped
// because of another.
void daemon::look_for_neighbour(run_entry& entry) {
  neighbour_seen seen;
  if (entry.machine.gathers() == 0) {
    gathering_.erase(entry.id);
  } else {
    gathering_.insert(entry.id);
    const auto other =
        *gathering_.begin() == entry.id ? std::next(gathering_.begin()) : gathering_.begin();
    if (other != gathering_.end()) {
      seen = {*other, runs_.find(*other)->second.machine.gathers()};
    }
  }
  // Only a change is passed on, because every waiting node gets a new message then.
  if (seen == entry.neighbour) return;
  entry.neighbour = seen;
  carry_out(entry, seen);
}

void daemon::carry_out(run_entry& entry, const run_event& event) {
  run_effects effects;
  entry.machine.step(event, clock_.real_now(), effects);
  entry.deadline = entry.machine.next_deadline();
  for (run_effect& effect : effects) {
    if (auto* const sent = std::get_if<send_to_agent>(&effect)) {
      effects_->push_back(std::move(*sent));
    } else if (const auto* const ended = std::get_if<disconnect_agent>(&effect)) {
      forget(ended->connection);
      effects_->push_back(*ended);
    } else if (const auto* const asked = std::get_if<persist_record>(&effect)) {
      ask_to_persist(entry, *asked);
    } else if (const auto* const said = std::get_if<run_note>(&effect)) {
      std::string text = entry.id + ": " + said->text;
      said->is_refusal ? note_some(refusals_, said->level, std::move(text))
                       : note(said->level, std::move(text));
    }
  }
}

void daemon::forget(connection_id connection) {
  const auto found = agents_.find(connection);
  if (found == agents_.end()) return;
  --found->second.run->connections;
  agents_.erase(found);
}

void daemon::refuse(connection_id connection, const std::string& text) {
  effects_->push_back(send_to_agent{
      connection, std::make_shared<const daemon_message>(refused{refused_exit_code, text})});
  effects_->push_back(disconnect_agent{connection});
}

void daemon::note(note_level level, std::string text) {
  effects_->push_back(daemon_note{level, std::move(text)});
}

void daemon::note_some(log_limit& limit, note_level level, std::string text) {
  if (auto line = limit.admit(std::move(text), clock_.real_now())) note(level, std::move(*line));
}

}  // namespace ddprun::core
