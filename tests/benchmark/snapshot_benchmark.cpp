// Measures snapshots of one rank on the disk of the current folder, compared with `dd` with fsync
// of as many bytes, alternating; medians.
//
//   write    MB/s of a save that training waits for, and of dd
//   stall    how long training waits for a save that is asynchronous, against one that is not; and
//            for the beginning of one that copies while training goes on
//   slowed   the same as a whole, for a loop of passes that goes on beside a save until that is on
//            the disk: by how much longer it takes than as many passes without one. A pass reads
//            the state four times (forward and backward), and changes all of it (the optimizer)
//            once it is copied
//   memory   the most that each of them takes beyond what it had, the copy of the state excepted
//   resume   MB/s of opening: every byte read and checked
//
//   snapshot_benchmark [--rounds=N] [--bytes=N] [--folder=DIR]
#include "tests/benchmark/measured.hpp"
#include "worker/snapshot/snapshots.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
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

// A field of /proc/self/status, in MiB.
double memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::atof(line.c_str() + name.size() + 1) / 1024;
  }
  fail("no " + name);
}

// How far memory rises above where it was.
double rise_of(const std::function<void()>& work) {
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
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
  bool is_saved() { return kept_->is_saved(std::chrono::milliseconds(0)); }
  // Returns for how many seconds of the pass it waited for a copy.
  double pass() {
    std::uint64_t sum = 0;
    for (int turn = 0; turn < 4; ++turn)
      for_each_word([&](std::uint64_t& word) { sum += word ^ (sum >> 1); });
    sum_ = sum;  // so that the reads are not optimized away
    const double waited = seconds_of([&] { kept_->wait_until_copied(); });
    for_each_word([](std::uint64_t& word) { ++word; });
    return waited;
  }

 private:
  template <typename Work>
  void for_each_word(Work work) {
    for (auto& tensor : values_) {
      auto* const words = reinterpret_cast<std::uint64_t*>(tensor.get());
      for (std::size_t at = 0; at < bytes_ / sizeof *words; ++at)
        work(words[at]);
    }
  }

  options options_;
  std::size_t bytes_;
  std::vector<std::unique_ptr<char[]>> values_;
  snapshot_state state_;
  std::unique_ptr<snapshots> kept_;
  std::uint64_t step_ = 0;
  volatile std::uint64_t sum_ = 0;
};

void dd(const options& chosen) {
  const std::string file = chosen.folder + "/dd";
  const std::string command = "dd if=/dev/zero of=" + file +
                              " bs=8M iflag=count_bytes count=" + std::to_string(chosen.bytes) +
                              " conv=fsync status=none";
  if (std::system(command.c_str()) != 0) fail("dd has failed");
  std::filesystem::remove(file);
}

// How much time a training loop loses if it goes on beside a save.
class passes_beside_a_save {
 public:
  // `save`: how long a save takes for which training waits.
  void measure(job& of, double save) {
    constexpr int passes_min = 3;
    const double plain = seconds_of([&] {
      for (int pass = 0; pass < passes_min; ++pass)
        of.pass();
    });
    pass_.push_back(plain / passes_min);
    int passes = 0;
    double waited = 0;
    const double whole = seconds_of([&] {
      waited = seconds_of([&] { of.begin_save(); });
      for (; passes < passes_min || !of.is_saved(); ++passes)
        waited += of.pass();
    });
    of.wait();
    slowed_by_.push_back(whole - passes * pass_.back());
    share_.push_back(slowed_by_.back() / save);
    waited_.push_back(waited);
    waited_share_.push_back(waited / save);
  }
  void print() const {
    std::printf("a pass of a training loop, s             %s\n", spread(pass_).c_str());
    std::printf("  beside a save they wait for it, s      %s\n", spread(waited_).c_str());
    std::printf("  of a save that is waited for, 0.1      %s\n", spread(waited_share_).c_str());
    std::printf("  and are slowed by, with that, s        %s\n", spread(slowed_by_).c_str());
    std::printf("  of a save that is waited for           %s\n", spread(share_).c_str());
  }

 private:
  std::vector<double> pass_, slowed_by_, share_, waited_, waited_share_;
};

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
  // They are two jobs, so each has a folder of its own.
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
  passes_beside_a_save beside;
  for (int round = 0; round < chosen.rounds; ++round) {
    dd_seconds.push_back(seconds_of([&] { dd(chosen); }));
    save_seconds.push_back(seconds_of([&] { waiting.save(); }));
    stall_seconds.push_back(seconds_of([&] { going_on.save(); }));
    under_way.push_back(seconds_of([&] { going_on.wait(); }));
    begin_seconds.push_back(seconds_of([&] { going_on.begin_save(); }));
    going_on.wait();
    beside.measure(going_on, save_seconds.back());
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
  beside.print();
  std::printf("resume, MiB/s read and checked           %s\n", rate(mebibytes, resume).c_str());
  std::printf("memory beyond the state, MiB             %8.1f\n", rise_waiting);
  std::printf("  asynchronous, and beyond the copy      %8.1f\n", rise_going_on);
  waiting.close();
  going_on.close();
  std::filesystem::remove_all(chosen.folder);
}
