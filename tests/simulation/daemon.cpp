#include "tests/simulation/daemon.hpp"

#include "tests/simulation/network.hpp"
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::simulation {

using namespace std::chrono_literals;

daemon::daemon(world& in, host& on) : process(in, on) {}

void daemon::begin() {
  began_ = local_now();
  sweep_ = began_ + 1s;
  world_.net().listen(*this, host_.id, daemon_port);
  arm();
}

std::string daemon::why() const {
  return run_ ? run_->why(local_now()) : "nobody has come";
}

std::set<session_id> daemon::sessions_joined() const {
  std::set<session_id> sessions;
  for (const auto& [id, each] : peers_)
    if (each.joined) sessions.insert(each.session);
  return sessions;
}

session_id daemon::session_of(connection_id which) const {
  const auto found = sessions_.find(which);
  return found == sessions_.end() ? session_id{} : found->second;
}

void daemon::operator_stops() {
  if (run_) step(core::operator_stop_requested{"stopped by the operator"});
}

void daemon::arm() {
  std::optional<time_point> next = sweep_;
  if (run_ && run_->next_deadline()) next = std::min(*next, *run_->next_deadline());
  wake_at(next);
}

void daemon::on_wake() {
  if (local_now() >= sweep_) {
    cut_off_who_does_not_read();
    sweep_ = local_now() + 1s;
  }
  if (run_) step(core::time_passed{});
  arm();
}

void daemon::on_late(duration by) {
  if (run_) step(core::loop_was_late{by});
}

void daemon::step(const core::run_event& event) {
  if (!alive() || world_.over()) return;
  core::run_event changed = event;
  const auto& mutation = world_.mutation();
  core::run_effects effects;
  if (mutation.run_event && !mutation.run_event(*this, changed)) return;
  run_->step(changed, local_now(), effects);
  if (mutation.run_effects) mutation.run_effects(*this, changed, effects);
  apply(effects);
  if (!alive()) return;
  if ((run_->phase() == run_phase::closed) != closed_seen_) {
    closed_seen_ = !closed_seen_;
    if (closed_seen_) world_.run_closed(*this, run_->view(local_now()));
  }
  arm();
}

void daemon::apply(const core::run_effects& effects) {
  for (const auto& effect : effects) {
    if (!alive()) return;  // a scenario kills the daemon between two messages
    if (const auto* sent = std::get_if<core::send_to_agent>(&effect)) {
      const auto found = peers_.find(sent->connection);
      if (found == peers_.end()) continue;
      world_.net().send(*found->second.over, 1, sent->message);
    } else if (const auto* ended = std::get_if<core::disconnect_agent>(&effect)) {
      const auto found = peers_.find(ended->connection);
      if (found == peers_.end()) continue;
      world_.net().close(*found->second.over, 1);
      peers_.erase(found);
    } else {
      world_.trace([&] { return "daemon note: " + std::get<core::run_note>(effect).text; });
    }
  }
}

// A peer whose queue has stood still for node_timeout is cut off, never buffered.
void daemon::cut_off_who_does_not_read() {
  std::vector<connection_id> stuck;
  for (const auto& [id, each] : peers_) {
    const auto& mine = each.over->ends[1];
    if (!mine.outbox.empty() &&
        world_.now() - mine.stuck_since > world_.settings().timing.node_timeout)
      stuck.push_back(id);
  }
  for (const connection_id id : stuck) {
    const peer gone = peers_[id];
    peers_.erase(id);
    gone.over->ends[1].outbox.clear();
    world_.net().close(*gone.over, 1);
    if (gone.joined) step(core::agent_disconnected{id});
  }
}

void daemon::on_accepted(connection& from, int, std::uint16_t) {
  peers_[from.id] = {from.shared_from_this(), false, {}};
}

void daemon::on_message(connection& from, int, const payload& message) {
  const auto found = peers_.find(from.id);
  if (found == peers_.end()) return;
  process& speaker = *from.ends[0].owner;
  const duration orphan = world_.settings().timing.orphan_limit;
  if (world_.now() - speaker.heard_by_daemon >= orphan - orphan / 50)
    speaker.orphan_until = world_.now();
  speaker.heard_by_daemon = world_.now();
  const auto& said = std::get<agent_message>(message);
  if (const auto* first = std::get_if<hello>(&said)) {
    if (!run_) {
      const bool recovers = index > 1 || world_.first_daemon_recovers();
      const duration window = recovers ? first->settings.timing.recovery_window : duration::zero();
      run_.emplace(core::run_options{first->run_id, 0, "sim", began_ + window, 1});
    }
    found->second.joined = true;
    found->second.session = sessions_[from.id] = first->session;
    step(core::agent_joined{from.id, *first, world_.host_at(from.ends[0].host).address,
                            host_.address, world_.fresh_instance()});
  } else if (const auto* word = std::get_if<guardian_word>(&said)) {
    if (run_) step(core::guardian_reported{word->session});
  } else if (!found->second.joined) {
    world_.violated("an agent spoke before its hello");
  } else if (const auto* news = std::get_if<status>(&said)) {
    step(core::status_received{from.id, *news});
    if (world_.double_percent() != 0 && world_.random().chance(world_.double_percent()))
      step(core::status_received{from.id, *news});
  } else if (std::holds_alternative<goodbye>(said)) {
    step(core::goodbye_received{from.id});
  }
}

void daemon::on_closed(connection& from, int, const std::string&) {
  const auto found = peers_.find(from.id);
  if (found == peers_.end()) return;
  const bool joined = found->second.joined;
  peers_.erase(found);
  if (joined) step(core::agent_disconnected{from.id});
}

}  // namespace ddprun::simulation
