// What a step, or the end of an epoch, had changed when a rank was lost, and what becomes of it.
//
// REQUIRE only: CHECK is here a macro of LibTorch, which ends the program.
#include "worker/torch/unfinished_changes.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/torch/training_loop.hpp"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <optional>
#include <signal.h>
#include <string>
#include <unistd.h>

namespace ddprun::tests {
namespace {

using namespace worker;

// All that a program may keep.
struct kept_things {
  torch::nn::Linear model{torch::nn::LinearOptions(2, 1).bias(false)};
  torch::nn::BatchNorm1d module{2};
  torch::optim::SGD optimizer{model->parameters(), 0.1};
  torch::optim::StepLR scheduler{optimizer, 1, 0.5};
  exponential_moving_average average{*model};
  torch::Tensor small = torch::zeros({2});
  torch::Tensor large = torch::zeros({static_cast<std::int64_t>(put_back_bytes_max)});
  std::uint64_t count = 0;
  process_group* group = nullptr;
  std::optional<exponential_moving_average::swap_scope> swapped;

  std::string text() const {
    const auto of = [](const torch::Tensor& tensor) {
      return std::to_string(tensor.sum().item<double>()) + " ";
    };
    return "weights " + of(model->weight) + "average " + of(average.tensors()[0].average) +
           "module " + of(module->running_mean) + of(module->num_batches_tracked) + "small " +
           of(small) + "large " + of(large) + "count " + std::to_string(count) + " rate " +
           std::to_string(optimizer.param_groups()[0].options().get_lr());
  }
};

using place_in_training = std::function<void(kept_things& all, std::uint64_t number)>;

// A job of 2 epochs of 4 steps, in which rank `dead` dies, once, where its own function says so.
struct kept_job {
  std::string folder;
  place_in_training in_loss, in_update, in_step, in_epoch_end;  // each with a step, or an epoch
  std::uint64_t round = 1;

  // Of a round that lost a rank: what was said of it. Else the first step, and what is kept then.
  std::string operator()(environment here) const {
    here.round = round;
    here.restart_count = static_cast<std::uint32_t>(round - 1);
    torch::set_num_threads(1);
    torch::manual_seed(3);
    auto group = process_group::join(here);
    kept_things all;
    all.group = &group;
    distributed_data_parallel parallel(group, *all.model);
    training_loop_options looping;
    looping.samples = 4 * here.world_size;
    looping.epochs = 2;
    looping.save.epochs = 0;
    looping.folder = folder;
    looping.copies_late = false;
    looping.shows_progress = false;
    looping.tell = [](std::string_view) {};
    std::string said;
    looping.on_message = [&](const std::string& line) { said += line; };
    training_loop loop(parallel, all.optimizer, looping);
    loop.keep("module", *all.module);
    loop.keep("scheduler", all.scheduler);
    loop.keep("average", all.average);
    loop.keep("small", all.small);
    loop.keep("large", all.large);
    loop.keep(
        "count", [&] { return std::to_string(all.count); },
        [&](const std::string& text) { all.count = std::stoull(text); });
    std::uint64_t first_step = 0;
    loop.on_update([&](std::uint64_t step) {
      if (in_update) in_update(all, step);
    });
    loop.on_step([&](const step_end& done) {
      if (first_step == 0) first_step = done.step;
      if (in_step) in_step(all, done.step);
    });
    if (in_epoch_end)
      loop.on_epoch_end([&](const epoch_end& done) { in_epoch_end(all, done.epoch); });
    try {
      loop.run([&](training_batch& batch) {
        if (in_loss) in_loss(all, batch.step());
        return parallel.forward(all.model, torch::ones({1, 2})).sum();
      });
    } catch (const process_group_error&) {
      return said;
    }
    group.close();
    return "from step " + std::to_string(first_step) + ": " + all.text();
  }
};

// Of three ranks the last one dies in the first round. What the others said, and what all come to
// in the next one.
struct two_rounds {
  two_rounds(kept_job job, const std::function<kept_job(kept_job job, bool dies)>& of_rank) {
    const auto run = [&](std::uint64_t round) {
      job.round = round;
      return run_ranks(3, [&](const environment& here) {
        return of_rank(job, here.rank == 2 && round == 1)(here);
      });
    };
    first = run(1);
    second = run(2);
  }
  std::vector<std::string> first, second;
};

void die() {
  ::kill(::getpid(), SIGKILL);
}

kept_job that_dies_in_loss(kept_job job, bool dies) {
  if (!dies) return job;
  job.in_loss = [was = job.in_loss](kept_things& all, std::uint64_t step) {
    if (step == 3) die();
    if (was) was(all, step);
  };
  return job;
}

std::string what_is_kept_in(const std::string& text) {
  return text.substr(text.find(':'));
}

}  // namespace

TEST_CASE("what a lost step had changed of what is kept is put back", "[torch]") {
  const tests::temporary_folder place;
  kept_job job;
  job.in_loss = [](kept_things& all, std::uint64_t step) {
    all.small = all.small + 1;
    all.small.mul_(2);
    ++all.count;
    const torch::NoGradGuard no_grad;
    all.module->forward(torch::arange(6).reshape({3, 2}).to(torch::kFloat) *
                        static_cast<double>(step));
    auto& options = all.optimizer.param_groups()[0].options();
    options.set_lr(options.get_lr() * 0.9);
  };
  job.folder = place.path + "/whole";
  const auto whole = run_ranks(3, job);
  REQUIRE(whole[0].starts_with("from step 1: "));
  job.folder = place.path + "/killed";
  const two_rounds killed(job, that_dies_in_loss);
  REQUIRE(killed.first[2] == "killed by signal 9");
  REQUIRE(killed.second[0].starts_with("from step 3: "));
  for (std::size_t rank = 0; rank < 3; ++rank)
    REQUIRE(what_is_kept_in(killed.second[rank]) == what_is_kept_in(whole[rank]));
}

TEST_CASE("where a lost step has changed what is not put back there is no emergency", "[torch]") {
  const auto what = GENERATE(std::string("'kept.large'"), std::string("parameter 'weight'"),
                             std::string("the parameters"));
  const tests::temporary_folder place;
  kept_job job;
  job.folder = place.path;
  auto dying = that_dies_in_loss;
  if (what == "'kept.large'") {
    job.in_loss = [](kept_things& all, std::uint64_t) { all.large.add_(1); };
  } else if (what == "parameter 'weight'") {
    job.in_loss = [](kept_things& all, std::uint64_t) {
      const torch::NoGradGuard no_grad;
      all.model->weight.clamp_(-1, 1);
    };
  } else {
    // The optimizer has made its step, and the average is updated, when the rank is missed.
    job.in_update = [](kept_things& all, std::uint64_t) { (void)all.group->any(false); };
    dying = [](kept_job of, bool dies) {
      if (!dies) return of;
      of.in_update = [](kept_things& all, std::uint64_t step) {
        if (step == 3) die();
        (void)all.group->any(false);
      };
      return of;
    };
  }
  const two_rounds killed(job, dying);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(killed.first[rank] ==
            "no emergency snapshot of step 2: what came after it, and was not finished, has "
            "changed " +
                what + ", and that is not put back");
  }
  REQUIRE(killed.second[0].starts_with("from step 1: "));
}

