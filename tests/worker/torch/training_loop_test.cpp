// REQUIRE only: CHECK is here a macro of LibTorch, which ends the program.
#include "worker/torch/training_loop.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/worker/snapshot/hooked_disk.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/snapshot/checksum.hpp"
#include "worker/snapshot/reader.hpp"
#include "worker/torch/mixed_precision.hpp"
#include "worker/torch/training_state.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/adam.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <signal.h>
#include <string>
#include <unistd.h>

namespace ddprun::tests {
namespace {

using namespace worker;

struct NormalizedImpl : torch::nn::Module {
  NormalizedImpl() {
    first = register_module("first", torch::nn::Linear(4, 8));
    normal = register_module("normal", torch::nn::BatchNorm1d(8));
    second = register_module("second", torch::nn::Linear(8, 1));
  }
  torch::Tensor forward(const torch::Tensor& values) {
    return second->forward(torch::relu(normal->forward(first->forward(values))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::BatchNorm1d normal{nullptr};
};
TORCH_MODULE(Normalized);

// What never changes comes first in a snapshot, and takes so long that the copy of the rest is
// still to come when the next step has come to the optimizer.
struct WithFrozenImpl : torch::nn::Module {
  WithFrozenImpl() {
    frozen = register_parameter("a_frozen", torch::ones({16 << 20}), /*requires_grad=*/false);
    trained = register_module("trained", torch::nn::Linear(64, 128));
  }
  torch::Tensor forward(const torch::Tensor& values) { return trained->forward(values); }
  torch::Tensor frozen;
  torch::nn::Linear trained{nullptr};
};
TORCH_MODULE(WithFrozen);

std::string checksum_of(const std::vector<torch::Tensor>& tensors) {
  checksum sum;
  for (const auto& each : tensors) {
    const auto values = each.detach().contiguous();
    sum.add({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  return checksum_text(sum.value());
}

// A job of 24 steps, 6 an epoch, which keeps a scheduler, an average of its weights and a count.
struct training_job {
  std::string folder;
  std::uint64_t round = 1;
  std::uint32_t passes_per_step = 1;
  compute_type computes_in = compute_type::full;
  std::function<void(std::uint32_t rank, std::uint64_t step)> in_step;  // before its loss
  bool tells_buffers = true;

  // The end of a rank: what it has come to.
  std::string operator()(environment here) const {
    here.round = round;
    here.restart_count = static_cast<std::uint32_t>(round - 1);
    torch::set_num_threads(1);
    torch::manual_seed(3);
    const auto inputs = torch::randn({48 * here.world_size, 4});
    const auto targets = inputs.sum(1, true);
    auto group = process_group::join(here);
    Normalized model;
    distributed_data_parallel parallel(group, *model);
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.02));
    torch::optim::StepLR scheduler(optimizer, 5, 0.5);
    auto average = model->second->weight.detach().clone();
    std::uint64_t count = 0;

    training_loop_options looping;
    looping.samples = 48 * here.world_size;
    looping.batch_size = 8 / passes_per_step;
    looping.passes_per_step = passes_per_step;
    looping.epochs = 4;
    looping.save.epochs = 3;
    looping.folder = folder;
    looping.clip_norm = 1;
    looping.computes_in = computes_in;
    looping.shows_progress = false;
    looping.tell = [](std::string_view) {};
    looping.on_message = [](const std::string&) {};
    training_loop loop(parallel, optimizer, looping);
    loop.keep("scheduler", scheduler);
    loop.keep("average", average);
    loop.keep(
        "count", [&] { return std::to_string(count); },
        [&](const std::string& text) { count = std::stoull(text); });
    loop.on_update([&](std::uint64_t) {
      scheduler.step();
      const torch::NoGradGuard no_grad;
      average.lerp_(model->second->weight, 0.1);
      ++count;
    });
    std::uint64_t first_step = 0;
    loop.on_step([&](const step_end& done) {
      if (first_step == 0) first_step = done.step;
    });
    loop.run([&](training_batch& batch) {
      if (in_step && first_step != 0) in_step(here.rank, batch.step());
      const auto picked = batch.tensor();
      return torch::nn::functional::mse_loss(
          parallel.forward(model, inputs.index_select(0, picked)), targets.index_select(0, picked));
    });
    group.close();
    auto all = model->parameters();
    if (here.rank == 0 && tells_buffers) {
      for (const auto& each : model->buffers())
        all.push_back(each);
    }
    all.push_back(average);
    return "status " + std::to_string(loop.status()) + ", from step " + std::to_string(first_step) +
           ", " + std::to_string(count) + " updates, rate " +
           std::to_string(optimizer.param_groups()[0].options().get_lr()) + ", " + checksum_of(all);
  }
};

std::string without_first_step(std::string text) {
  const auto at = text.find("from step ");
  return text.erase(at, text.find(',', at) - at);
}

}  // namespace

TEST_CASE("a training loop that was stopped within an epoch ends with the same bits", "[torch]") {
  const auto [passes, type] =
      GENERATE(std::pair(1u, compute_type::full), std::pair(2u, compute_type::bf16),
               std::pair(1u, compute_type::fp16));
  const tests::temporary_folder place;
  const auto whole = run_ranks(2, training_job{place.path + "/whole", 1, passes, type, {}});
  REQUIRE(whole[0].find("status 0, from step 1, 24 updates, rate 0.001250, ") == 0);

  training_job stopped{place.path + "/stopped", 1, passes, type,
                       [](std::uint32_t rank, std::uint64_t at) {
                         if (rank == 1 && at == 8) ::raise(SIGTERM);
                       }};
  const auto first = run_ranks(2, stopped);
  // Only one rank has had the signal: it alone ends by it. The answer counts one step later.
  REQUIRE(first[0].find("status 0, from step 1, 9 updates") == 0);
  REQUIRE(first[1].find("status 143, from step 1, 9 updates") == 0);
  stopped.round = 2;
  stopped.in_step = {};
  const auto rest = run_ranks(2, stopped);
  REQUIRE(rest[0].find("status 0, from step 10, 24 updates") == 0);
  for (std::size_t rank = 0; rank < 2; ++rank)
    REQUIRE(without_first_step(rest[rank]) == without_first_step(whole[rank]));
}

TEST_CASE("when a rank dies in a training loop no step is lost", "[torch]") {
  const std::uint32_t dead = GENERATE(0u, 1u, 2u);
  const tests::temporary_folder place;
  training_job undisturbed{place.path + "/whole", 1, 1, compute_type::full, {}};
  // BatchNorm's averages are rank 0's, and those of another rank where it has died.
  undisturbed.tells_buffers = dead != 0;
  const auto whole = run_ranks(3, undisturbed);
  training_job killed{place.path + "/killed", 1, 1, compute_type::full,
                      [dead](std::uint32_t rank, std::uint64_t at) {
                        if (rank == dead && at == 11) ::kill(::getpid(), SIGKILL);
                      }};
  killed.tells_buffers = undisturbed.tells_buffers;
  const auto first = run_ranks(3, killed);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    REQUIRE(first[rank].find(rank == dead ? "killed by signal 9" : "error: rank") == 0);
  }
  killed.round = 2;
  killed.in_step = {};
  const auto rest = run_ranks(3, killed);
  REQUIRE(rest[0].find("status 0, from step 11, 24 updates") == 0);
  // BatchNorm's averages among them: what the unfinished pass has made of them is undone.
  for (std::size_t rank = 0; rank < 3; ++rank)
    REQUIRE(without_first_step(rest[rank]) == without_first_step(whole[rank]));
}

TEST_CASE("a snapshot has what a step left, while the next one is made", "[torch]") {
  const auto optimizer_kind = GENERATE(std::string("adam"), std::string("momentum"));
  const tests::temporary_folder place;
  const auto said = run_ranks(1, [&](const environment& here) -> std::string {
    auto group = process_group::join(here);
    WithFrozen model;
    distributed_data_parallel parallel(group, *model);
    std::unique_ptr<torch::optim::Optimizer> optimizer;
    if (optimizer_kind == "adam") {
      optimizer = std::make_unique<torch::optim::Adam>(model->parameters());
    } else {
      optimizer = std::make_unique<torch::optim::SGD>(model->parameters(),
                                                      torch::optim::SGDOptions(0.1).momentum(0.9));
    }
    exponential_moving_average average(*model->trained);
    training_loop_options looping;
    looping.samples = 5;
    looping.save.steps = 3;
    looping.folder = place.path;
    looping.shows_progress = false;
    looping.tell = [](std::string_view) {};
    std::atomic<bool> has_failed = false;
    looping.on_message = [&](const std::string& line) {
      write_to_stderr(line);
      has_failed = true;
    };
    training_loop loop(parallel, *optimizer, looping);
    loop.keep("average", average);
    const training_state training(*model, *optimizer);
    const auto sum_of = [](const snapshot_part& part, const std::string& averaged) {
      std::vector<torch::Tensor> all;
      for (const auto& tensor : part.tensors) {
        if (!tensor.name.starts_with("kept.")) all.push_back(tensor_of(tensor));
      }
      if (const auto* tensor = part.find(averaged)) all.push_back(tensor_of(*tensor));
      return std::to_string(all.size()) + " tensors, " + checksum_of(all);
    };
    std::string left, found;
    loop.on_step([&](const step_end& done) {
      if (done.step == 3) {
        auto state = training.view();
        state.replicated.tensors.push_back(
            view_of("kept.average.weight", average.tensors().front().average));
        left = sum_of(state.replicated, "kept.average.weight");
      }
      // Step 4 has changed all of it.
      while (done.step == 4 && found.empty() && !has_failed) {
        std::string problem;
        const auto newest = read_newest_snapshot(place.path, problem);
        if (newest && *newest) found = sum_of((*newest)->replicated, "kept.average.weight");
      }
    });
    loop.run([&](training_batch&) {
      return parallel.forward(model, torch::ones({1, 64})).square().sum();
    });
    group.close();
    return left + "; " + found;
  });
  const auto half = said[0].find("; ");
  REQUIRE(half != std::string::npos);
  REQUIRE(said[0].substr(0, half) == said[0].substr(half + 2));
  REQUIRE(said[0].starts_with(optimizer_kind == "adam" ? "10 tensors" : "6 tensors"));
}

// What a snapshot copies late.
struct copied_things {
  torch::nn::Linear model{2, 1};
  torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)};
  exponential_moving_average average{*model};

