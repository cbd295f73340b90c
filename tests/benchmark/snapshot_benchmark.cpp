// Measures snapshots of one rank on the disk of the current folder, against `dd` with fsync of as
// many bytes, alternating; medians.
//
//   write    MB/s of a save that training waits for, and of dd
//   stall    how long training waits for a save that is asynchronous, against one that is not; and
//            for the beginning of one that copies while training goes on
//   memory   the most that each of them takes beyond what it had, the copy of the state excepted
//   resume   MB/s of opening: every byte read and checked
//
//   snapshot_benchmark [--rounds=N] [--bytes=N] [--folder=DIR]
#include "tests/benchmark/measured.hpp"
#include "worker/snapshot/snapshots.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using namespace ddprun;
using namespace ddprun::worker;
using benchmark::rate;
using benchmark::seconds_of;
using benchmark::spread;

constexpr std::size_t tensors = 64;

struct options {
  int rounds = 7;
  std::size_t bytes = std::size_t{1} << 30;
  std::string folder = "snapshot-benchmark";
};

[[noreturn]] void fail(const std::string& text) {
  benchmark::fail("snapshot_benchmark", text);
}

// Of /proc/self/status, in MiB.
double memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::atof(line.c_str() + name.size() + 1) / 1024;
  }
  fail("no " + name);
}

// How far memory rises above where it was.
double rise_of(const std::function<void()>& work) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const double before = memory("VmRSS");
  work();
  return memory("VmHWM") - before;
}

class job {
 public:
  explicit job(const options& chosen) : options_(chosen), bytes_(chosen.bytes / tensors) {
    for (std::size_t index = 0; index < tensors; ++index) {
      values_.push_back(std::make_unique<char[]>(bytes_));
      std::fill_n(values_.back().get(), bytes_, static_cast<char>(index * 7 + 1));
      tensor_view tensor;
      tensor.name = "model." + std::to_string(index);
      tensor.type = element_type::f32;
      tensor.shape = {bytes_ / 4};
      tensor.bytes = {values_.back().get(), bytes_};
      tensor.may_be_late = true;
      state_.replicated.tensors.push_back(std::move(tensor));
    }
  }

  void open(bool is_asynchronous) {
    kept_.reset();
    snapshots_options keeping;
    keeping.folder = options_.folder;
    keeping.keep = 1;
    keeping.is_asynchronous = is_asynchronous;
    std::string problem;
    auto opened = snapshots::open(environment(), keeping, problem);
    if (!opened) fail(problem);
    kept_ = std::move(*opened);
    kept_->drop_resumed();
  }
  void close() { kept_.reset(); }
  void save() {
    if (kept_->save(++step_, 0, state_)) fail(kept_->problem());
  }
  void begin_save() {
    if (kept_->begin_save(++step_, 0, state_)) fail(kept_->problem());
  }
  void wait() {
    if (kept_->wait()) fail(kept_->problem());
  }

 private:
  options options_;
  std::size_t bytes_;
  std::vector<std::unique_ptr<char[]>> values_;
  snapshot_state state_;
  std::unique_ptr<snapshots> kept_;
  std::uint64_t step_ = 0;
};

void dd(const options& chosen) {
  const std::string file = chosen.folder + "/dd";
  const std::string command = "dd if=/dev/zero of=" + file +
                              " bs=8M iflag=count_bytes count=" + std::to_string(chosen.bytes) +
                              " conv=fsync status=none";
  if (std::system(command.c_str()) != 0) fail("dd has failed");
  std::filesystem::remove(file);
}

options parse(int count, char** values) {
  options chosen;
  benchmark::read_options("snapshot_benchmark", "[--rounds=N] [--bytes=N] [--folder=DIR]", count,
                          values,
                          {{"--rounds=", benchmark::into_number(chosen.rounds)},
                           {"--bytes=", benchmark::into_number(chosen.bytes)},
                           {"--folder=", benchmark::into_text(chosen.folder)}});
  if (chosen.rounds < 1 || chosen.bytes < tensors * 64) fail("too small");
  chosen.bytes -= chosen.bytes % (tensors * 64);
  return chosen;
}

}  // namespace

int main(int count, char** values) {
  const options chosen = parse(count, values);
  std::filesystem::remove_all(chosen.folder);
  std::filesystem::create_directories(chosen.folder);
  const double mebibytes = static_cast<double>(chosen.bytes) / (1 << 20);
  std::printf("%.0f MiB in %zu tensors, %d rounds: median (least to most)\n", mebibytes, tensors,
              chosen.rounds);

  job waiting(chosen);
  waiting.open(false);
  const double rise_waiting = rise_of([&] { waiting.save(); });
  // Each has a folder of its own: they are two jobs.
  options other = chosen;
  other.folder += "/other";
  job going_on(other);
  going_on.open(true);
  going_on.save();
  going_on.wait();
  const double rise_going_on = rise_of([&] {
    going_on.save();
    going_on.wait();
  });

  std::vector<double> dd_seconds, save_seconds, stall_seconds, under_way, ratio, stall_share,
      begin_seconds, resume;
  for (int round = 0; round < chosen.rounds; ++round) {
    dd_seconds.push_back(seconds_of([&] { dd(chosen); }));
    save_seconds.push_back(seconds_of([&] { waiting.save(); }));
    stall_seconds.push_back(seconds_of([&] { going_on.save(); }));
    under_way.push_back(seconds_of([&] { going_on.wait(); }));
    begin_seconds.push_back(seconds_of([&] { going_on.begin_save(); }));
    going_on.wait();
    ratio.push_back(dd_seconds.back() / save_seconds.back());
    stall_share.push_back(stall_seconds.back() / save_seconds.back());
    resume.push_back(seconds_of([&] { waiting.open(false); }));
    if (::isatty(2) != 0) std::fprintf(stderr, "round %d of %d\r", round + 1, chosen.rounds);
  }
  std::printf("dd with fsync, MiB/s                     %s\n", rate(mebibytes, dd_seconds).c_str());
  std::printf("save, MiB/s                              %s\n",
              rate(mebibytes, save_seconds).c_str());
  std::printf("save / dd, the goal is 0.9 at least      %s\n", spread(ratio).c_str());
  std::printf("asynchronous save: training waits, s     %s\n", spread(stall_seconds).c_str());
  std::printf("  of a save that is waited for, 0.1      %s\n", spread(stall_share).c_str());
  std::printf("  where it is copied late, s             %s\n", spread(begin_seconds).c_str());
  std::printf("  then written in, s                     %s\n", spread(under_way).c_str());
  std::printf("resume, MiB/s read and checked           %s\n", rate(mebibytes, resume).c_str());
  std::printf("memory beyond the state, MiB             %8.1f\n", rise_waiting);
  std::printf("  asynchronous, and beyond the copy      %8.1f\n", rise_going_on);
  waiting.close();
  going_on.close();
  std::filesystem::remove_all(chosen.folder);
}
