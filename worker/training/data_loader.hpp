// A data loader loads batches on threads of its own, ahead of the steps that need them, and returns
// them in the order of the steps:
//
//   data_loader<batch> loader([&](std::uint64_t epoch, sample_span samples) {
//     return images.load(samples);
//   }, {.workers = 2});
//   training_loop loop(...);
//   loop.load_ahead(loader);
//   loop.run([&](training_batch& now) {
//     const batch loaded = loader.take(now);
//     ...
//   });
//
// The sampler decides which samples are used and in which order, also after a resume. A batch must
// depend only on the epoch and the samples; then it is the same with any number of workers. Seed a
// random generator with them; the generator that the model uses belongs to the training thread.
//
// Thread rule: one thread calls begin() and take(); `load` runs on all workers at once, with all
// signals blocked, and on the caller's thread for a batch that was not loaded ahead. Ownership:
// what `load` uses must outlive the loader, whose destructor waits for the batches that are being
// loaded.
// Errors: take() throws loading_error if `load` has thrown for this batch: one line, with epoch and
// samples. If the threads cannot be created, the constructor throws std::runtime_error, also one
// line, and leaves none behind. Without memory even for that line it is std::bad_alloc.
#pragma once

#include "worker/training/loop_work.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::worker {

class loading_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct data_loader_options {
  std::size_t workers = 2;          // threads; 0: batches are loaded when they are taken
  std::size_t prefetch_factor = 2;  // batches ahead for each worker, at least 1
};

// The part of a data loader that does not depend on the type of a batch.
class batch_queue {
 public:
  ~batch_queue();
  batch_queue(const batch_queue&) = delete;
  batch_queue& operator=(const batch_queue&) = delete;

  // Starts loading these passes, and keeps them until they are taken. What is left of earlier
  // passes is dropped. The samples are copied.
  void begin(std::uint64_t epoch, std::span<const sample_span> passes);

 protected:
  using loaded = std::shared_ptr<void>;
  using queue_function = std::function<loaded(std::uint64_t epoch, sample_span samples)>;
  batch_queue(queue_function load, const data_loader_options& options);

  // Drops earlier passes that were not taken. A pass that is not in the plan is loaded by the
  // caller.
  loaded take_loaded(std::uint64_t epoch, sample_span samples);

 private:
  struct plan {
    std::uint64_t epoch;
    std::vector<std::vector<std::size_t>> passes;
  };
  struct outcome {
    loaded batch;
    std::exception_ptr error;
  };
  void run();
  void end_workers();
  bool has_work() const;
  outcome load(std::uint64_t epoch, sample_span samples) const noexcept;
  // The pass's index in the plan; none if it is not to come.
  std::optional<std::size_t> find(std::uint64_t epoch, sample_span samples) const;

  const queue_function load_;
  const std::size_t ahead_;  // the limit of batches that are ready or being loaded
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const plan> plan_;
  std::size_t next_to_load_ = 0;
  std::size_t next_to_take_ = 0;
  std::vector<std::optional<outcome>> ready_;  // for each pass, so that a worker needs no memory
  bool is_over_ = false;
  std::vector<std::thread> workers_;  // the last member, because they use all others
};

template <typename Batch>
class data_loader final : public batch_queue {
 public:
  using load_function = std::function<Batch(std::uint64_t epoch, sample_span samples)>;

  explicit data_loader(load_function load, const data_loader_options& options = {})
      : batch_queue(
            [load = std::move(load)](std::uint64_t epoch, sample_span samples) -> loaded {
              return std::make_shared<Batch>(load(epoch, samples));
            },
            options) {}

  Batch take(std::uint64_t epoch, sample_span samples) {
    return std::move(*std::static_pointer_cast<Batch>(take_loaded(epoch, samples)));
  }
  // Takes the batch of a pass of the training loop (training_batch).
  template <typename Pass>
  Batch take(const Pass& pass) {
    return take(pass.epoch(), pass.indices());
  }
};

}  // namespace ddprun::worker
