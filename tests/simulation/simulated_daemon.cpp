#include "tests/simulation/simulated_daemon.hpp"

#include "tests/simulation/simulated_agent.hpp"
#include "tests/simulation/simulated_network.hpp"
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::simulation {

using namespace std::chrono_literals;

daemon::daemon(world& in, host& on, agent* inside) : process(in, on), inside_(inside) {}

void daemon::begin() {
  const bool recovers =
      inside_ == nullptr ? index > 1 || world_.first_daemon_recovers() : world_.embedded_recovers();
  const duration window = recovers ? world_.settings().timing.recovery_window : duration::zero();
  core::daemon_options options;
  options.version = "sim";
  options.began = local_now();
  if (inside_ != nullptr && inside_->greeting().job) {
    options.opened_by = opened_run{inside_->greeting().run_id, *inside_->greeting().job};
  }
  options.recovery_until = local_now() + window;
  open_journal(options);
  machine_.emplace(std::move(options));
  sweep_ = local_now() + 1s;
  world_.net().listen(*this, host_.id, daemon_port);
  arm();
}

// A daemon whose disk does not answer goes on without a journal.
void daemon::open_journal(core::daemon_options& options) {
  state_folder* const folder = world_.folder_of(host_);
  if (folder == nullptr) return;
  if (folder->hangs(world_.now())) return folder->miss_changes();
  journal_ = std::make_unique<journal>(world_, *this, *folder);
  options.persists_records = true;
  options.recovery_until = options.began + world_.settings().timing.recovery_window;
  if (world_.mutation().journal_is_ignored) return;
  for (const auto& [run_id, record] : folder->found())
    options.remembered.push_back(record);
}

void daemon::close_journal() {
  if (journal_) journal_->end(false);
}

void daemon::die() {
  process::die();
  if (journal_) journal_->end(true);
}

std::string daemon::why() const {
  std::string text;
  machine_->each_run(0, [&](const core::run& each) {
    const core::run_view view = each.view(local_now());
    text += (text.empty() ? "" : "; ") + view.run_id + ": " + view.why;
    return true;
  });
  return text.empty() ? "nobody has come" : text;
}

std::set<session_id> daemon::sessions_joined() const {
  std::set<session_id> sessions;
  for (const auto& [id, each] : peers_)
    if (each.session) sessions.insert(each.session);
  return sessions;
}

bool daemon::has_heard(session_id who) const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [&](const auto& each) { return each.second == who; });
}

bool daemon::has_closed(instance_id instance) const {
  bool found = false;
  machine_->each_run(0, [&](const core::run& each) {
    if (each.phase() != run_phase::closed) return true;
    found = each.view(local_now(), 0, 0).instance == instance;
    return !found;
  });
  return found;
}

session_id daemon::session_of(connection_id which) const {
  const auto found = sessions_.find(which);
  return found == sessions_.end() ? session_id{} : found->second;
}

round_number daemon::newest_known(instance_id instance) const {
  const auto heard = heard_of_.find(instance);
  round_number newest = heard == heard_of_.end() ? 0 : heard->second;
  machine_->each_run(0, [&](const core::run& each) {
    const core::run_view view = each.view(local_now(), 0, 0);
    if (view.instance == instance) newest = std::max(newest, view.round);
    return true;
  });
  return newest;
}

bool daemon::knew_of(instance_id instance, instance_id placed) const {
  const auto heard = first_heard_.find(instance);
  const auto began = first_placed_.find(placed);
  if (heard == first_heard_.end()) return false;
  return began == first_placed_.end() || heard->second <= began->second;
}

void daemon::hear(const status& said) {
  first_heard_.try_emplace(said.instance, world_.now());
  round_number& newest = heard_of_[said.instance];
  newest = std::max({newest, said.round, said.round_told});
}

void daemon::operator_stops() {
  std::vector<std::string> ids;
  machine_->each_run(0, [&](const core::run& each) {
    ids.push_back(each.view(local_now()).run_id);
    return true;
  });
  for (const std::string& id : ids)
    step(core::run_stop_requested{id, "stopped by the operator"});
}

void daemon::linger(duration limit) {
  end_when_alone(world_.now() + limit);
}

void daemon::end_when_alone(moment limit) {
  if (!alive()) return;
  if (peers_.empty() || world_.now() >= limit) return world_.daemon_exits(*this);
  world_.time().after(20ms, [=, this] { post([=, this] { end_when_alone(limit); }); });
}

void daemon::arm() {
  std::optional<time_point> next = sweep_;
  if (const auto due = machine_->next_deadline()) next = std::min(*next, *due);
  wake_at(next);
}

void daemon::on_wake() {
  if (local_now() >= sweep_) {
    cut_off_who_does_not_read();
    sweep_ = local_now() + 1s;
  }
  step(core::time_passed{});
  arm();
}

void daemon::on_late(duration by) {
  step(core::loop_was_late{by});
}

