#include "tests/simulation/world.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

namespace ddprun::simulation {

using namespace std::chrono_literals;

world::world(world_options options)
    : options_(std::move(options)),
      random_(options_.seed),
      network_(*this, random_.fork(1)),
      checkers_(*this) {}

world::~world() = default;

// ---- building ----------------------------------------------------------------------------------

host& world::add_host() {
  auto made = std::make_unique<host>();
  made->id = static_cast<host_id>(hosts_.size());
  made->name = "host" + std::to_string(made->id);
  made->address = "10." + std::to_string(made->id / 65536) + "." +
                  std::to_string(made->id / 256 % 256) + "." + std::to_string(made->id % 256);
  const std::int64_t most = options_.clock_error_parts_per_million;
  const auto span = static_cast<std::uint64_t>(2 * most + 1);
  std::int64_t error = static_cast<std::int64_t>(random_.below(span)) - most;
  if (random_.chance(30)) error = random_.chance(50) ? most : -most;
  made->clock = local_clock(random_.between(1h, 1000h), error);
  hosts_.push_back(std::move(made));
  return *hosts_.back();
}

agent& world::start_agent(host& on, std::uint32_t worker_count) {
  core::member_options options;
  options.greeting.version = "sim";
  options.greeting.run_id = "train";
  options.greeting.session = {random_.next(), random_.next() | 1};
  options.greeting.node = on.name + "-" + std::to_string(agents_.size());
  options.greeting.host = on.name;
  options.greeting.worker_count = worker_count;
  options.greeting.settings = options_.settings;
  options.endpoint = daemon_address_ + ":29400";
  options.seed = random_.next();
  agents_.push_back(std::make_unique<agent>(*this, on, std::move(options), daemon_address_));
  agent& made = *agents_.back();
  made.index = agents_.size() - 1;
  trace([&] { return "agent " + made.greeting().node + " starts"; });
  made.begin();
  return made;
}

daemon& world::start_daemon(host& on) {
  daemon_address_ = on.address;
  daemons_.push_back(std::make_unique<daemon>(*this, on));
  daemons_.back()->index = daemons_.size();
  trace([&] { return "daemon " + std::to_string(daemons_.size()) + " starts"; });
  daemons_.back()->begin();
  return *daemons_.back();
}

void world::signal(agent& whom, int number) {
  trace([&] { return "signal " + std::to_string(number) + " to " + whom.greeting().node; });
  whom.asked_to_leave = true;
  ++faults_;
  agent* target = &whom;
  whom.post([=] { target->step(core::signal_received{number}); });
}

daemon* world::current_daemon() {
  return daemons_.empty() || !daemons_.back()->alive() ? nullptr : daemons_.back().get();
}

std::optional<host_id> world::host_of_address(const std::string& address, host_id from) const {
  if (address == "127.0.0.1") return from;
  unsigned a = 0, b = 0, c = 0;
  if (std::sscanf(address.c_str(), "10.%u.%u.%u", &a, &b, &c) != 3) return std::nullopt;
  const host_id id = a * 65536 + b * 256 + c;
  if (id >= hosts_.size()) return std::nullopt;
  return id;
}

std::size_t world::agents_here() const {
  return static_cast<std::size_t>(std::count_if(
      agents_.begin(), agents_.end(),
      [](const auto& each) { return each->alive() && !each->left() && !each->asked_to_leave; }));
}

// ---- time --------------------------------------------------------------------------------------

void world::run_until(moment end) {
  while (!over() && time_.run_next(end)) {
    if (time_.events_run() == options_.events_most) violated("livelock: the world does not rest");
  }
}

bool world::run_until_true(const std::function<bool()>& condition, duration limit) {
  const moment end = now() + limit;
  moment next = now();
  while (!over() && now() < end) {
    if (condition()) return true;
    next = std::min(end, next + 20ms);
    run_until(next);
  }
  return condition();
}

// ---- faults ------------------------------------------------------------------------------------

void world::kill_agent(agent& which) {
  if (!which.alive()) return;
  ++faults_;
  trace([&] { return "SIGKILL to agent " + which.greeting().node; });
  which.die();
  network_.process_died(which, false);
  guardians_.push_back(std::make_unique<guardian>(*this, which.where(), which, daemon_address_));
  guardians_.back()->begin();
}

void world::kill_daemon() {
  daemon* const which = current_daemon();
  if (which == nullptr) return;
  ++faults_;
  trace([&] { return "SIGKILL to the daemon"; });
  which->die();
  network_.process_died(*which, false);
}

void world::lose_power(host& which) {
  if (!which.powered) return;
  ++faults_;
  trace([&] { return which.name + " loses power"; });
  which.powered = false;
  which.standing_still = false;
  which.deferred.clear();
  const auto off = [&](process& each) {
    if (!each.alive() || &each.where() != &which) return;
    each.die();
    network_.process_died(each, true);
  };
  for (const auto& each : agents_)
    off(*each);
  for (const auto& each : daemons_)
    off(*each);
  for (const auto& each : guardians_)
    off(*each);
  for (const auto& group : checkers_.live()) {
    if (group->host != which.id) continue;
    for (worker& each : group->workers)
      each.alive = false;
    group->alive = 0;
  }
}

void world::give_power(host& which) {
  if (which.powered) return;
  which.powered = true;
  ++which.boots;
  trace([&] { return which.name + " has power again"; });
}

void world::stand_still(host& which, bool clock_too) {
  if (!which.powered || which.standing_still) return;
  ++faults_;
  trace([&] { return which.name + " stands still" + (clock_too ? ", its clock too" : ""); });
  which.standing_still = true;
  which.still_since = now();
  which.clock_stands_still = clock_too;
  for (const auto& each : agents_)
    if (&each->where() == &which && each->alive()) each->host_stands_still();
  for (const auto& each : daemons_)
    if (&each->where() == &which && each->alive()) each->host_stands_still();
  for (const auto& each : guardians_)
    if (&each->where() == &which && each->alive()) each->host_stands_still();
}

void world::go_on(host& which) {
  if (!which.standing_still) return;
  trace([&] { return which.name + " goes on"; });
  which.standing_still = false;
  if (which.clock_stands_still) {
    which.clock.stood_still(which.still_since, now());
    which.clock_went_on_at = now();
  }
  network_.islands_changed();
  for (auto& what : std::exchange(which.deferred, {}))
    what();
  for (const auto& each : agents_)
    if (&each->where() == &which) each->go_on();
  for (const auto& each : daemons_)
    if (&each->where() == &which) each->go_on();
  for (const auto& each : guardians_)
    if (&each->where() == &which) each->go_on();
}

void world::set_island(host& which, std::uint32_t island) {
  if (which.island == island) return;
  ++faults_;
  which.island = island;
  trace([&] { return which.name + " moves to island " + std::to_string(island); });
  network_.islands_changed();
}

bool world::faults_active() const {
  return network_.any_silent() || std::any_of(hosts_.begin(), hosts_.end(), [](const auto& each) {
           return each->island != 0 || each->standing_still || !each->powered;
         });
}

void world::heal_everything() {
  trace([] { return "everything heals"; });
  for (const auto& each : hosts_)
    each->island = 0;
  network_.heal_links();
  for (const auto& each : hosts_)
    go_on(*each);
  for (const auto& each : agents_)
    each->continue_after_stop();
  if (daemon* const here = current_daemon()) here->continue_after_stop();
}

// ---- the verdict -------------------------------------------------------------------------------

void world::violated(const std::string& text) {
  if (!violation_.empty()) return;
  violation_ = text;
  trace([&] { return "VIOLATION: " + text; });
}

void world::trace_line(const std::string& text) {
  char stamp[32];
  const double seconds = std::chrono::duration<double>(now()).count();
  std::snprintf(stamp, sizeof stamp, "%10.6f  ", seconds);
  transcript_ += stamp + text + "\n";
}

// That a start took too long is seen by those who wait for it, not by the hosts.
void world::note_failed_start(const payload& message) {
  if (const auto* said = std::get_if<agent_message>(&message)) {
    const auto* news = std::get_if<status>(said);
    if (news == nullptr) return;
    for (const cause& each : news->causes)
      if (each.kind == cause_class::start) checkers_.start_failed(news->instance, news->round);
  } else if (const auto* word = std::get_if<std::shared_ptr<const daemon_message>>(&message)) {
    const auto* order = std::get_if<desired>(word->get());
    if (order != nullptr && order->first_cause && order->first_cause->kind == cause_class::start)
      checkers_.start_failed(order->instance, order->first_cause->round);
  }
}

void world::message_sent(const connection& over, int end, const parcel& message) {
  trace([&] {
    return "#" + std::to_string(over.id) + (end == 0 ? " -> " : " <- ") + to_text(*message.content);
  });
  note_failed_start(*message.content);
  if (on_sent) on_sent(over, end, message);
}

void world::message_read(const connection& over, int end, const payload& message) {
  trace([&] {
    return "#" + std::to_string(over.id) + (end == 0 ? " => " : " <= ") + to_text(message);
  });
}

}  // namespace ddprun::simulation
