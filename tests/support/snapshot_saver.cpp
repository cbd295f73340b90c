// One rank that resumes from the newest snapshot and saves one after the other until it is killed.
//
//   snapshot_saver FOLDER STORE_PORT ROUND RANK WORLD_SIZE
//
// Prints "resumed STEP", followed by "wrong" if the bytes are not those of that step, and "saved
// STEP" for each snapshot that is complete on all ranks. In every other round both ranks write the
// replicated state.
#include "worker/snapshot/snapshots.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using namespace ddprun::worker;

// Large enough for several writes.
std::string bytes_of(std::uint64_t step, std::uint32_t rank) {
  std::string bytes(300'000 + step % 997, static_cast<char>('a' + step % 26));
  return bytes + std::to_string(step) + "/" + std::to_string(rank);
}

tensor_view tensor(const std::string& name, const std::string& bytes) {
  tensor_view made;
  made.name = name;
  made.shape = {bytes.size()};
  made.bytes = bytes;
  return made;
}

bool has(const snapshot_part& part, const std::string& name, const std::string& bytes) {
  const auto* const found = part.find(name);
  return found != nullptr && found->bytes == bytes;
}

}  // namespace

int main(int count, char** values) {
  if (count != 6) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  environment here;
  snapshots_options options;
  options.folder = values[1];
  options.trusted_after_steps = 0;
  here.master_address = "127.0.0.1";
  here.master_port = static_cast<std::uint16_t>(std::atoi(values[2]));
  here.instance = 5;
  here.round = static_cast<std::uint64_t>(std::atoi(values[3]));
  options.writers = 1 + static_cast<std::uint32_t>(here.round % 2);
  here.rank = static_cast<std::uint32_t>(std::atoi(values[4]));
  here.world_size = static_cast<std::uint32_t>(std::atoi(values[5]));
  std::string problem;
  auto opened = snapshots::open(here, options, problem);
  if (!opened) {
    std::fprintf(stderr, "%s\n", problem.c_str());
    return 3;
  }
  auto& kept = **opened;
  std::uint64_t step = 0;
  if (const auto& from = kept.resumed()) {
    step = from->info.step;
    const bool is_right = has(from->replicated, "model", bytes_of(step, 0)) &&
                          has(from->replicated, "optimizer", bytes_of(step, 1000)) && from->own &&
                          has(*from->own, "generator", bytes_of(step, here.rank));
    std::printf("resumed %llu%s\n", static_cast<unsigned long long>(step),
                is_right ? "" : " wrong");
    (void)kept.progress(step);
  } else {
    std::puts("resumed 0");
  }
  for (;;) {
    ++step;
    const std::string model = bytes_of(step, 0);
    const std::string optimizer = bytes_of(step, 1000);
    const std::string generator = bytes_of(step, here.rank);
    snapshot_state state;
    state.replicated.tensors.push_back(tensor("model", model));
    state.replicated.tensors.push_back(tensor("optimizer", optimizer));
    state.own.tensors.push_back(tensor("generator", generator));
    if (kept.save(step, 0, state) || kept.wait()) {
      std::fprintf(stderr, "%s\n", kept.problem().c_str());
      return 4;
    }
    std::printf("saved %llu\n", static_cast<unsigned long long>(step));
  }
}
