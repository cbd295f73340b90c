// Use REQUIRE only: LibTorch defines CHECK as a macro that ends the program.
#include "worker/torch/exponential_moving_average.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/snapshot/checksum.hpp"
#include "worker/torch/training_loop.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <signal.h>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace worker;

constexpr double decay = 0.75;

// Computes the average by its definition, in double precision.
class average_by_hand {
 public:
  explicit average_by_hand(const exponential_moving_average& of) : of_(of) {}

  void add() {
    for (std::size_t at = 0; at < of_.tensors().size(); ++at) {
      const auto now = of_.tensors()[at].of_model.detach().to(torch::kDouble, false, true);
      const bool is_copied = !of_.tensors()[at].of_model.is_floating_point();
      if (values_.size() == at) {
        values_.push_back(now);
      } else {
        values_[at] = is_copied ? now : decay * values_[at] + (1 - decay) * now;
      }
    }
  }
  // Returns an empty text, or the tensor that differs.
  std::string compare() const {
    for (std::size_t at = 0; at < values_.size(); ++at) {
      const auto& found = of_.tensors()[at];
      if (!torch::allclose(found.average.to(torch::kDouble), values_[at], 1e-5, 1e-6))
        return found.name + " is not what it must be";
    }
    return "";
  }

 private:
  const exponential_moving_average& of_;
  std::vector<torch::Tensor> values_;
};

// A job of 8 steps, 4 for each epoch.
struct averaged_job {
  std::string folder;
  std::uint64_t round = 1;
  bool buffers = false;
  std::function<void(std::uint32_t rank, std::uint64_t step)> in_step;  // called before the loss

  // Returns a text of the final state of the rank.
  std::string operator()(environment here) const {
    here.round = round;
    here.restart_count = static_cast<std::uint32_t>(round - 1);
    torch::set_num_threads(1);
    torch::manual_seed(5);
    const auto inputs = torch::randn({32 * here.world_size, 4});
    auto group = process_group::join(here);
    torch::nn::Sequential model(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
    distributed_data_parallel parallel(group, *model);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    exponential_moving_average average(*model, {decay, buffers});
    training_loop_options looping;
    looping.samples = 32 * here.world_size;
    looping.batch_size = 8;
    looping.epochs = 2;
    looping.save.epochs = 2;
    looping.folder = folder;
    looping.shows_progress = false;
    looping.tell = [](std::string_view) {};
    looping.on_message = [](const std::string&) {};
    training_loop loop(parallel, optimizer, looping);
    loop.keep("average", average);
    average_by_hand expected(average);
    std::string wrong;
    std::uint64_t first_step = 0;
    loop.on_step([&](const step_end& done) {
      if (first_step == 0) first_step = done.step;
      expected.add();
      if (first_step == 1 && wrong.empty()) wrong = expected.compare();
    });
    loop.run([&](training_batch& batch) {
      if (in_step && batch.step() > 1) in_step(here.rank, batch.step());
      const auto picked = inputs.index_select(0, batch.tensor());
      return torch::mse_loss(parallel.forward(model, picked), picked.narrow(1, 0, 3));
    });
    group.close();
    checksum sum;
    for (const auto& each : average.tensors()) {
      if (each.is_buffer && here.rank != 0) continue;  // each rank has its own
      sum.add({static_cast<const char*>(each.average.const_data_ptr()), each.average.nbytes()});
    }
    return wrong + "from step " + std::to_string(first_step) + ", " +
           std::to_string(average.updates()) + " updates of " +
           std::to_string(average.tensors().size()) + " tensors, " + checksum_text(sum.value());
  }
};

std::string behind_first_step(const std::string& text) {
  return text.substr(text.find(", "));
}

}  // namespace

TEST_CASE("an average follows its definition, and a resume continues it", "[torch]") {
  const bool buffers = GENERATE(false, true);
  const tests::temporary_folder place;
  const auto whole = run_ranks(2, averaged_job{place.path + "/whole", 1, buffers, {}});
  const std::string expected =
      "from step 1, 8 updates of " + std::string(buffers ? "7" : "4") + " tensors, ";
  for (const auto& each : whole)
    REQUIRE(each.find(expected) == 0);

  averaged_job stopped{place.path + "/stopped", 1, buffers,
                       [](std::uint32_t rank, std::uint64_t at) {
                         if (rank == 1 && at == 5) ::raise(SIGTERM);
                       }};
  REQUIRE(run_ranks(2, stopped)[0].find("from step 1, 6 updates") == 0);
  stopped.round = 2;
  stopped.in_step = {};
  const auto rest = run_ranks(2, stopped);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(rest[rank].find("from step 7, ") == 0);
    REQUIRE(behind_first_step(rest[rank]) == behind_first_step(whole[rank]));
  }
}

