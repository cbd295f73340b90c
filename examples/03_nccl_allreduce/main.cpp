// Sums over all GPUs with NCCL alone, without LibTorch and Python. The ranks meet by the ids that
// `ddprun --nccl-ids` creates, and each sum is checked on the GPU.
#include "examples/03_nccl_allreduce/arguments.hpp"
#include "examples/03_nccl_allreduce/buffers.hpp"
#include "examples/03_nccl_allreduce/table.hpp"
#include "worker/environment.hpp"
#include "worker/nccl/communicator.hpp"
#include "worker/nccl_version.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <unistd.h>

namespace {

using allreduce::arguments;
using allreduce::buffers;
using allreduce::measure;
using ddprun::worker::communicator;
using ddprun::worker::deadline;
using ddprun::worker::reduction;

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

class bench {
 public:
  bench(communicator& all, buffers& memory, const arguments& wanted)
      : all_(all), memory_(memory), wanted_(wanted) {}

  measure run(std::size_t count, bool in_place) {
    const deadline until = wanted_.timeout;
    const std::span<float> from(memory_.from(), count);
    const std::span<float> to(in_place ? memory_.from() : memory_.to(), count);
    memory_.fill(from.data(), count, all_.rank(), ++run_);
    all_.all_reduce(from, to, reduction::sum, memory_.stream());
    all_.wait(memory_.stream(), until);
    measure measured;
    measured.wrong = memory_.count_wrong(to.data(), count, all_.world_size(), run_);

    for (std::uint32_t turn = 0; turn < wanted_.warm_ups; ++turn)
      all_.all_reduce(from, to, reduction::sum, memory_.stream());
    memory_.begin_time();
    for (std::uint32_t turn = 0; turn < wanted_.iterations; ++turn)
      all_.all_reduce(from, to, reduction::sum, memory_.stream());
    memory_.end_time();
    all_.wait(memory_.stream(), until);
    measured.microseconds = memory_.microseconds() / wanted_.iterations;
    return measured;
  }

 private:
  communicator& all_;
  buffers& memory_;
  const arguments& wanted_;
  std::uint32_t run_ = 0;
};

// Exits without running destructors: if a sum hangs on the GPU, cudaFree would wait for it, and the
// error would never be seen.
[[noreturn]] void fail(const std::exception& error) {
  std::fprintf(stderr, "nccl_allreduce: %s\n", error.what());
  std::fflush(nullptr);
  std::_Exit(1);
}

int measure_all(communicator& all, buffers& memory, const arguments& wanted);

int join_and_measure(const arguments& wanted) {
  const auto here = ddprun::worker::read_environment();
  ddprun::worker::communicator_options options;
  options.join_timeout = wanted.timeout;
  options.call_timeout = wanted.timeout;
  auto all = communicator::join(here, options);
  buffers memory(wanted.largest / sizeof(float));
  try {
    return measure_all(all, memory, wanted);
  } catch (const std::exception& error) {
    fail(error);
  }
}

int measure_all(communicator& all, buffers& memory, const arguments& wanted) {
  std::printf("#  Rank %2u on %s, process %d, device %d: %s, NCCL %s\n", all.rank(),
              host_name().c_str(), ::getpid(), all.device(),
              allreduce::device_name(all.device()).c_str(),
              ddprun::worker::nccl_version_text(all.version()).c_str());
  std::fflush(stdout);
  bench bench(all, memory, wanted);
  allreduce::table table(all.world_size());
  const bool prints = all.rank() == 0;
  if (prints) std::fputs(table.head().c_str(), stdout);
  for (std::size_t bytes = wanted.smallest; bytes <= wanted.largest; bytes *= wanted.factor) {
    const std::size_t count = bytes / sizeof(float);
    const measure out_of_place = bench.run(count, false);
    const measure in_place = bench.run(count, true);
    const std::string line = table.line(count * sizeof(float), out_of_place, in_place);
    if (prints) std::fputs(line.c_str(), stdout);
    std::fflush(stdout);
  }
  all.close(wanted.timeout);
  if (prints) std::fputs(table.foot().c_str(), stdout);
  if (table.wrong() == 0) return 0;
  std::fprintf(stderr, "nccl_allreduce: rank %u: %llu elements are not the sum\n", all.rank(),
               static_cast<unsigned long long>(table.wrong()));
  return 1;
}

}  // namespace

int main(int count, char** values) {
  std::string problem;
  const auto wanted = allreduce::read_arguments(count, values, problem);
  if (!wanted && problem.empty()) return std::fputs(allreduce::usage, stdout), 0;
  if (!wanted) {
    std::fprintf(stderr, "nccl_allreduce: %s; see --help\n", problem.c_str());
    return 2;
  }
  try {
    return join_and_measure(*wanted);
  } catch (const std::exception& error) {
    fail(error);
  }
}
