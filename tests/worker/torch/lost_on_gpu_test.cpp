// A rank is lost while the others wait for it on a GPU, which a fake plays: the gradients of ranks
// on the CPU are averaged by Gloo, and the fake GPU says when that counts as done. As with NCCL,
// the abort of one rank may end the step of another that has no sign of the loss yet: with wrong
// gradients.
//
// REQUIRE only: CHECK is here a macro of LibTorch, which ends the program.
#include "rendezvous/base/lost_peer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/worker/torch/fake_gpu.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/torch/training_loop.hpp"

#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <signal.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace ddprun::tests {
namespace {

using namespace worker;

constexpr std::uint64_t lost_step = 5;

// A job of 8 steps; in the first round the last rank dies in step 5.
struct job_on_gpu {
  std::string folder;
  std::uint64_t round = 1;
  bool watchdog = false;
  bool loses = true;
  bool dies_on_gpu = true;       // after all have averaged, else before the loss
  bool is_last_whole = true;     // the last finished step is done before the abort
  bool is_at_rest = true;        // the GPU comes to rest after the loss
  bool has_error = true;         // NCCL reports the loss
  bool is_rank_0_first = false;  // with the sign; its abort ends the step of rank 1
  bool meets_abort = false;      // the survivors' backward passes run into it
  std::chrono::seconds grace{20};

  std::string operator()(environment here) const {
    here.round = round;
    here.restart_count = static_cast<std::uint32_t>(round - 1);
    torch::set_num_threads(1);
    torch::manual_seed(3);
    auto options = with_fake_gpu();
    options.watchdog = watchdog;
    auto group = process_group::join(here, options);
    auto part = group.subgroup({0, 1});
    torch::nn::Linear model(2, 1);
    distributed_data_parallel parallel(group, *model);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1e-4).momentum(0.9));
    std::atomic<std::uint64_t> step{0};
    const bool is_first = loses && round == 1;
    const auto spoil = [&] { model->weight.mutable_grad().fill_(1e6); };
    std::atomic<bool> has_aborted{false};
    if (is_first) {
      gpu_answers().is_done = [&](std::uintptr_t event) {
        return is_done(here, step, event, spoil);
      };
      gpu_answers().in_abort = [&] {
        mark(here.rank, "aborted");
        has_aborted = true;
      };
    }
    training_loop_options looping;
    looping.samples = 8 * here.world_size;
    looping.save.epochs = 0;
    // A question that has failed would be a sign, too.
    if (is_rank_0_first) looping.ask_interval = 100;
    looping.folder = folder;
    looping.emergency_grace = grace;
    looping.shows_progress = false;
    looping.tell = [](std::string_view) {};
    std::string said;
    looping.on_message = [&](const std::string& line) { said += line + "; "; };
    training_loop loop(parallel, optimizer, looping);
    std::uint64_t first_step = 0;
    loop.on_step([&](const step_end& done) {
      if (first_step == 0) first_step = done.step;
    });
    try {
      loop.run([&](training_batch& batch) {
        step = batch.step();
        if (is_first && !dies_on_gpu && here.rank + 1 == here.world_size && step == lost_step)
          ::kill(::getpid(), SIGKILL);
        const auto inputs = torch::ones({1, 2}) * (static_cast<double>(batch.indices()[0]) + 1);
        const auto loss = parallel.forward(model, inputs).square().mean();
        if (is_first && meets_abort && step == lost_step) {
          gpu_answers().error = c10d::ErrorType::COMM_ERROR;
          loss.register_hook([&](const at::Tensor& gradient) {
            while (!has_aborted)
              std::this_thread::yield();
            if (has_aborted) C10_THROW_ERROR(DistBackendError, "communicator was aborted");
            return gradient;
          });
        }
        return loss;
      });
    } catch (const process_group_error& error) {
      return said + asked() + " " + error.what();
    }
    group.close();
    gpu_answers().is_done = [](std::uintptr_t) { return true; };
    const char* const handling = std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING");
    return "from step " + std::to_string(first_step) + ", watchdog " +
           (handling == nullptr ? "as it was" : handling) + ": " +
           std::to_string(model->weight.sum().item<double>()) + " " +
           std::to_string(model->bias.item<double>());
  }

 private:
  void mark(std::uint32_t rank, const std::string& what) const {
    std::ofstream(folder + "." + what + "." + std::to_string(rank)).flush();
  }
  bool is_marked(std::uint32_t rank, const std::string& what) const {
    return std::filesystem::exists(folder + "." + what + "." + std::to_string(rank));
  }
  // Of each step three events are recorded: before it, behind its gradients, and behind all of it.
  bool is_done(const environment& here, std::uint64_t step, std::uintptr_t event,
               const std::function<void()>& spoil) const {
    if (step < lost_step) return true;
    // It fails before its gradients are waited for.
    if (step > lost_step || meets_abort) return true;
    if (!watchdog && event == 3 * (lost_step - 1) + 1) return is_last_whole;
    if (event > 3 * lost_step - 1 || watchdog) {
      if (has_error) gpu_answers().error = c10d::ErrorType::COMM_ERROR;
      return is_at_rest;
    }
    // The gradients of the step in which the rank is lost.
    mark(here.rank, "waits");
    const auto have_come = [&](std::uint32_t count) {
      for (std::uint32_t other = 0; other < count; ++other) {
        if (!is_marked(other, "waits")) return false;
      }
      return true;
    };
    const std::uint32_t last = here.world_size - 1;
    while (here.rank == last && !have_come(last))
      std::this_thread::yield();
    if (here.rank == last) ::kill(::getpid(), SIGKILL);
    if (is_rank_0_first && here.rank != 0) {
      if (!is_marked(0, "aborted")) return false;
      spoil();
      return true;
    }
    if (has_error && have_come(here.world_size)) {
      gpu_answers().error = c10d::ErrorType::COMM_ERROR;
    }
    return false;
  }
};

