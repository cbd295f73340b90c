// The head's part for hosts that come and go (--host-discovery): listed hosts get an agent, hosts
// that are no longer listed have their agent leave, and hosts that fail rest for a while.
#include "launcher/hosts/ssh/head.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/name_text.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

// Added to the workers' grace; then ssh is killed, and the agent there with it.
constexpr auto taken_off_limit = std::chrono::seconds(20);

}  // namespace

start_rules::limits head::limits() const {
  const run_settings& settings = plan_.launch.settings;
  start_rules::limits values{plan_.hosts.size(), settings.nodes_min, plan_.start_timeout, seed_};
  values.is_open = discovery_ != nullptr;
  values.hosts_at_once = std::size_t{settings.nodes_max} + settings.spares_max;
  return values;
}

std::string head::opening_text() const {
  if (discovery_)
    return "agents run on the hosts that " + plan_.discovery + " prints; run " + run_id_;
  return "starting agents on " + counted(plan_.hosts.size(), "host") + " over ssh; run " + run_id_;
}

void head::make_discovery(std::vector<std::string> command) {
  discovery_ = std::make_unique<host_discovery>(
      context_.get_executor(), spawner_, std::move(command), environment_,
      [this](const host_discovery::answer& heard) { take_answer(heard); });
}

void head::close_discovery() {
  if (!discovery_) return;
  discovery_->stop();
  solitude_timer_.cancel();
  if (!is_open()) return;
  // No host is admitted any more, so one that is still connecting would only delay the end.
  rules_->close();
  for (std::size_t host = 0; host < guests_.size(); ++host) {
    if (rules_->stage_of(host) == stage::connecting) take_off(host);
  }
}

void head::take_answer(const host_discovery::answer& heard) {
  if (!is_open()) return;
  look_after_leaving();
  if (!heard.problem.empty()) return say_discovery_problem(heard.problem);
  const auto listed = read_hostfile("its output", heard.text);
  if (!listed) return say_discovery_problem(listed.error().text);
  if (!std::exchange(discovery_problem_, {}).empty())
    say(note_level::info, "host discovery: there is a valid list again");
  take_list(*listed);
}

// Reports a problem once, as long as it does not change.
void head::say_discovery_problem(const std::string& problem) {
  if (problem == discovery_problem_) return;
  discovery_problem_ = problem;
  say(note_level::warning,
      "host discovery: " + plan_.discovery + ": " + problem +
          (plan_.hosts.empty() ? "; no host is known yet; trying again every second"
                               : "; the last good list stays in effect"));
}

void head::take_list(const std::vector<host>& listed) {
  const host_roster::change what = roster_.take(plan_.hosts, listed);
  while (guests_.size() < plan_.hosts.size()) {
    guests_.emplace_back();
    rules_->add();
  }
  if (what.is_none()) return;
  say(note_level::info, "host discovery: " + changes_text(what));
  for (const std::vector<std::size_t>* const each : {&what.gone, &what.resized}) {
    for (const std::size_t host : *each)
      take_off(host);
  }
  // A host whose agent is still leaving is admitted when that has ended.
  for (const std::vector<std::size_t>* const each : {&what.come, &what.resized}) {
    for (const std::size_t host : *each) {
      const bool is_free = !guests_[host].link && rules_->stage_of(host) != stage::waiting;
      if (is_free) admit_rested(host);
    }
  }
  go_on();
}

// Admits the host once it has rested after its last failure.
void head::admit_rested(std::size_t host) {
  rules_->admit(host,
                std::max(std::chrono::steady_clock::now(), time_point(roster_.rests_until(host))));
}

std::string head::changes_text(const host_roster::change& what) const {
  std::string text;
  const auto add = [&](const std::vector<std::size_t>& hosts, const std::string& become) {
    if (hosts.empty()) return;
    std::vector<std::string> names;
    for (const std::size_t host : hosts)
      names.push_back(name(host));
    text += (text.empty() ? "" : "; ") + text_of_names(names) +
            (hosts.size() == 1 ? " has " : " have ") + become;
  };
  add(what.come, "come");
  const time_point now = std::chrono::steady_clock::now();
  for (const std::size_t host : what.come) {
    const duration rest = roster_.rests_until(host) - now;
    if (rest <= duration::zero()) continue;
    text += "; " + name(host) + " rests for " +
            to_text(std::chrono::ceil<std::chrono::seconds>(rest)) + " more";
  }
  add(what.gone, "gone");
  add(what.resized, "another number of workers");
  return text;
}

