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
      effects_(random_.fork(3)),
      words_(random_.fork(4)),
      health_(random_.fork(5)),
      network_(*this, random_.fork(1)),
      checkers_(*this),
      restart_checkers_(*this),
      journal_random_(random_.fork(2)) {}

world::~world() = default;

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

agent& world::start_agent(host& on, agent_wish wish) {
  core::agent_options options;
  options.greeting.version = "sim";
  options.greeting.run_id = wish.run_id;
  options.greeting.role = wish.role;
  options.greeting.session = {random_.next(), random_.next() | 1};
  options.greeting.node_is_explicit = !wish.label.empty();
  options.greeting.node =
      wish.label.empty() ? on.name + "-" + std::to_string(agents_.size()) : wish.label;
  options.greeting.host = options_.hosts_share_name ? "localhost" : on.name;
  options.greeting.worker_count = wish.worker_count;
  options.greeting.settings = wish.settings.value_or(options_.settings);
  // Node ranks are given as a person would: the first host has 0, and one that replaces another has
  // its number.
  if (is_exact(options.greeting)) {
    const std::uint32_t nodes = options.greeting.settings.nodes_max;
    options.greeting.node_rank = (on.id + nodes - 1) % nodes;
  }
  if (!wish.job.empty()) {
    options.greeting.job =
        started_job{wish.job + wish.arguments, wish.job, "10:31", options.greeting.node};
  }
  options.endpoints = {"endpoint:29400"};
  options.checks_node = options_.health.are_checked;
  options.seed = random_.next();
  agents_.push_back(std::make_unique<agent>(*this, on, std::move(options)));
  agent& made = *agents_.back();
  made.index = agents_.size() - 1;
  made.job = wish.job;
  trace([&] { return "agent " + made.greeting().node + " starts"; });
  host_daemon(made);
  note_trouble();
  made.begin();
  return made;
}

void world::host_daemon(agent& in) {
  host& on = in.where();
  const bool may = options_.embeds && in.hosted == nullptr && on.address == endpoint_address_ &&
                   !network_.is_taken(on.id, daemon_port);
  if (may) in.hosted = &add_daemon(on, &in);
}

daemon& world::add_daemon(host& on, agent* inside) {
  daemons_.push_back(std::make_unique<daemon>(*this, on, inside));
  daemons_.back()->index = daemons_.size();
  trace([&] {
    return "daemon " + std::to_string(daemons_.size()) + " starts on " + on.name +
           (inside == nullptr ? "" : ", embedded in " + inside->greeting().node);
  });
  note_trouble();
  daemons_.back()->begin();
  return *daemons_.back();
}

void world::set_endpoint(const host& on) {
  endpoint_address_ = on.address;
}

daemon* world::start_daemon(host& on) {
  endpoint_address_ = on.address;
  if (!on.powered) return nullptr;
  if (network_.is_taken(on.id, daemon_port)) {
    trace([&] { return "a daemon on " + on.name + " finds its port taken, and exits"; });
    return nullptr;
  }
  return &add_daemon(on, nullptr);
}

void world::signal(agent& whom, int number) {
  trace([&] { return "signal " + std::to_string(number) + " to " + whom.greeting().node; });
  whom.asked_to_leave = true;
  note_fault();
  agent* target = &whom;
  whom.post([=] { target->step(core::signal_received{number}); });
}

daemon* world::current_daemon() {
  const auto found = std::find_if(daemons_.rbegin(), daemons_.rend(),
                                  [](const auto& each) { return each->alive(); });
  return found == daemons_.rend() ? nullptr : found->get();
}

daemon* world::daemon_of(std::uint64_t index) {
  return index == 0 || index > daemons_.size() || !daemons_[index - 1]->alive()
             ? nullptr
             : daemons_[index - 1].get();
}

bool world::has_daemon_at_endpoint() const {
  return std::any_of(daemons_.begin(), daemons_.end(), [this](const auto& each) {
    return each->alive() && each->where().address == endpoint_address_;
  });
}

std::optional<host_id> world::host_of_address(const std::string& address, host_id from) const {
  if (address == "127.0.0.1") return from;
  unsigned a = 0, b = 0, c = 0;
  if (std::sscanf(address.c_str(), "10.%u.%u.%u", &a, &b, &c) != 3) return std::nullopt;
  const host_id id = a * 65536 + b * 256 + c;
  if (id >= hosts_.size()) return std::nullopt;
  return id;
}

state_folder* world::folder_of(const host& where) {
  if (options_.journal == journal_kind::none) return nullptr;
  const auto found = folders_.find(where.id);
  if (found != folders_.end()) return &found->second;
  return &folders_
              .try_emplace(where.id, options_.journal, options_.slow_disk_percent,
                           journal_random_.fork(100 + where.id))
              .first->second;
}

