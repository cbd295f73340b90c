// The ranks of a job on one node save and resume a state that is the same on all, on the disk of a
// folder; rank 0 prints how long that took. Started by snapshot_ranks_benchmark.py.
//
//   snapshot_ranks FOLDER MEBIBYTES ROUNDS
//
// Prints for each round "dd S, one writer S, all writers S, one reads S, all read S", in seconds;
// what is read is not in the page cache.
#include "worker/snapshot/reader.hpp"
#include "worker/snapshot/snapshots.hpp"
#include "worker/store_client.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using namespace ddprun::worker;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t tensors = 64;
constexpr std::chrono::minutes limit{10};

void drop_from_cache(const std::string& folder) {
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder)) {
    if (!each.is_regular_file()) continue;
    const int number = ::open(each.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (number < 0) continue;
    (void)::posix_fadvise(number, 0, 0, POSIX_FADV_DONTNEED);
    ::close(number);
  }
}

class ranks {
 public:
  ranks(std::string folder, std::size_t bytes)
      : folder_(std::move(folder)), bytes_(bytes), here_(read_environment()) {
    std::string problem;
    auto store = store_client::from_environment(here_, limit, problem);
    if (!store) throw std::runtime_error(problem);
    store_.emplace(std::move(*store));
    for (std::size_t number = 0; number < tensors; ++number) {
      values_.emplace_back(bytes / tensors, static_cast<char>(number + 1));
      tensor_view view;
      view.name = "model." + std::to_string(number);
      view.shape = {values_.back().size()};
      view.bytes = values_.back();
      state_.replicated.tensors.push_back(view);
    }
  }

  void round(std::uint64_t step) {
    const double dd = seconds([&] { alone([&] { run_dd(); }); });
    const double one = seconds([&] { save(1, step); });
    const double all = seconds([&] { save(here_.world_size, step); });
    const std::string folder = folder_of(here_.world_size);
    alone([&] { drop_from_cache(folder); });
    meet();
    const double one_reads = seconds([&] { alone([&] { read(folder); }); });
    alone([&] { drop_from_cache(folder); });
    meet();
    const double all_read = seconds([&] { writer(here_.world_size, true); });
    if (here_.rank != 0) return;
    std::printf("dd %.3f, one writer %.3f, all writers %.3f, one reads %.3f, all read %.3f\n", dd,
                one, all, one_reads, all_read);
  }

 private:
  std::string folder_of(std::uint32_t writers) const {
    return folder_ + "/" + std::to_string(writers);
  }
  void meet() {
    if (store_->barrier("met/" + std::to_string(meetings_++), here_.world_size, limit)) {
      throw std::runtime_error(store_->problem());
    }
  }
  // The seconds until all ranks are done.
  double seconds(const std::function<void()>& work) {
    meet();
    const auto start = clock_type::now();
    work();
    meet();
    return std::chrono::duration<double>(clock_type::now() - start).count();
  }
  void alone(const std::function<void()>& work) const {
    if (here_.rank == 0) work();
  }
  void run_dd() const {
    std::filesystem::create_directories(folder_);
    const std::string command = "dd if=/dev/zero of=" + folder_ +
                                "/dd bs=8M iflag=count_bytes count=" + std::to_string(bytes_) +
                                " conv=fsync status=none";
    if (std::system(command.c_str()) != 0) throw std::runtime_error("dd has failed");
    std::filesystem::remove(folder_ + "/dd");
  }
  static void read(const std::string& folder) {
    std::string problem;
    if (!read_newest_snapshot(folder, problem)) throw std::runtime_error(problem);
  }
  snapshots& writer(std::uint32_t writers, bool is_new = false) {
    auto& kept = kept_[writers == 1 ? 0 : 1];
    if (kept && !is_new) return *kept;
    kept.reset();
    snapshots_options options;
    options.folder = folder_of(writers);
    options.keep = 1;
    options.is_asynchronous = false;
    options.writers = writers;
    options.name = "snapshots-" + std::to_string(writers);
    std::string problem;
    auto opened = snapshots::open(here_, options, problem);
    if (!opened) throw std::runtime_error(problem);
    kept = std::move(*opened);
    kept->drop_resumed();
    return *kept;
  }
  void save(std::uint32_t writers, std::uint64_t step) {
    auto& to = writer(writers);
    if (to.save(step, 0, state_)) throw std::runtime_error(to.problem());
  }

  std::string folder_;
  std::size_t bytes_;
  environment here_;
  std::optional<store_client> store_;
  std::uint64_t meetings_ = 0;
  std::vector<std::string> values_;
  snapshot_state state_;
  std::unique_ptr<snapshots> kept_[2];
};

}  // namespace

int main(int count, char** values) {
  if (count != 4) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    ranks all(values[1], std::strtoull(values[2], nullptr, 10) << 20);
    for (int round = 1; round <= std::atoi(values[3]); ++round)
      all.round(static_cast<std::uint64_t>(round));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