// The averages of BatchNorm's averages differ between ranks, which is not an error.
TEST_CASE("when a rank dies no update of an average is lost", "[torch]") {
  const tests::temporary_folder place;
  const auto whole = run_ranks(3, averaged_job{place.path + "/whole", 1, true, {}});
  averaged_job killed{place.path + "/killed", 1, true, [](std::uint32_t rank, std::uint64_t at) {
                        if (rank == 2 && at == 6) ::kill(::getpid(), SIGKILL);
                      }};
  run_ranks(3, killed);
  killed.round = 2;
  killed.in_step = {};
  const auto rest = run_ranks(3, killed);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    REQUIRE(rest[rank].find("from step 6, 8 updates") == 0);
    REQUIRE(behind_first_step(rest[rank]) == behind_first_step(whole[rank]));
  }
}

TEST_CASE("a model has the averages only while they are swapped in", "[torch]") {
  const auto said = run_ranks(1, [](const environment&) -> std::string {
    torch::nn::Linear model(2, 1);
    const torch::NoGradGuard no_grad;
    model->weight.fill_(1);
    exponential_moving_average average(*model, {decay, false});
    const auto* const memory = model->weight.const_data_ptr();
    const auto tell = [&] { return std::to_string(model->weight[0][0].item<double>()) + " "; };
    average.update();
    model->weight.fill_(5);
    average.update();  // 2
    std::string text;
    try {
      const auto swapped = average.swap_in();
      text += tell();
      try {
        average.update();
      } catch (const std::logic_error&) {
        text += "refused ";
      }
      throw std::runtime_error("in the middle of it");
    } catch (const std::runtime_error&) {
      text += tell();
    }
    average.update();  // 2.75
    const auto swapped = average.swap_in();
    return text + tell() + (model->weight.const_data_ptr() == memory ? "in place" : "elsewhere");
  });
  REQUIRE(said[0] == "2.000000 refused 5.000000 2.750000 in place");
}

TEST_CASE("a weight that two modules share is averaged once", "[torch]") {
  const auto said = run_ranks(1, [](const environment&) -> std::string {
    const torch::nn::Linear shared(2, 2);
    torch::nn::Sequential model(shared, shared);
    exponential_moving_average average(*model);
    average.update();
    const torch::NoGradGuard no_grad;
    shared->weight.fill_(7);
    const auto before = average.tensors()[0].average.clone();
    const auto swapped = average.swap_in();
    return std::to_string(average.tensors().size()) + " tensors, " +
           (torch::equal(shared->weight, before) ? "swapped in" : "still its own");
  });
  REQUIRE(said[0] == "2 tensors, swapped in");
}

TEST_CASE("a skipped step does not update the average", "[torch]") {
  const auto said = run_ranks(1, [](const environment& here) -> std::string {
    auto group = process_group::join(here);
    torch::nn::Linear model(torch::nn::LinearOptions(1, 1).bias(false));
    distributed_data_parallel parallel(group, *model);
    torch::optim::SGD optimizer(model->parameters(), 1);
    exponential_moving_average average(*model);
    training_loop_options looping;
    looping.samples = 5;
    looping.computes_in = compute_type::fp16;  // its first scale, 65536, is too large for this loss
    looping.shows_progress = false;
    training_loop loop(parallel, optimizer, looping);
    loop.keep("average", average);
    loop.run([&](training_batch&) {
      return parallel.forward(model, torch::full({1, 1}, 8.0f)).sum();
    });
    group.close();
    return std::to_string(average.updates()) + " of 5";
  });
  REQUIRE(said[0] == "1 of 5");
}

TEST_CASE("a decay outside of 0 to 1 is refused", "[torch]") {
  const double wrong = GENERATE(-0.5, 1.5);
  const auto said = run_ranks(1, [wrong](const environment&) -> std::string {
    torch::nn::Linear model(1, 1);
    exponential_moving_average average(*model, {wrong, false});
    return "taken";
  });
  REQUIRE(said[0] == "error: exponential moving average: its decay is " + std::to_string(wrong) +
                         ", and must be from 0 to 1");
}

}  // namespace ddprun::tests
