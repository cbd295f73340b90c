// A data loader loads batches on threads of its own, ahead of the steps that want them, and hands
// them over in the order of the steps:
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
// Which samples, and in which order, is the sampler's affair, also after a resume. What is loaded
// must follow from the epoch and the samples alone: then it is the same with any number of workers.
// A random generator is to be seeded with them; the one that a model draws from is the training
// thread's.
//
// Thread rule: one thread calls begin() and take(); `load` runs on all workers at once, with all
// signals blocked, and on the caller's thread for a batch that is not ahead. Ownership: what `load`
// uses must outlive the loader, whose destructor waits for the batches under way.
// Errors: take() throws loading_error where `load` has thrown for this batch: one line, with epoch
// and samples. A loader that cannot have its threads throws std::runtime_error, one line too, and
// leaves none behind. Where there is not even memory for that line, it is std::bad_alloc.
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
  std::size_t workers = 2;          // threads; 0: each batch is loaded when it is taken
  std::size_t prefetch_factor = 2;  // batches ahead for each worker, at least 1
};

// The part of a data loader that does not know what a batch is.
class batch_queue {
 public:
  ~batch_queue();
  batch_queue(const batch_queue&) = delete;
  batch_queue& operator=(const batch_queue&) = delete;

  // From here on these passes are loaded, and kept in mind until they are taken; what is left of
  // earlier ones is dropped. The samples are copied.
  void begin(std::uint64_t epoch, std::span<const sample_span> passes);

 protected:
  using loaded = std::shared_ptr<void>;
  using queue_function = std::function<loaded(std::uint64_t epoch, sample_span samples)>;
  batch_queue(queue_function load, const data_loader_options& options);

  // Passes before this one that nobody has taken are dropped. One that is not to come is loaded
  // here.
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
  // Its number in the plan; none: it is not to come.
  std::optional<std::size_t> find(std::uint64_t epoch, sample_span samples) const;

  const queue_function load_;
  const std::size_t ahead_;  // how many batches may be there, or under way
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const plan> plan_;
  std::size_t next_to_load_ = 0;
  std::size_t next_to_take_ = 0;
  std::vector<std::optional<outcome>> ready_;  // of each pass: a worker need not ask for memory
  bool is_over_ = false;
  std::vector<std::thread> workers_;  // the last one to be made: they use all others
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
  // Of a pass of the training loop (training_batch).
  template <typename Pass>
  Batch take(const Pass& pass) {
    return take(pass.epoch(), pass.indices());
  }
};

}  // namespace ddprun::worker
