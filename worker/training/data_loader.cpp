#include "worker/training/data_loader.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/signals_blocked.hpp"

#include <algorithm>
#include <string>
#include <system_error>

namespace ddprun::worker {
namespace {

constexpr std::size_t samples_told = 4;

// "cannot load samples 7, 3, 9, 12 and 28 more of epoch 2: no such file"
std::string text_of_failure(std::uint64_t epoch, sample_span samples, const std::string& reason) {
  std::string text = samples.size() == 1 ? "cannot load sample " : "cannot load samples ";
  for (std::size_t at = 0; at < std::min(samples.size(), samples_told); ++at)
    text += (at == 0 ? "" : ", ") + std::to_string(samples[at]);
  if (samples.size() > samples_told)
    text += " and " + std::to_string(samples.size() - samples_told) + " more";
  // LibTorch's texts go on with a stack of C++ frames.
  return text + " of epoch " + std::to_string(epoch) + ": " + reason.substr(0, reason.find('\n'));
}

}  // namespace

batch_queue::batch_queue(queue_function load, const data_loader_options& options)
    : load_(std::move(load)), ahead_(options.workers * options.prefetch_factor) {
  if (options.prefetch_factor == 0) {
    throw std::invalid_argument("data loader: prefetch_factor must be at least 1");
  }
  const signals_blocked for_workers;
  try {
    while (workers_.size() < options.workers)
      workers_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
    // No room for one more thread: it takes longer.
  }
}

batch_queue::~batch_queue() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  for (auto& worker : workers_)
    worker.join();
}

void batch_queue::begin(std::uint64_t epoch, std::span<const sample_span> passes) {
  // A copy: one that is under way when an epoch is left uses it still.
  auto made = std::make_shared<plan>();
  made->epoch = epoch;
  for (const sample_span& pass : passes)
    made->passes.emplace_back(pass.begin(), pass.end());
  std::map<std::size_t, outcome> dropped;  // freed without the lock
  const std::lock_guard lock(mutex_);
  plan_ = std::move(made);
  next_to_load_ = next_to_take_ = 0;
  ready_.swap(dropped);
  changed_.notify_all();
}

batch_queue::loaded batch_queue::take_loaded(std::uint64_t epoch, sample_span samples) {
  std::unique_lock lock(mutex_);
  outcome found;
  if (const auto at = find(epoch, samples)) {
    ready_.erase(ready_.begin(), ready_.lower_bound(*at));
    next_to_take_ = *at;
    next_to_load_ = std::max(next_to_load_, *at);
    changed_.notify_all();
    changed_.wait(lock, [&] { return ready_.contains(*at); });
    found = std::move(ready_.extract(*at).mapped());
    next_to_take_ = *at + 1;
    changed_.notify_all();
    lock.unlock();
  } else {
    lock.unlock();
    found = load(epoch, samples);
  }
  if (found.error) std::rethrow_exception(found.error);
  return std::move(found.batch);
}

std::optional<std::size_t> batch_queue::find(std::uint64_t epoch, sample_span samples) const {
  if (workers_.empty() || !plan_ || plan_->epoch != epoch) return std::nullopt;
  const auto& passes = plan_->passes;
  for (std::size_t at = next_to_take_; at < passes.size(); ++at) {
    if (std::equal(passes[at].begin(), passes[at].end(), samples.begin(), samples.end())) return at;
  }
  return std::nullopt;
}

batch_queue::outcome batch_queue::load(std::uint64_t epoch, sample_span samples) const {
  const auto failed = [&](const std::string& reason) {
    return outcome{nullptr,
                   std::make_exception_ptr(loading_error(text_of_failure(epoch, samples, reason)))};
  };
  try {
    return {load_(epoch, samples), nullptr};
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("an exception that is not a std::exception");
  }
}

bool batch_queue::has_work() const {
  return plan_ && next_to_load_ < plan_->passes.size() && next_to_load_ < next_to_take_ + ahead_;
}

void batch_queue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || has_work(); });
    if (is_over_) return;
    const auto of = plan_;
    const std::size_t at = next_to_load_++;
    lock.unlock();
    outcome made = load(of->epoch, of->passes[at]);
    lock.lock();
    // Another epoch may have begun meanwhile, or a later pass been taken.
    if (of != plan_ || at < next_to_take_) continue;
    ready_.emplace(at, std::move(made));
    changed_.notify_all();
  }
}

}  // namespace ddprun::worker
