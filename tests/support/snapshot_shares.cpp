// Ranks of a job that save a state of several tensors, or read it back.
//
//   snapshot_shares save FOLDER WRITERS     saves step 10 and ends
//   snapshot_shares save-pieces FOLDER 0    saves steps 10 and 20, with a piece of "moments" each
//   snapshot_shares resume FOLDER           prints "rank R: step 10, right, and its own", or
//                                           "right, and its region" for another number of ranks
//   snapshot_shares hand-on FOLDER          the same; one rank reads and sends over the job store
//   snapshot_shares read FOLDER             the same, without opening the folder as a job
//
// Tensor "model.N" has the bytes (N * 31 + index) % 251; "generator" is the rank as text, and
// "moments" has the bytes index % 251.
#include "worker/snapshot/reader.hpp"
#include "worker/snapshot/sharded_tensors.hpp"
#include "worker/snapshot/snapshots.hpp"
#include "worker/store_client.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ddprun::worker;

constexpr std::size_t tensors = 7;
constexpr std::uint64_t moments_bytes = 12'000;

// This rank's region of "moments".
tensor_region region_of(const environment& here) {
  const std::uint64_t begin = moments_bytes * here.rank / here.world_size;
  const std::uint64_t end = moments_bytes * (here.rank + 1) / here.world_size;
  return {{begin}, {end - begin}};
}

std::string moments_in(const tensor_region& region) {
  std::string bytes(region.shape[0], '\0');
  for (std::uint64_t at = 0; at < bytes.size(); ++at)
    bytes[at] = static_cast<char>((region.offset[0] + at) % 251);
  return bytes;
}

std::string bytes_of_tensor(std::size_t number) {
  std::string bytes(100'000 * (number + 1), '\0');
  for (std::size_t at = 0; at < bytes.size(); ++at)
    bytes[at] = static_cast<char>((number * 31 + at) % 251);
  return bytes;
}

tensor_view view_of(const std::string& name, const std::string& bytes) {
  tensor_view view;
  view.name = name;
  view.shape = {bytes.size()};
  view.bytes = bytes;
  return view;
}

void save(snapshots& kept, const environment& here, std::uint64_t step, bool with_pieces) {
  snapshot_state state;
  std::vector<std::string> all;
  for (std::size_t number = 0; number < tensors; ++number)
    all.push_back(bytes_of_tensor(number));
  for (std::size_t number = 0; number < tensors; ++number)
    state.replicated.tensors.push_back(view_of("model." + std::to_string(number), all[number]));
  state.replicated.values["note"] = "of all ranks";
  const std::string generator = std::to_string(here.rank);
  state.own.tensors.push_back(view_of("generator", generator));
  const tensor_region mine = region_of(here);
  const std::string moments = moments_in(mine);
  if (with_pieces) {
    state.own.tensors.push_back(view_of("moments", moments));
    state.own.tensors.back().piece_of = {{moments_bytes}, mine.offset};
  }
  if (kept.progress(step) || kept.save(step, 1, state) || kept.wait()) {
    throw std::runtime_error(kept.problem());
  }
}

std::string compare_region(const sharded_tensors& from, const environment& here) {
  const tensor_region mine = region_of(here);
  std::string bytes(mine.shape[0], '\0');
  std::string problem;
  if (from.read("moments", mine, bytes.data(), problem)) return problem;
  return bytes == moments_in(mine) ? "right, and its region" : "another region";
}

std::string compare(const resumed_snapshot& found, const environment& here) {
  if (found.replicated.tensors.size() != tensors) return "another number of tensors";
  for (std::size_t number = 0; number < tensors; ++number) {
    const auto* const tensor = found.replicated.find("model." + std::to_string(number));
    if (tensor == nullptr) return "a tensor is missing";
    std::string bytes(tensor->bytes);
    if (tensor->copy) {
      bytes.resize(bytes_of(*tensor).value());
      tensor->copy(bytes.data());
    }
    if (bytes != bytes_of_tensor(number)) return "other bytes";
  }
  if (found.replicated.values != text_map{{"note", "of all ranks"}}) return "other values";
  if (found.sharded) return compare_region(*found.sharded, here);
  if (!found.own) return "right";
  const auto* const generator = found.own->find("generator");
  return generator != nullptr && generator->bytes == std::to_string(here.rank)
             ? "right, and its own"
             : "another generator";
}

// Replaces a process group's broadcast.
byte_broadcast over_the_store(const environment& here) {
  std::string problem;
  auto opened = store_client::from_environment(here, std::chrono::seconds(60), problem);
  if (!opened) throw std::runtime_error(problem);
  const auto store = std::make_shared<store_client>(std::move(*opened));
  const auto count = std::make_shared<int>(0);
  return [=](std::uint32_t root, char* bytes, std::size_t length) {
    const std::string key = "handed/" + std::to_string((*count)++);
    const std::chrono::seconds limit(60);
    if (here.rank == root) {
      if (store->set(key, std::string_view(bytes, length), limit)) {
        throw std::runtime_error(store->problem());
      }
      return;
    }
    const auto come = store->get(key, limit);
    if (!come) throw std::runtime_error(store->problem());
    come->copy(bytes, length);
  };
}

void tell(const resumed_snapshot& found, const environment& here) {
  std::printf("rank %u: step %d, %s\n", here.rank, static_cast<int>(found.info.step),
              compare(found, here).c_str());
}

void read(const std::string& folder) {
  std::string problem;
  const auto found = read_newest_snapshot(folder, problem);
  if (!found) throw std::runtime_error(problem);
  if (!*found) throw std::runtime_error("no snapshot");
  tell(**found, environment());
}

void run(const std::string& word, snapshots_options options) {
  const auto here = read_environment();
  std::string problem;
  if (word == "hand-on") options.broadcast = over_the_store(here);
  auto opened = snapshots::open(here, std::move(options), problem);
  if (!opened) throw std::runtime_error(problem);
  if (word.starts_with("save")) {
    const bool with_pieces = word == "save-pieces";
    save(**opened, here, 10, with_pieces);
    if (with_pieces) save(**opened, here, 20, with_pieces);
    if ((*opened)->close()) throw std::runtime_error((*opened)->problem());
    return;
  }
  const auto& found = (*opened)->resumed();
  if (!found) throw std::runtime_error("nothing to go on from");
  tell(*found, here);
}

}  // namespace

int main(int count, char** values) {
  if (count < 3) return 2;
  try {
    snapshots_options options;
    options.folder = values[2];
    if (count > 3) options.writers = static_cast<std::uint32_t>(std::atoi(values[3]));
    const std::string word = values[1];
    if (word == "read") {
      read(options.folder);
    } else {
      run(word, options);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
