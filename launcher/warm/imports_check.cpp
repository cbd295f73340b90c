#include "launcher/warm/imports_check.hpp"

#include <utility>

namespace ddprun::launcher::warm {

imports_check::imports_check(boost::asio::any_io_executor executor, options values,
                             answer_handler answered)
    : options_(std::move(values)),
      answered_(std::move(answered)),
      task_(executor),
      limit_timer_(executor) {}

void imports_check::know(imported_files files) {
  files_ = std::make_shared<const imported_files>(std::move(files));
}

void imports_check::forget() {
  files_.reset();
}

void imports_check::begin() {
  if (!files_ || files_->size() == 0) return;
  const bool is_of_these = looked_at_ == files_;
  if (is_of_these && (task_.under_way() || options_.now() - answered_at_ < options_.valid)) return;
  looked_at_ = files_;
  task_.start(
      [files = files_, look = options_.look] { return look(*files); },
      [this](const std::optional<std::string>& changed) {
        if (!changed) return answer("no thread is left to look at what was imported");
        answer(changed->empty() ? "" : *changed + " has changed since the imports were made");
      });
  limit_timer_.expires_after(options_.limit);
  limit_timer_.async_wait(while_alive(alive_.watch(), [this, look = ++looks_](error_code error) {
    if (error || look != looks_ || !task_.under_way()) return;
    task_.cancel();
    answer("the files that were imported could not be looked at within " +
           ddprun::to_text(options_.limit));
  }));
}

void imports_check::answer(const std::string& why) {
  limit_timer_.cancel();
  answered_at_ = options_.now();
  const bool is_of_known = looked_at_ == files_;
  if (!why.empty()) looked_at_.reset();
  const answer_handler answered = answered_;  // it may destroy this
  answered(why, is_of_known);
}

}  // namespace ddprun::launcher::warm
