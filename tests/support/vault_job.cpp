// A job under a launcher that saves where its test says, and when.
//
//   vault_job FOLDER ORDERS
//
// Step N waits for one of the files N-folder, N-vault and N-end in the folder ORDERS: it saves its
// state there and says "rank R saved N", or ends in order. At first each rank says "rank R resumed
// N from PLACE", where PLACE is "the folder", "the vault" or "nothing", and whether it has its own
// state.
#include "worker/run.hpp"
#include "worker/snapshot/snapshots.hpp"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using namespace ddprun::worker;

tensor_view tensor_of(const char* name, const std::string& bytes) {
  tensor_view tensor;
  tensor.name = name;
  tensor.shape = {bytes.size()};
  tensor.bytes = bytes;
  return tensor;
}

std::string model_of(std::uint64_t step) {
  return "model of step " + std::to_string(step);
}

std::string generator_of(std::uint32_t rank) {
  return "generator of rank " + std::to_string(rank);
}

void tell_resumed(const snapshots& kept, std::uint32_t rank) {
  const auto& from = kept.resumed();
  if (!from) {
    std::printf("rank %" PRIu32 " resumed 0 from nothing\n", rank);
    return;
  }
  const auto* const model = from->replicated.find("model");
  if (model == nullptr || model->bytes != model_of(from->info.step))
    throw std::runtime_error(from->path + " has another model");
  const auto* const generator = from->own ? from->own->find("generator") : nullptr;
  const bool has_own = generator != nullptr && generator->bytes == generator_of(rank);
  std::printf("rank %" PRIu32 " resumed %" PRIu64 " from %s, %s\n", rank, from->info.step,
              from->is_in_vault ? "the vault" : "the folder",
              has_own ? "with its own" : "without its own");
}

std::string order_for(const std::string& orders, std::uint64_t step) {
  for (;;) {
    for (const char* const word : {"folder", "vault", "end"}) {
      if (std::filesystem::exists(orders + "/" + std::to_string(step) + "-" + word)) return word;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int work(const std::string& folder, const std::string& orders) {
  const auto here = read_environment();
  snapshots_options options;
  options.folder = folder;
  options.uses_vault = true;
  std::string problem;
  const auto opened = snapshots::open(here, options, problem);
  if (!opened) throw std::runtime_error(problem);
  auto& kept = **opened;
  tell_resumed(kept, here.rank);
  const std::string generator = generator_of(here.rank);
  for (std::uint64_t step = (kept.resumed() ? kept.resumed()->info.step : 0) + 1;; ++step) {
    const auto order = order_for(orders, step);
    if (order == "end") return kept.close() ? throw std::runtime_error(kept.problem()) : 0;
    const std::string model = model_of(step);
    snapshot_state state;
    state.replicated.tensors.push_back(tensor_of("model", model));
    state.own.tensors.push_back(tensor_of("generator", generator));
    const auto to = order == "vault" ? snapshot_place::vault : snapshot_place::folder;
    if (kept.save(step, 1, state, to) || kept.wait()) throw std::runtime_error(kept.problem());
    std::printf("rank %" PRIu32 " saved %" PRIu64 "\n", here.rank, step);
  }
}

}  // namespace

int main(int count, char** values) {
  if (count != 3) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return run([&] { return work(values[1], values[2]); });
}
