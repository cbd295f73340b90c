#include "worker/training/data_loader.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/threads.hpp"

#include <algorithm>
#include <new>
#include <string>

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
  // LibTorch's texts continue with a C++ stack trace.
  return text + " of epoch " + std::to_string(epoch) + ": " + reason.substr(0, reason.find('\n'));
}

error_code no_memory() {
  return make_error_code(boost::system::errc::not_enough_memory);
}

}  // namespace

batch_queue::batch_queue(queue_function load, const data_loader_options& options)
    : load_(std::move(load)), ahead_(options.workers * options.prefetch_factor) {
  if (options.prefetch_factor == 0) {
    throw std::invalid_argument("data loader: prefetch_factor must be at least 1");
  }
  error_code error;
  try {
    workers_.reserve(options.workers);
    while (!error && workers_.size() < options.workers) {
      std::thread worker;
      error = net::start_thread(worker, "data loader", [this] { run(); });
      if (!error) workers_.push_back(std::move(worker));
    }
  } catch (const std::bad_alloc&) {
    error = no_memory();
  } catch (const std::length_error&) {  // more than any memory can hold
    error = no_memory();
  }
  if (!error) return;
  const std::size_t started = workers_.size();
  end_workers();
  throw std::runtime_error(net::thread_problem("worker " + std::to_string(started + 1) + " of " +
                                                   std::to_string(options.workers) +
                                                   " of a data loader",
                                               error));
}

batch_queue::~batch_queue() {
  end_workers();
}

void batch_queue::end_workers() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  for (auto& worker : workers_)
    worker.join();
  workers_.clear();
}

void batch_queue::begin(std::uint64_t epoch, std::span<const sample_span> passes) {
  // Copy the passes: a batch of the previous epoch may still be loading from its own plan.
  auto made = std::make_shared<plan>();
  made->epoch = epoch;
  for (const sample_span& pass : passes)
    made->passes.emplace_back(pass.begin(), pass.end());
  std::vector<std::optional<outcome>> dropped(passes.size());  // freed without the lock
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
    while (next_to_take_ < *at)
      ready_[next_to_take_++].reset();
    next_to_load_ = std::max(next_to_load_, *at);
    changed_.notify_all();
    changed_.wait(lock, [&] { return ready_[*at].has_value(); });
    found = *std::exchange(ready_[*at], std::nullopt);
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

batch_queue::outcome batch_queue::load(std::uint64_t epoch, sample_span samples) const noexcept
    try {
  const auto failed = [&](const std::string& reason) {
    return outcome{nullptr,
                   std::make_exception_ptr(loading_error(text_of_failure(epoch, samples, reason)))};
  };
  try {
    return {load_(epoch, samples), nullptr};
  } catch (const std::bad_alloc&) {
    return failed("there is no memory left");
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("an exception that is not a std::exception");
  }
} catch (...) {  // no memory for that text
  return {nullptr, std::current_exception()};
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
    // Meanwhile another epoch may have begun, or a later pass may have been taken: then drop it.
    if (of != plan_ || at < next_to_take_) continue;
    ready_[at] = std::move(made);
    changed_.notify_all();
  }
}

}  // namespace ddprun::worker
