#include "launcher/hosts/kubernetes/trainer_status.hpp"

#include "rendezvous/base/signals_blocked.hpp"

#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::launcher::kubernetes {
namespace {

constexpr std::chrono::seconds first_pause{1};
constexpr std::chrono::seconds longest_pause{60};

std::string time_text(std::int64_t now) {
  const auto seconds = static_cast<std::time_t>(now);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32] = "";
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

bool are_same(const std::optional<bar_progress>& one, const std::optional<bar_progress>& two) {
  if (!one || !two) return one.has_value() == two.has_value();
  return one->percent == two->percent && one->seconds == two->seconds;
}

}  // namespace

std::string trainer_status_json(const std::optional<bar_progress>& progress, round_number round,
                                std::uint32_t restarts_used, std::int64_t now) {
  nlohmann::ordered_json status = nlohmann::ordered_json::object();
  if (progress) status["progressPercentage"] = progress->percent;
  if (progress && progress->seconds) status["estimatedRemainingSeconds"] = *progress->seconds;
  // The server expects values as text.
  status["metrics"] = {{{"name", "ddprun_round"}, {"value", std::to_string(round)}},
                       {{"name", "ddprun_restarts"}, {"value", std::to_string(restarts_used)}}};
  status["lastUpdatedTime"] = time_text(now);
  return nlohmann::ordered_json({{"trainerStatus", status}}).dump();
}

// Posts the newest status, one at a time.
class trainer_status::sender : public std::enable_shared_from_this<trainer_status::sender> {
 public:
  using problem_handler = std::function<void(const std::string&)>;

  sender(boost::asio::any_io_executor loop, trainer_server server, problem_handler failed)
      : loop_(std::move(loop)), server_(std::move(server)), failed_(std::move(failed)) {}

  // Returns false if no thread can be started.
  bool start() {
    const signals_blocked blocked;
    try {
      std::thread([self = shared_from_this()] { self->run(); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  void offer(std::string body) {
    const std::lock_guard hold(guard_);
    waiting_ = std::move(body);
    changed_.notify_one();
  }

  // Tries once more to send a waiting status. `ended` is called on the loop; null: nobody waits.
  void stop(std::function<void()> ended) {
    const std::lock_guard hold(guard_);
    is_over_ = true;
    ended_ = std::move(ended);
    changed_.notify_one();
  }

  // Nothing more is posted to the loop.
  void abandon() {
    const std::lock_guard hold(guard_);
    is_over_ = is_abandoned_ = true;
    waiting_.reset();
    changed_.notify_one();
  }

 private:
  void run() {
    duration pause = first_pause;
    bool has_failed = false;
    std::unique_lock hold(guard_);
    while (true) {
      changed_.wait(hold, [this] { return waiting_ || is_over_; });
      if (!waiting_) break;
      std::string body = *std::exchange(waiting_, std::nullopt);
      hold.unlock();
      const std::string problem = post_status(server_, body);
      hold.lock();
      if (!problem.empty() && !has_failed)
        post([self = shared_from_this(), problem] { self->failed_(problem); });
      has_failed = !problem.empty();
      if (!has_failed) {
        pause = first_pause;
        continue;
      }
      if (is_over_ && !waiting_) break;
      if (!waiting_) waiting_ = std::move(body);
      changed_.wait_for(hold, pause, [this] { return is_over_; });
      pause = std::min<duration>(pause * 2, longest_pause);
    }
    if (ended_) post(std::exchange(ended_, nullptr));
  }

  // Requires the lock: the loop exists until the sender is abandoned.
  void post(std::function<void()> what) {
    if (!is_abandoned_) boost::asio::post(loop_, std::move(what));
  }

  boost::asio::any_io_executor loop_;
  const trainer_server server_;
  const problem_handler failed_;
  std::mutex guard_;  // guards everything below
  std::condition_variable changed_;
  std::optional<std::string> waiting_;
  std::function<void()> ended_;
  bool is_over_ = false;
  bool is_abandoned_ = false;
};

trainer_status::trainer_status(boost::asio::any_io_executor loop, trainer_server server,
                               outside given, duration pause)
    : outside_(std::move(given)),
      pause_(pause),
      timer_(loop),
      sender_(std::make_shared<sender>(loop, std::move(server), outside_.failed)) {
  if (!sender_->start()) outside_.failed("no thread can be started for it");
}

trainer_status::~trainer_status() {
  sender_->abandon();
}

void trainer_status::tell(const run_event& event) {
  leads_ = event.leads;
  round_ = event.round;
  restarts_used_ = event.restarts_used;
  timer_.cancel();
  if (!leads_) return;
  const bool has_succeeded = event.kind == run_event_kind::ended && event.exit_code == 0;
  if (has_succeeded) progress_ = bar_progress{100, 0};
  offer();
  if (event.kind != run_event_kind::ended) look();
}

void trainer_status::look() {
  timer_.expires_after(pause_);
  timer_.async_wait([this](error_code cancelled) {
    if (cancelled) return;
    const auto found = find_bar(outside_.newest_output());
    if (found && !are_same(found, progress_)) {
      progress_ = found;
      offer();
    }
    look();
  });
}

void trainer_status::offer() {
  sender_->offer(trainer_status_json(progress_, round_, restarts_used_, std::time(nullptr)));
}

void trainer_status::finish(duration limit, std::function<void()> done) {
  const auto told = std::make_shared<std::function<void()>>(std::move(done));
  const auto once = [this, told] {
    timer_.cancel();
    if (*told) std::exchange(*told, nullptr)();
  };
  timer_.expires_after(limit);
  timer_.async_wait([once](error_code cancelled) {
    if (!cancelled) once();
  });
  sender_->stop(once);
}

}  // namespace ddprun::launcher::kubernetes