void daemon::step(const core::daemon_event& event) {
  if (!alive() || world_.over()) return;
  core::daemon_event changed = event;
  const auto& mutation = world_.mutation();
  core::daemon_effects effects;
  if (mutation.daemon_event && !mutation.daemon_event(*this, changed)) return;
  machine_->step(changed, local_now(), effects);
  if (mutation.daemon_effects) mutation.daemon_effects(*this, changed, effects);
  apply(effects);
  if (!alive()) return;
  tell_of_closed_runs();
  arm();
}

void daemon::step_unchanged(const core::daemon_event& event, core::daemon_effects& effects) {
  machine_->step(event, local_now(), effects);
}

// It is told again if it becomes known later that all had succeeded.
void daemon::tell_of_closed_runs() {
  std::vector<core::run_view> fresh;
  std::map<std::string, int> closed;
  machine_->each_run(0, [&](const core::run& each) {
    if (each.phase() != run_phase::closed) return true;
    const core::run_view view = each.view(local_now(), 0, 0);
    if (!view.exit_code) return true;
    closed.emplace(view.run_id, *view.exit_code);
    const auto told = closed_with_.find(view.run_id);
    if (told == closed_with_.end() || told->second != *view.exit_code)
      fresh.push_back(each.view(local_now()));
    return true;
  });
  closed_with_ = std::move(closed);
  for (const core::run_view& view : fresh)
    world_.run_closed(*this, view);
}

void daemon::apply(const core::daemon_effects& effects) {
  for (const auto& effect : effects) {
    if (!alive()) return;  // a scenario kills the daemon between two messages
    if (const auto* sent = std::get_if<core::send_to_agent>(&effect)) {
      const auto found = peers_.find(sent->connection);
      if (found == peers_.end()) continue;
      const auto* order = std::get_if<desired>(sent->message.get());
      if (order != nullptr && order->phase == desired_phase::run)
        first_placed_.try_emplace(order->instance, world_.now());
      world_.net().send(*found->second.over, 1, sent->message);
    } else if (const auto* ended = std::get_if<core::disconnect_agent>(&effect)) {
      const auto found = peers_.find(ended->connection);
      if (found == peers_.end()) continue;
      world_.net().close(*found->second.over, 1);
      peers_.erase(found);
    } else if (const auto* dropped = std::get_if<core::drop_connection>(&effect)) {
      const auto found = peers_.find(dropped->connection);
      if (found == peers_.end()) continue;
      world_.net().close(*found->second.over, 1);
      peers_.erase(found);
    } else if (const auto* limit = std::get_if<core::limit_stall>(&effect)) {
      const auto found = peers_.find(limit->connection);
      if (found != peers_.end()) found->second.stall_limit = limit->limit;
    } else if (const auto* change = std::get_if<core::persist_run_record>(&effect)) {
      if (journal_) journal_->keep(*change);
    } else {
      world_.trace([&] { return "daemon note: " + std::get<core::daemon_note>(effect).text; });
    }
  }
}

// A peer whose queue has not moved for too long is cut off; nothing is buffered for it.
void daemon::cut_off_who_does_not_read() {
  std::vector<connection_id> stuck;
  for (const auto& [id, each] : peers_) {
    const auto& mine = each.over->ends[1];
    if (!mine.outbox.empty() && world_.now() - mine.stuck_since > each.stall_limit)
      stuck.push_back(id);
  }
  for (const connection_id id : stuck) {
    const std::shared_ptr<connection> gone = peers_[id].over;
    peers_.erase(id);
    gone->ends[1].outbox.clear();
    world_.net().close(*gone, 1);
    step(core::connection_ended{id});
  }
}

void daemon::on_accepted(connection& from, int, std::uint16_t) {
  peers_[from.id] = {from.shared_from_this(), {}, world_.settings().timing.node_timeout};
}

void daemon::on_message(connection& from, int, const payload& message) {
  const auto found = peers_.find(from.id);
  if (found == peers_.end()) return;
  process& speaker = *from.ends[0].owner;
  const duration orphan = world_.settings().timing.orphan_limit;
  if (world_.now() - speaker.heard_by_daemon >= orphan - orphan / 50)
    speaker.orphan_until = world_.now();
  speaker.heard_by_daemon = world_.now();
  // An embedded daemon is reached by its own agent over the loopback.
  const bool within = inside_ != nullptr && &speaker == inside_;
  core::agent_said said{from.id, std::get<agent_message>(message),
                        within ? "127.0.0.1" : world_.host_at(from.ends[0].host).address,
                        within ? "127.0.0.1" : host_.address};
  if (const auto* first = std::get_if<hello>(&said.message)) {
    found->second.session = sessions_[from.id] = first->session;
    hear(first->state);
    if (first->state.instance != 0) brought_.insert({first->session, first->state.instance});
    said.fresh_instance = world_.fresh_instance();
  } else if (const auto* news = std::get_if<status>(&said.message)) {
    if (!found->second.session) return world_.violated("an agent spoke before its hello");
    hear(*news);
    if (world_.double_percent() != 0 && world_.random().chance(world_.double_percent())) step(said);
  }
  step(said);
}

void daemon::on_closed(connection& from, int, const std::string&) {
  const auto found = peers_.find(from.id);
  if (found == peers_.end()) return;
  peers_.erase(found);
  step(core::connection_ended{from.id});
}

}  // namespace ddprun::simulation