std::string what_it_came_to(const std::string& text) {
  return text.substr(text.find(':'));
}

}  // namespace

TEST_CASE("when one of two ranks is lost on a GPU no step is lost", "[torch]") {
  const tests::temporary_folder place;
  job_on_gpu job;
  job.folder = place.path + "/whole";
  job.loses = false;
  const auto whole = run_ranks(2, job);
  REQUIRE(whole[0].starts_with("from step 1, watchdog 0: "));
  job.folder = place.path + "/lost";
  job.loses = true;
  const auto first = run_ranks(2, job);
  REQUIRE(first[1] == "killed by signal 9");
  INFO(first[0]);
  REQUIRE(first[0].starts_with("snapshot " + job.folder +
                               "/snapshot-000001-000004 was saved by "
                               "the ranks that are left ("));
  REQUIRE(first[0].find("averaging the gradients on the GPU: ") != std::string::npos);
  REQUIRE(first[0].ends_with(lost_peer_mark));
  job.round = 2;
  const auto rest = run_ranks(2, job);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(rest[rank].starts_with("from step 5, watchdog 0: "));
    REQUIRE(what_it_came_to(rest[rank]) == what_it_came_to(whole[rank]));
  }
}

// Either all survivors have the sign at once, or rank 0 has it first, and its abort ends step 5 of
// rank 1, which goes on with what it finds.
TEST_CASE("several ranks that are left on GPUs save the last step that all of them had",
          "[torch]") {
  const bool is_rank_0_first = GENERATE(false, true);
  const tests::temporary_folder place;
  job_on_gpu job;
  job.folder = place.path + "/whole";
  job.loses = false;
  const auto whole = run_ranks(3, job);
  job.folder = place.path + "/lost";
  job.loses = true;
  job.is_rank_0_first = is_rank_0_first;
  const auto first = run_ranks(3, job);
  REQUIRE(first[2] == "killed by signal 9");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    INFO(first[rank]);
    REQUIRE((first[rank].find("was saved by the ranks that are left (ranks 0 and 1)") !=
             std::string::npos) == (rank == 0));
    REQUIRE(first[rank].find("no emergency snapshot") == std::string::npos);
    REQUIRE(first[rank].find("abort of 3;") != std::string::npos);
    REQUIRE(first[rank].ends_with(lost_peer_mark));
  }
  REQUIRE(first[0].find("abort of 2;") != std::string::npos);
  job.round = 2;
  const auto rest = run_ranks(3, job);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    INFO(rest[rank]);
    REQUIRE(rest[rank].starts_with("from step 5, watchdog 0: "));
    REQUIRE(what_it_came_to(rest[rank]) == what_it_came_to(whole[rank]));
  }
}

// Its text says nothing of a rank that is lost.
TEST_CASE("a backward pass that meets the abort of its own collectives says who is lost",
          "[torch]") {
  const tests::temporary_folder place;
  job_on_gpu job;
  job.folder = place.path + "/lost";
  job.dies_on_gpu = false;
  job.meets_abort = true;
  const auto first = run_ranks(2, job);
  REQUIRE(first[1] == "killed by signal 9");
  INFO(first[0]);
  REQUIRE(first[0].starts_with("snapshot " + job.folder + "/snapshot-000001-000004 was saved by"));
  REQUIRE(first[0].find("averaging the gradients on the GPU: fake has lost another rank") !=
          std::string::npos);
  REQUIRE(first[0].ends_with(lost_peer_mark));
}

TEST_CASE("a step that is not whole on a GPU is not saved", "[torch]") {
  const bool is_last_whole = GENERATE(false, true);
  const tests::temporary_folder place;
  job_on_gpu job;
  job.folder = place.path + "/lost";
  job.is_last_whole = is_last_whole;
  job.is_at_rest = !is_last_whole;
  if (is_last_whole) job.grace = std::chrono::seconds(4);
  const auto first = run_ranks(3, job);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(first[rank].starts_with(
        std::string("no emergency snapshot of step 4: ") +
        (is_last_whole ? "the GPU still works 1 s later; "
                       : "when a rank was lost, the GPU had not done all of it; ")));
  }
  job.round = 2;
  REQUIRE(run_ranks(3, job)[0].starts_with("from step 1, "));
}

TEST_CASE("with the watchdog a step is saved only if the GPU has done all", "[torch]") {
  const auto [is_at_rest, has_error] =
      GENERATE(std::pair(true, false), std::pair(true, true), std::pair(false, false));
  const tests::temporary_folder place;
  job_on_gpu job;
  job.folder = place.path + "/lost";
  job.watchdog = true;
  job.dies_on_gpu = false;
  job.is_at_rest = is_at_rest;
  job.has_error = has_error;
  const bool is_saved = is_at_rest && !has_error;
  const auto first = run_ranks(3, job);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    INFO(first[rank]);
    REQUIRE(first[rank].find("abort") == std::string::npos);
    REQUIRE(first[rank].find("no emergency snapshot of step 4: the GPU waits for the rank that is "
                             "gone, and has not done all of that step; set watchdog = false") ==
            (is_saved ? std::string::npos : 0));
  }
  job.round = 2;
  REQUIRE(run_ranks(3, job)[0].starts_with(is_saved ? "from step 5, watchdog as it was"
                                                    : "from step 1, watchdog as it was"));
}

}  // namespace ddprun::tests