  torch::optim::SGDParamState& momentum_of_weight() {
    auto& state = optimizer.state().at(model->weight.unsafeGetTensorImpl());
    return static_cast<torch::optim::SGDParamState&>(*state);
  }
};

// One rank's job of four steps, which saves each. What the loss does is said with its step.
struct saving_job {
  std::string folder;
  std::function<void(copied_things& all, std::uint64_t step)> in_loss;
  std::uint64_t round = 1;
  worker::file_system* files = &posix_file_system();
  bool copies_late = true;

  // What it said first, how it ended, and the newest snapshot's step.
  std::string operator()(environment here) const {
    here.round = round;
    auto group = process_group::join(here);
    copied_things all;
    distributed_data_parallel parallel(group, *all.model);
    training_loop_options looping;
    looping.samples = 4;
    looping.save.steps = 1;
    looping.folder = folder;
    looping.files = files;
    looping.copies_late = copies_late;
    looping.shows_progress = false;
    std::string text;
    looping.tell = [&](std::string_view line) {
      if (text.empty()) text = line;
    };
    looping.on_message = [](const std::string&) {};
    looping.warms_up = false;
    {
      training_loop loop(parallel, all.optimizer, looping);
      loop.keep("average", all.average);
      try {
        loop.run([&](training_batch& batch) {
          if (in_loss) in_loss(all, batch.step());
          return parallel.forward(all.model, torch::ones({1, 2})).sum();
        });
      } catch (const std::logic_error& error) {
        text += std::string("; ") + error.what();
      }
    }
    group.close();
    std::string problem;
    const auto newest = read_newest_snapshot(folder, problem);
    if (!newest || !*newest) return text + "; no snapshot";
    return text + "; step " + std::to_string((*newest)->info.step);
  }
};

std::string is_told_of(const std::string& what) {
  return "training loop: the loss has changed " + what +
         ", which a snapshot copied meanwhile: set copies_late = false";
}

TEST_CASE("a loss that changes what is copied is told so", "[torch]") {
  const auto what = GENERATE(std::string("parameter 'weight'"),
                             std::string("'optimizer.state.0.momentum_buffer'"),
                             std::string("'kept.average.weight'"));
  const bool copies_late = GENERATE(true, false);
  const tests::temporary_folder place;
  saving_job job{place.path, [&](copied_things& all, std::uint64_t step) {
                   if (step != 3) return;
                   const torch::NoGradGuard no_grad;
                   if (what == "parameter 'weight'") {
                     all.model->weight.clamp_(-1, 1);
                   } else if (what == "'kept.average.weight'") {
                     all.average.update();
                   } else {
                     all.momentum_of_weight().momentum_buffer().zero_();
                   }
                 }};
  job.copies_late = copies_late;
  const auto said = run_ranks(1, job);
  REQUIRE(said[0] == "no snapshot in " + place.path + ": starting at epoch 1; " +
                         (copies_late ? is_told_of(what) + "; step 1" : "step 4"));
}

TEST_CASE("a snapshot is not there before it is known that no loss has changed it", "[torch]") {
  const tests::temporary_folder place;
  const auto first = run_ranks(1, [&](const environment& here) -> std::string {
    hooked_disk disk;
    const auto is_written = disk.when_synced("/snapshot-000001-000002");
    saving_job job{place.path, [&](copied_things& all, std::uint64_t step) {
                     if (step != 3) return;
                     const torch::NoGradGuard no_grad;
                     all.model->weight.clamp_(-1, 1);
                     is_written.wait();
                   }};
    job.files = &disk;
    return job(here);
  });
  REQUIRE(first[0] == "no snapshot in " + place.path + ": starting at epoch 1; " +
                          is_told_of("parameter 'weight'") + "; step 1");
  const auto rest = run_ranks(1, saving_job{place.path, {}, 2});
  REQUIRE(rest[0] == "resuming from snapshot " + place.path +
                         "/snapshot-000001-000001 at epoch 1, in its middle; step 4");
}

TEST_CASE("what is copied stays, whatever the loss puts in its place", "[torch]") {
  const bool is_parameter = GENERATE(true, false);
  const tests::temporary_folder place;
  const auto said = run_ranks(1, [&](const environment& here) -> std::string {
    bool is_freed = false, was_freed_in_loss = false;
    const auto is_told_when_freed = [&is_freed] {
      auto* const values = new float[2]{1, 2};
      return torch::from_blob(values, {1, 2}, [&is_freed, values](void*) {
        is_freed = true;
        delete[] values;
      });
    };
    const saving_job job{place.path, [&](copied_things& all, std::uint64_t step) {
                           const torch::NoGradGuard no_grad;
                           if (is_parameter && step == 1) {
                             all.model->weight.set_data(is_told_when_freed());
                           } else if (is_parameter && step == 2) {
                             all.model->weight.set_data(torch::ones({1, 2}));
                             was_freed_in_loss = is_freed;
                           } else if (step == 2) {
                             all.momentum_of_weight().momentum_buffer(is_told_when_freed());
                           } else if (step == 3) {
                             all.optimizer.state().clear();
                             was_freed_in_loss = is_freed;
                           }
                         }};
    auto text = job(here);
    return text + (was_freed_in_loss ? ", freed at once" : is_freed ? ", freed later" : ", kept");
  });
  // The state that is put in its place is no change of what is copied.
  REQUIRE(said[0] == "no snapshot in " + place.path + ": starting at epoch 1; " +
                         (is_parameter ? is_told_of("parameter 'weight'") + "; no snapshot"
                                       : std::string("step 4")) +
                         ", freed later");
}

TEST_CASE("gradients that are not finite halve the scale and make no step", "[torch]") {
  const auto said = run_ranks(1, [](const environment&) -> std::string {
    gradient_scaler scaler(at::kCPU, 8);
    auto weight = torch::ones({2}, torch::requires_grad());
    scaler.scale_up((weight * torch::tensor({3.0, 5.0})).sum()).backward();
    const bool first = scaler.scale_down({weight});
    const auto gradient = weight.grad().clone();
    scaler.update();
    weight.mutable_grad() = torch::tensor({1.0f, std::numeric_limits<float>::infinity()});
    const bool second = scaler.scale_down({weight});
    scaler.update();
    return std::to_string(first) + std::to_string(second) + ", " +
           std::to_string(torch::equal(gradient, torch::tensor({3.0f, 5.0f}))) + ", " +
           std::to_string(scaler.scale().item<double>()) + ", " +
           std::to_string(scaler.good_steps().item<int>());
  });
  REQUIRE(said[0] == "10, 1, 4.000000, 0");
}

// Of one rank each they would be (3, 0) and (3, 8). In float16 those of one rank are too great for
// the scale at first, until it has been halved four times: no rank makes those steps.
TEST_CASE("gradients are clipped once they are averaged and scaled down", "[torch]") {
  const auto type = GENERATE(compute_type::full, compute_type::bf16, compute_type::fp16);
  const std::size_t steps = type == compute_type::fp16 ? 5 : 1;
  const auto said = run_ranks(2, [&](const environment& here) -> std::string {
    auto group = process_group::join(here);
    torch::nn::Linear model(torch::nn::LinearOptions(2, 1).bias(false));
    {
      const torch::NoGradGuard no_grad;
      model->weight.zero_();
    }
    distributed_data_parallel parallel(group, *model);
    torch::optim::SGD optimizer(model->parameters(), 1);
    training_loop_options looping;
    looping.samples = 2 * steps;
    looping.clip_norm = 1;
    looping.computes_in = type;
    looping.shows_progress = false;
    training_loop loop(parallel, optimizer, looping);
    std::size_t moved = 0;
    loop.on_step([&](const step_end&) { moved += model->weight.any().item<bool>() ? 1 : 0; });
    loop.run([&](training_batch&) {
      const auto input = torch::tensor({3.0f, here.rank == 0 ? 0.0f : 8.0f}).reshape({1, 2});
      return parallel.forward(model, input).sum();
    });
    group.close();
    char text[80];
    std::snprintf(text, sizeof text, "norm %.4f, weights %.4f %.4f, %zu steps",
                  loop.gradient_norm(), model->weight[0][0].item<double>(),
                  model->weight[0][1].item<double>(), moved);
    return text;
  });
  for (const auto& each : said)
    REQUIRE(each == "norm 5.0000, weights -0.6000 -0.8000, 1 steps");
}

// The scale has to be halved four times before a step is made: only in the first run.
TEST_CASE("the scale of float16 gradients is kept in snapshots", "[torch]") {
  const tests::temporary_folder place;
  const auto said = run_ranks(1, [&](const environment& here) -> std::string {
    auto group = process_group::join(here);
    std::string steps;
    for (const std::uint64_t epochs : {1, 2}) {
      torch::nn::Linear model(torch::nn::LinearOptions(2, 1).bias(false));
      {
        const torch::NoGradGuard no_grad;
        model->weight.zero_();
      }
      distributed_data_parallel parallel(group, *model);
      torch::optim::SGD optimizer(model->parameters(), 1);
      training_loop_options looping;
      looping.samples = 4;
      looping.epochs = epochs;
      looping.folder = place.path;
      looping.computes_in = compute_type::fp16;
      looping.shows_progress = false;
      looping.tell = [](std::string_view) {};
      training_loop loop(parallel, optimizer, looping);
      auto before = model->weight.detach().clone();
      std::size_t made = 0;
      loop.on_step([&](const step_end&) {
        if (!torch::equal(before, model->weight)) ++made;
        before = model->weight.detach().clone();
      });
      loop.run([&](training_batch&) {
        return parallel.forward(model, torch::tensor({{3.0f, 8.0f}})).sum();
      });
      steps += std::to_string(made) + " ";
    }
    group.close();
    return steps;
  });
  REQUIRE(said[0] == "0 4 ");
}

TEST_CASE("autocast computes in fewer bits, and only as long as it lives", "[torch]") {
  const auto said = run_ranks(1, [](const environment&) -> std::string {
    const auto values = torch::ones({4, 4});
    std::string types;
    {
      const autocast_scope casting(at::kCPU, at::kBFloat16);
      types += torch::mm(values, values).scalar_type() == at::kBFloat16 ? "bf16 " : "other ";
    }
    return types + (torch::mm(values, values).scalar_type() == at::kFloat ? "f32" : "other");
  });
  REQUIRE(said[0] == "bf16 f32");
}

TEST_CASE("a snapshot without what a program keeps is refused", "[torch]") {
  const tests::temporary_folder place;
  const auto said = run_ranks(1, [&](const environment& here) -> std::string {
    auto group = process_group::join(here);
    torch::nn::Linear model(2, 1);
    distributed_data_parallel parallel(group, *model);
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.1));
    auto kept = torch::zeros({3}), other = torch::zeros({4});
    std::string errors;
    for (auto* tensor : {&kept, &other}) {
      training_loop_options looping;
      looping.samples = looping.batch_size = 2;
      looping.folder = place.path;
      looping.shows_progress = false;
      looping.tell = [](std::string_view) {};
      training_loop loop(parallel, optimizer, looping);
      loop.keep("tensor", *tensor);
      try {
        loop.keep("tensor", kept);
      } catch (const std::invalid_argument& error) {
        errors += std::string(error.what()) + "; ";
      }
      try {
        loop.run([&](training_batch&) {
          return parallel.forward(model, torch::ones({2, 2})).sum();
        });
      } catch (const training_state_error& error) {
        errors += error.what();
      }
    }
    group.close();
    return errors;
  });
  const std::string taken = "keep: the name 'tensor' is empty, or taken already; ";
  REQUIRE(said[0] == taken + taken + "snapshot " + place.path +
                         "/snapshot-000001-000001 is of another program: it has kept.tensor F32 "
                         "[3], here it is kept.tensor F32 [4]");
}

}  // namespace ddprun::tests
