#include "launcher/node/node_health.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

// Most restarts are over by then, and the look must not compete with them for a CPU.
constexpr std::chrono::milliseconds until_own_look{200};

}  // namespace

std::string health_problem(const hook_end& end) {
  if (end.success()) return {};
  const std::string how =
      "--health-check: " + (end.problem.empty() ? end.status.describe() : end.problem);
  return end.last_line.empty() ? how : end.last_line + " (" + how + ")";
}

node_health::node_health(boost::asio::any_io_executor executor, health_options options,
                         std::unique_ptr<hook_runner> command, own_look look, heard_handler heard,
                         say_handler say, times limits)
    : executor_(executor),
      options_(std::move(options)),
      command_(std::move(command)),
      look_(std::move(look)),
      heard_(std::move(heard)),
      say_(std::move(say)),
      looking_(executor),
      soon_(executor),
      again_(executor),
      late_(executor),
      dying_again_(executor),
      limits_(limits),
      cool_down_(options_.again) {}

void node_health::check(round_number round, bool waits_for_look) {
  awaited_ = round;
  is_resting_ = false;
  again_.cancel();
  waits_for_look_ = waits_for_look && look_;
  has_said_dying_ = false;
  waits_for_look_ ? look_now() : look_after(until_own_look);
  if (command_) return run_command(round);
  boost::asio::post(executor_, while_alive(alive_.watch(), [this] { answer(); }));
}

// Does not cancel a look after the last round: most restarts are faster than a look, which would
// then never finish.
void node_health::rest() {
  is_resting_ = true;
  may_look_beside_workers() ? check_again_later() : void(again_.cancel());
}

// What the command has said cannot change by a look.
bool node_health::may_look_beside_workers() const {
  return look_ && !told_.empty() && said_by_command_.empty();
}

// A command that still runs from an earlier check also answers this one.
void node_health::run_command(round_number round) {
  if (std::exchange(is_running_, true)) return;
  hook_call call;
  call.what = round == 0 ? "another look" : "after round " + std::to_string(round);
  call.ended = while_alive(alive_.watch(), [this](const hook_end& end) {
    is_running_ = false;
    said_by_command_ = health_problem(end);
    answer();
  });
  command_->run(std::move(call));
}

void node_health::look_after(duration pause) {
  if (!look_) return;
  soon_.expires_after(pause);
  soon_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code cancelled) {
    if (!cancelled) look();
  }));
}

void node_health::look_now() {
  soon_.cancel();
  is_stale_ = looking_.under_way();
  look();
  late_.expires_after(limits_.look_limit);
  late_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code cancelled) {
    const bool is_old = late_.expiry() > std::chrono::steady_clock::now();
    if (cancelled || is_old || !std::exchange(waits_for_look_, false)) return;
    answer();
  }));
}

void node_health::look() {
  if (looking_.under_way()) return;  // a disk hangs: what it says comes when it does
  looking_.start(look_, [this](std::optional<node_look> found) {
    hear_look(std::move(found).value_or(node_look()));
  });
}

void node_health::hear_look(node_look found) {
  seen_ = std::move(found.unhealthy);
  const std::vector<gpu_holder> stuck = find_stuck(found.dying);
  if (!stuck.empty()) {
    seen_ += (seen_.empty() ? "" : "; ") +
             std::string("SIGKILL does not end what has a GPU open: ") + holders_text(stuck);
  }
  const bool any_ends = found.dying.size() > stuck.size();
  // As long as no workers run here, the node is to be back soon after those are gone.
  if (any_ends || (!is_resting_ && !stuck.empty())) look_at_dying_again(any_ends);
  const bool is_news = found.warning != warned_;
  warned_ = std::move(found.warning);
  if (is_news && !warned_.empty()) say_(note_level::warning, warned_);
  if (std::exchange(is_stale_, false)) return look();
  if (waits_for_look_ && any_ends) return wait_for_dying(found.dying);
  if (!std::exchange(waits_for_look_, false)) return tell(0);
  late_.cancel();
  answer();
}

// Until then their memory is missing to the next round. The answer is late when `late_` says so.
void node_health::wait_for_dying(const std::vector<gpu_holder>& dying) {
  if (std::exchange(has_said_dying_, true)) return;
  say_(note_level::info,
       "the next round waits, " + to_text(limits_.look_limit) +
           " at most, for processes that were killed and still have a GPU open: " +
           holders_text(dying));
}

void node_health::look_at_dying_again(bool any_ends) {
  const bool is_awaited = waits_for_look_ && any_ends;
  dying_again_.expires_after(is_awaited ? limits_.until_dying_awaited : limits_.until_dying_again);
  dying_again_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code cancelled) {
    if (!cancelled) look();
  }));
}

// Of those, the ones that have had the time to be gone.
std::vector<gpu_holder> node_health::find_stuck(const std::vector<gpu_holder>& dying) {
  const time_point now = std::chrono::steady_clock::now();
  std::map<pid_t, time_point> since;
  std::vector<gpu_holder> stuck;
  for (const gpu_holder& one : dying) {
    const auto before = dying_since_.find(one.process);
    const time_point first = before == dying_since_.end() ? now : before->second;
    since.emplace(one.process, first);
    if (now - first >= limits_.dying_limit) stuck.push_back(one);
  }
  dying_since_ = std::move(since);
  return stuck;
}

// When all is known that the round's answer waits for.
void node_health::answer() {
  if (!is_running_ && !waits_for_look_) tell(std::exchange(awaited_, 0));
}

void node_health::tell(round_number round) {
  std::string found = cool_down_.judge(said_by_command_.empty() ? seen_ : said_by_command_,
                                       std::chrono::steady_clock::now());
  const bool is_news = found != told_;
  told_ = std::move(found);
  if (is_news && told_.empty())
    say_(note_level::info, "this node is healthy again: its health check passes");
  if (is_news && !told_.empty()) say_(note_level::warning, "this node is unhealthy: " + told_);
  if (round != 0 || is_news) heard_(round, told_);
  if (!told_.empty() && (!is_resting_ || may_look_beside_workers())) check_again_later();
}

void node_health::check_again_later() {
  again_.expires_after(options_.again);
  again_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code cancelled) {
    if (cancelled || (is_resting_ && !may_look_beside_workers())) return;
    if (look_) look();
    if (command_ && !is_resting_) run_command(0);
    check_again_later();
  }));
}

}  // namespace ddprun::launcher
