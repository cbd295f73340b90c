#include "launcher/warm/cold_comparison.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher::warm {

cold_comparison::cold_comparison(boost::asio::any_io_executor executor, spawner& inner,
                                 suspect failed, options values, events handlers)
    : inner_(inner),
      failed_(std::move(failed)),
      options_(values),
      handlers_(std::move(handlers)),
      timer_(std::move(executor)) {}

spawn_result cold_comparison::spawn(const spawn_request& request, spawn_handlers handlers) {
  const auto& entries = request.environment;
  const bool is_compared = std::find(entries.begin(), entries.end(), failed_.rank) != entries.end();
  auto record =
      is_compared ? recording::begin({}, options_.answers) : result<recording>(error_code());
  if (!record) return inner_.spawn(request, std::move(handlers));
  handlers.ended = [weak = alive_.watch(), this, ended = std::move(handlers.ended)](
                       pid_t pid, exit_status status) {
    if (!weak.expired() && pid == std::exchange(pid_, -1)) judge(status);
    ended(pid, status);
  };
  auto started = inner_.spawn(record->recorded(request), std::move(handlers));
  if (!started) return started;
  record_ = std::move(*record);
  pid_ = started->pid;
  look();
  return started;
}

void cold_comparison::signalled(pid_t pid) {
  if (pid != pid_) return;
  pid_ = -1;
  timer_.cancel();
}

// The list varies by chance, and the last modules are imported late, so nine tenths are enough.
void cold_comparison::look() {
  const bool has_imported = record_->bytes() >= failed_.bytes / 10 * 9;
  timer_.expires_after(has_imported ? options_.lives_after : options_.look_pause);
  timer_.async_wait(while_alive(alive_.watch(), [this, has_imported](error_code error) {
    if (error || pid_ < 0) return;
    if (!has_imported) return look();
    const auto told = handlers_.is_warm_start;
    told("one that was started cold lives");
  }));
}

void cold_comparison::judge(exit_status status) {
  timer_.cancel();
  const events handlers = handlers_;
  if (status == failed_.status) return handlers.is_script();
  if (status.success()) return handlers.is_warm_start("one that was started cold has ended well");
}

}  // namespace ddprun::launcher::warm