// Makes the host's agent leave as after any SIGTERM: the others go on without that node.
void head::take_off(std::size_t host) {
  guest& one = guests_[host];
  const stage at = rules_->stage_of(host);
  if (at == stage::running && !one.leaves_by) {
    one.link->send("signal " + std::to_string(SIGTERM) + "\n");
    one.leaves_by = std::chrono::steady_clock::now() + plan_.launch.settings.timing.drain_grace +
                    taken_off_limit;
  } else if (at == stage::waiting || at == stage::connecting) {
    rules_->give_up(host);
    if (one.link) one.link->signal(SIGKILL);
  }
}

void head::look_after_leaving() {
  const time_point now = std::chrono::steady_clock::now();
  for (guest& one : guests_) {
    if (one.link && one.leaves_by && *one.leaves_by < now) one.link->signal(SIGKILL);
  }
}

// Returns the text about it.
std::string head::let_rest(std::size_t host, bool is_refused) {
  if (!roster_.is_listed(host)) return {};
  const time_point now = std::chrono::steady_clock::now();
  const auto& since = guests_[host].runs_since;
  const duration rest = roster_.failed(host, since ? now - *since : duration{}, now);
  if (is_refused) {
    roster_.set_aside(host);
    return ", nor will one be until the host has left the list";
  }
  rules_->admit(host, now + rest);
  arm_timer();
  return " (failure " + std::to_string(roster_.failures(host)) + " there; the host rests for " +
         to_text(std::chrono::ceil<std::chrono::seconds>(rest)) + ")";
}

// Called when an ssh has ended. Returns false if it is handled as without discovery.
bool head::settle_when_open(std::size_t host, const link_end& end) {
  guest& one = guests_[host];
  const stage at = rules_->stage_of(host);
  if (at == stage::failed && roster_.may_run(host)) {
    admit_rested(host);  // it was removed, and is listed again
    arm_timer();
    return true;
  }
  if (at != stage::running) return false;
  using core::leave_reason;
  const auto ended_as = [&one](leave_reason why) { return one.ended && one.ended->why == why; };
  const bool was_drained = ended_as(leave_reason::drained);
  const bool has_left = one.leaves_by && (!one.ended || was_drained);
  // The others go on: only this node was refused, or did not reach the daemon.
  const bool is_of_one = rules_->count(stage::running) > 1 &&
                         (ended_as(leave_reason::refused) || ended_as(leave_reason::unmet));
  const bool is_of_run = one.ended && !is_of_one && !was_drained;
  if (is_of_run) {  // the other agents will report the same
    close_discovery();
    return false;
  }
  rules_->agent_ended(host);
  watch_solitude();
  if (has_left) {
    say(note_level::debug, name(host) + ": its agent has left");
    if (roster_.may_run(host)) admit_rested(host);
    go_on();
    return true;
  }
  const std::string rests = let_rest(host, false);
  std::string why = ": its agent is lost" + rests + ": " + how_it_ended(end);
  if (was_drained) {
    why = ": its node was drained" + rests;
  } else if (ended_as(leave_reason::refused)) {
    why = ": the run refuses it" + rests;
  } else if (one.ended) {
    why = ": its node did not meet the others in time" + rests;
  }
  say(note_level::warning, name(host) + why);
  go_on();
  return true;
}

// Without any agent, nobody else notices that the nodes do not meet.
void head::watch_solitude() {
  const bool is_alone = is_open() && rules_->count(stage::running) == 0;
  if (is_alone == is_alone_) return;
  is_alone_ = is_alone;
  solitude_timer_.cancel();
  if (!is_alone) return;
  const duration limit = plan_.launch.settings.timing.join_timeout;
  solitude_timer_.expires_after(limit);
  solitude_timer_.async_wait([this, limit](boost::system::error_code error) {
    if (error || !is_alone_ || !is_open()) return;
    say(note_level::error, "no agent runs on any host after " + to_text(limit) + " (join_timeout)");
    end_.failed_start = unmet_exit_code;
    stop_all(SIGTERM);
  });
}

}  // namespace ddprun::launcher::ssh
