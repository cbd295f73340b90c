// A short job under a launcher, one of whose snapshots leads to a crash.
//
//   snapshot_job FOLDER
//
// Without a snapshot it saves steps 10 and 20, and crashes. From step 20 it crashes at once, as
// with a state that makes the next step's loss NaN. From any other step it saves five steps later
// and succeeds. Rank 0 prints "resumed STEP".
#include "worker/snapshot/snapshots.hpp"

#include <cinttypes>
#include <cstdio>
#include <exception>
#include <string>
#include <unistd.h>

namespace {

using namespace ddprun::worker;

constexpr std::uint64_t bad_step = 20;
constexpr int crashed = 9;

void save(snapshots& kept, std::uint64_t step) {
  (void)kept.progress(step);  // wait() returns its error
  std::string bytes = "model of step " + std::to_string(step);
  tensor_view model;
  model.name = "model";
  model.shape = {bytes.size()};
  model.bytes = bytes;
  snapshot_state state;
  state.replicated.tensors.push_back(model);
  if (kept.save(step, 0, state) || kept.wait()) throw std::runtime_error(kept.problem());
}

int run(const std::string& folder) {
  const auto here = read_environment();
  snapshots_options options;
  options.folder = folder;
  std::string problem;
  auto opened = snapshots::open(here, options, problem);
  if (!opened) throw std::runtime_error(problem);
  auto& kept = **opened;
  const std::uint64_t step = kept.resumed() ? kept.resumed()->info.step : 0;
  if (here.rank == 0) std::printf("resumed %" PRIu64 "\n", step);
  if (step == bad_step) {
    // Let rank 0 print first: this rank's crash would end it too.
    if (here.rank != 0) ::pause();
    return crashed;
  }
  if (step == 0) {
    save(kept, 10);
    save(kept, bad_step);
    return crashed;
  }
  save(kept, step + 5);
  if (kept.close()) throw std::runtime_error(kept.problem());
  return 0;
}

}  // namespace

int main(int count, char** values) {
  if (count != 2) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return run(values[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