std::uint64_t world::folders_tampered() const {
  std::uint64_t count = 0;
  for (const auto& [on, folder] : folders_)
    count += folder.tampered();
  return count;
}

std::size_t world::agents_here(const std::string& run_id) const {
  std::size_t count = 0;
  std::set<std::uint32_t> ranks;
  for (const auto& each : agents_) {
    const bool counts = each->alive() && !each->left() && !each->asked_to_leave && !each->deaf &&
                        !each->is_stuck && each->greeting().run_id == run_id;
    if (!counts) continue;
    // Two agents with the same rank cannot both be in a round.
    const hello& greeting = each->greeting();
    if (!is_exact(greeting) || ranks.insert(*greeting.node_rank).second) ++count;
  }
  return count;
}

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

// That a start took too long is noticed by the daemon and the agents that wait for it, not by the
// hosts.
void world::note_failed_start(const payload& message) {
  if (const auto* said = std::get_if<agent_message>(&message)) {
    const auto* news = std::get_if<status>(said);
    if (news == nullptr) return;
    for (const cause& each : news->causes)
      if (each.kind == cause_class::start) {
        checkers_.start_failed(news->instance, news->round);
        restart_checkers_.start_failed(news->instance);
      }
  } else if (const auto* word = std::get_if<std::shared_ptr<const daemon_message>>(&message)) {
    const auto* report = std::get_if<round_report>(word->get());
    if (report == nullptr || !report->root_cause) return;
    if (report->root_cause->kind == cause_class::start) {
      checkers_.start_failed(report->instance, report->round);
      restart_checkers_.start_failed(report->instance);
    }
  }
}

void world::note_order(const connection& over, const payload& message) {
  const auto* word = std::get_if<std::shared_ptr<const daemon_message>>(&message);
  if (word == nullptr) return;
  const auto* order = std::get_if<desired>(word->get());
  if (order == nullptr) return;
  const auto& by = *static_cast<const daemon*>(over.ends[1].owner);
  checkers_.order_sent(by, *order);
  restart_checkers_.order_sent(by, *order);
  if (order->phase == desired_phase::stop)
    checkers_.round_stopped(order->instance, order->round, by.index);
}

void world::note_ack(const connection& over, const payload& message) {
  const auto* word = std::get_if<std::shared_ptr<const daemon_message>>(&message);
  if (word == nullptr || !std::holds_alternative<ack>(**word)) return;
  const auto* whom = dynamic_cast<const agent*>(over.ends[0].owner);
  const auto* by = dynamic_cast<const daemon*>(over.ends[1].owner);
  if (whom != nullptr && by != nullptr) checkers_.acked(*whom, *by);
}

void world::note_refusal(const connection& over, const payload& message) {
  const auto* word = std::get_if<std::shared_ptr<const daemon_message>>(&message);
  const auto* no = word == nullptr ? nullptr : std::get_if<refused>(word->get());
  const auto* whom = dynamic_cast<const agent*>(over.ends[0].owner);
  const auto* by = dynamic_cast<const daemon*>(over.ends[1].owner);
  if (no != nullptr && whom != nullptr && by != nullptr)
    restart_checkers_.refused(*whom, *by, no->text);
}

void world::message_sent(const connection& over, int end, const parcel& message) {
  trace([&] {
    return "#" + std::to_string(over.id) + (end == 0 ? " -> " : " <- ") + to_text(*message.content);
  });
  note_failed_start(*message.content);
  note_order(over, *message.content);
  note_ack(over, *message.content);
  note_refusal(over, *message.content);
  if (on_sent) on_sent(over, end, message);
}

void world::message_read(const connection& over, int end, const payload& message) {
  trace([&] {
    return "#" + std::to_string(over.id) + (end == 0 ? " => " : " <= ") + to_text(message);
  });
  const auto* said = std::get_if<agent_message>(&message);
  if (said == nullptr) return;
  const auto* greeting = std::get_if<hello>(said);
  if (greeting != nullptr) {
    restart_checkers_.greeted(*static_cast<const agent*>(over.ends[0].owner),
                              *static_cast<const daemon*>(over.ends[1].owner));
  }
  const status* const news = greeting ? &greeting->state : std::get_if<status>(said);
  if (news != nullptr && news->phase == member_phase::succeeded)
    checkers_.success_heard(static_cast<const agent*>(over.ends[0].owner)->session(), *news,
                            static_cast<const daemon*>(over.ends[1].owner)->index);
}

}  // namespace ddprun::simulation