// It is made again, by all, after the resume.
TEST_CASE("what an epoch's end had changed when a rank was lost is put back", "[torch]") {
  const bool have_all_one = GENERATE(true, false);
  const tests::temporary_folder place;
  kept_job job;
  job.in_update = [](kept_things& all, std::uint64_t) {
    all.small.add_(1);
    ++all.count;
  };
  if (have_all_one) {
    job.in_epoch_end = [](kept_things& all, std::uint64_t) {
      all.scheduler.step();
      all.small.mul_(3);
      all.count += 100;
      const auto swapped = all.average.swap_in();
    };
  }
  job.folder = place.path + "/whole";
  const auto whole = run_ranks(3, job);
  REQUIRE(whole[0].starts_with("from step 1: "));
  job.folder = place.path + "/killed";
  const two_rounds killed(job, [](kept_job of, bool dies) {
    if (dies) of.in_epoch_end = [](kept_things&, std::uint64_t) { die(); };
    return of;
  });
  REQUIRE(killed.first[2] == "killed by signal 9");
  REQUIRE(killed.second[0].starts_with("from step 5: "));
  for (std::size_t rank = 0; rank < 3; ++rank)
    REQUIRE(what_is_kept_in(killed.second[rank]) == what_is_kept_in(whole[rank]));
}

TEST_CASE("survivors that keep different things save nothing", "[torch]") {
  const auto what = GENERATE(std::string("average"), std::string("count"));
  const tests::temporary_folder place;
  kept_job job;
  job.folder = place.path;
  const auto of_rank = [&](kept_job of, bool dies) {
    if (dies) return that_dies_in_loss(of, dies);
    of.in_step = [&](kept_things& all, std::uint64_t step) {
      if (step != 2 || all.group->here().rank != 1) return;
      if (what == "count") all.count += 7;
      if (what == "average") all.average.tensors()[0].average.add_(1);
    };
    return of;
  };
  const two_rounds killed(job, of_rank);
  REQUIRE(killed.first[0] ==
          "cannot save the emergency snapshot " + place.path +
              "/snapshot-000001-000002: rank 0 and rank 1 have different " +
              (what == "count" ? "values (learning rates, kept texts)" : "states") +
              " after step 2");
  REQUIRE(killed.second[0].starts_with("from step 1: "));
}

TEST_CASE("a snapshot is refused while an average is swapped in", "[torch]") {
  const tests::temporary_folder place;
  kept_job job;
  job.folder = place.path;
  job.in_epoch_end = [](kept_things& all, std::uint64_t epoch) {
    if (epoch == 2) all.swapped.emplace(all.average);
  };
  const auto said = run_ranks(1, job);
  REQUIRE(said[0] ==
          "error: 'kept.average' is swapped into the model: a snapshot would have the one for the "
          "other; end the scope of swap_in() first");
}

}  // namespace ddprun::tests
