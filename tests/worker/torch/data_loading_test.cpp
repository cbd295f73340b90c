// Use REQUIRE only: LibTorch defines CHECK as a macro that ends the program.
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/snapshot/checksum.hpp"
#include "worker/torch/pinned_memory.hpp"
#include "worker/torch/training_loop.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <atomic>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace worker;

// A job of 12 steps, 6 for each epoch, whose loader computes each sample from its index.
struct loading_job {
  std::string folder;
  std::size_t workers = 0;
  std::uint64_t round = 1;
  std::uint64_t stops_at = 0;       // rank 1 stops in this step
  std::size_t broken_sample = 999;  // the sample that fails to load

  std::string operator()(environment here) const {
    here.round = round;
    here.restart_count = static_cast<std::uint32_t>(round - 1);
    torch::set_num_threads(1);
    torch::manual_seed(7);
    auto group = process_group::join(here);
    torch::nn::Linear model(3, 1);
    distributed_data_parallel parallel(group, *model);
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    std::atomic<std::size_t> loaded_here{0};
    const auto training_thread = std::this_thread::get_id();
    data_loader<torch::Tensor> loader(
        [&](std::uint64_t, sample_span samples) {
          if (std::this_thread::get_id() == training_thread) ++loaded_here;
          std::vector<torch::Tensor> rows;
          for (const std::size_t sample : samples) {
            if (sample == broken_sample) throw std::runtime_error("it is broken");
            rows.push_back(torch::full({3}, 0.1 * static_cast<double>(sample)));
          }
          return torch::stack(rows);
        },
        {workers, 2});
    training_loop_options looping;
    looping.samples = 24 * here.world_size;
    looping.batch_size = 4;
    looping.epochs = 2;
    looping.folder = folder;
    looping.shows_progress = false;
    looping.tell = [](std::string_view) {};
    looping.on_message = [](const std::string&) {};
    training_loop loop(parallel, optimizer, looping);
    loop.load_ahead(loader);
    loop.run([&](training_batch& batch) {
      if (here.rank == 1 && batch.step() > 1 && batch.step() == stops_at) ::raise(SIGTERM);
      const auto inputs = loader.take(batch);
      return torch::mse_loss(parallel.forward(model, inputs), inputs.sum(1, true));
    });
    group.close();
    // The warm-up pass comes before all epochs, so its batch is not loaded ahead.
    if (workers > 0 && loaded_here != 1)
      return "the training thread has loaded " + std::to_string(loaded_here);
    checksum sum;
    for (const auto& each : model->parameters())
      sum.add({static_cast<const char*>(each.const_data_ptr()), each.nbytes()});
    return (loop.is_done() ? "done, " : "stopped, ") + checksum_text(sum.value());
  }
};

}  // namespace

TEST_CASE("the number of loader threads does not change the model", "[torch]") {
  const tests::temporary_folder place;
  const auto expected = run_ranks(2, loading_job{place.path + "/whole"});
  REQUIRE(expected[0].find("done, ") == 0);
  for (const std::size_t workers : {1, 3}) {
    loading_job job{place.path + "/" + std::to_string(workers), workers};
    job.stops_at = 3;
    REQUIRE(run_ranks(2, job)[0].find("stopped, ") == 0);
    job.stops_at = 0;
    job.round = 2;
    REQUIRE(run_ranks(2, job) == expected);
  }
}

TEST_CASE("a sample that cannot be loaded ends the training with one line", "[torch]") {
  loading_job job{"", 2};
  job.broken_sample = 5;
  const auto said = run_ranks(1, job);
  REQUIRE(said[0].find("error: cannot load samples ") == 0);
  REQUIRE(said[0].find(" of epoch 1: it is broken") + 25 == said[0].size());
}

TEST_CASE("batches for the CPU are not pinned", "[torch]") {
  const auto said = run_ranks(1, [](const environment&) -> std::string {
    const auto batch = torch::ones({4});
    return pinned_for(c10::kCPU, batch).is_same(batch) ? "the same" : "another";
  });
  REQUIRE(said[0] == "the same");
}

}  // namespace ddprun::tests
