// A rank that checks worker/nccl/communicator: the result of each collective, on memory of its GPU,
// for 1 to 80 ranks. Prints a line for each check, and exits with 1 at the first wrong element.
#include "worker/environment.hpp"
#include "worker/nccl/communicator.hpp"

#include <cstdio>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace ddprun::worker;
using namespace std::chrono_literals;

constexpr std::size_t count = 1000;
constexpr auto patience = 120s;

void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(code));
}

// The initial value of a rank's element: small integers, whose sums are exact.
template <typename T>
T value(std::uint32_t rank, std::size_t at) {
  return static_cast<T>((rank + 1) * 3 + at % 7);
}

template <typename T>
class device_memory {
 public:
  explicit device_memory(const std::vector<T>& values) : size_(values.size()) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), size_ * sizeof(T)), "cudaMalloc");
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
          "cudaMemcpy to the GPU");
    // cudaMemcpy may return before the data has arrived, and our stream does not wait for this one.
    check(cudaStreamSynchronize(nullptr), "cudaMemcpy to the GPU");
  }
  explicit device_memory(std::size_t size) : device_memory(std::vector<T>(size)) {}
  ~device_memory() { cudaFree(data_); }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;

  std::span<T> span() { return {data_, size_}; }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
          "cudaMemcpy from the GPU");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

// A vector of `made(at)` for each element.
template <typename T, typename Maker>
std::vector<T> filled(std::size_t size, Maker made) {
  std::vector<T> values(size);
  for (std::size_t at = 0; at < size; ++at)
    values[at] = static_cast<T>(made(at));
  return values;
}

template <typename T>
std::vector<T> own_values(std::uint32_t rank, std::size_t size = count) {
  return filled<T>(size, [rank](std::size_t at) { return value<T>(rank, at); });
}

class ranks {
 public:
  ranks(communicator& all, std::string name, cudaStream_t stream)
      : all_(all), name_(std::move(name)), stream_(stream) {}

  std::uint32_t rank() const { return all_.rank(); }
  std::uint32_t size() const { return all_.world_size(); }
  cudaStream_t stream() const { return stream_; }
  communicator& all() { return all_; }

  template <typename T, typename Maker>
  void expect(const std::string& what, const device_memory<T>& found, Maker wanted,
              T tolerance = T()) {
    all_.wait(stream_, patience);
    const std::vector<T> values = found.read();
    for (std::size_t at = 0; at < values.size(); ++at) {
      const T right = static_cast<T>(wanted(at));
      const T apart = values[at] < right ? right - values[at] : values[at] - right;
      if (apart <= tolerance) continue;
      throw std::runtime_error("rank " + std::to_string(rank()) + ", " + name_ + ": " + what +
                               ": element " + std::to_string(at) + " is " +
                               std::to_string(values[at]) + ", not " + std::to_string(right));
    }
    std::printf("right: %s: %s\n", name_.c_str(), what.c_str());
  }

 private:
  communicator& all_;
  std::string name_;
  cudaStream_t stream_;
};

template <typename T>
void reduce(ranks& here, const char* type) {
  const std::string of = std::string(" of ") + type;
  const auto sum = [&](std::size_t at) {
    T total = 0;
    for (std::uint32_t rank = 0; rank < here.size(); ++rank)
      total = static_cast<T>(total + value<T>(rank, at));
    return total;
  };
  device_memory<T> from(own_values<T>(here.rank()));
  device_memory<T> to(count);
  here.all().all_reduce(from.span(), to.span(), reduction::sum, here.stream());
  here.expect("sum" + of, to, sum);
  here.all().all_reduce(from.span(), to.span(), reduction::max, here.stream());
  here.expect("max" + of, to, [&](std::size_t at) { return value<T>(here.size() - 1, at); });
  here.all().all_reduce(from.span(), to.span(), reduction::min, here.stream());
  here.expect("min" + of, to, [&](std::size_t at) { return value<T>(0, at); });
  here.all().all_reduce(from.span(), from.span(), reduction::sum, here.stream());
  here.expect("sum in place" + of, from, sum);
}

void average(ranks& here) {
  device_memory<double> data(own_values<double>(here.rank()));
  here.all().all_reduce(data.span(), data.span(), reduction::average, here.stream());
  // The ranks' values differ by 3. NCCL multiplies each by 1/size, which is rounded.
  const auto mean = [&](std::size_t at) {
    return value<double>(0, at) + 3.0 * (here.size() - 1) / 2;
  };
  here.expect("average", data, mean, 1e-9);
}

void broadcast(ranks& here) {
  for (std::uint32_t root = 0; root < here.size(); ++root) {
    device_memory<std::int32_t> data(own_values<std::int32_t>(here.rank()));
    here.all().broadcast(data.span(), root, here.stream());
    here.expect("broadcast from " + std::to_string(root), data,
                [&](std::size_t at) { return value<std::int32_t>(root, at); });
  }
}

void gather_and_scatter(ranks& here) {
  device_memory<float> part(own_values<float>(here.rank()));
  device_memory<float> whole(count * here.size());
  here.all().all_gather(part.span(), whole.span(), here.stream());
  here.expect("all_gather", whole, [](std::size_t at) {
    return value<float>(static_cast<std::uint32_t>(at / count), at % count);
  });
  // All ranks now hold the same: the sum of this rank's part is the part times the number of ranks.
  here.all().reduce_scatter(whole.span(), part.span(), reduction::sum, here.stream());
  here.expect("reduce_scatter", part, [&](std::size_t at) {
    return value<float>(here.rank(), at) * static_cast<float>(here.size());
  });
}

void send_and_receive(ranks& here) {
  const std::uint32_t next = (here.rank() + 1) % here.size();
  const std::uint32_t before = (here.rank() + here.size() - 1) % here.size();
  device_memory<std::int64_t> from(own_values<std::int64_t>(here.rank()));
  device_memory<std::int64_t> to(count);
  here.all().grouped([&] {
    here.all().send(from.span(), next, here.stream());
    here.all().receive(to.span(), before, here.stream());
  });
  here.expect("ring of sends", to, [&](std::size_t at) { return value<std::int64_t>(before, at); });
  if (here.size() == 1) return;
  // Send from the first rank to the last: one call on each, and none on the ranks in between.
  const std::uint32_t last = here.size() - 1;
  if (here.rank() == 0) here.all().send(from.span(), last, here.stream());
  if (here.rank() == last) {
    here.all().receive(to.span(), 0, here.stream());
    here.expect("send alone", to, [](std::size_t at) { return value<std::int64_t>(0, at); });
  }
  here.all().wait(here.stream(), patience);
}

void many_small(ranks& here) {
  device_memory<float> one(own_values<float>(here.rank()));
  device_memory<float> other(own_values<float>(here.rank() + 1));
  here.all().grouped([&] {
    here.all().all_reduce(one.span(), one.span(), reduction::max, here.stream());
    here.all().all_reduce(other.span(), other.span(), reduction::max, here.stream());
  });
  here.expect("grouped reductions, the first", one,
              [&](std::size_t at) { return value<float>(here.size() - 1, at); });
  here.expect("grouped reductions, the second", other,
              [&](std::size_t at) { return value<float>(here.size(), at); });
}

void check_all(ranks here) {
  reduce<float>(here, "float");
  reduce<double>(here, "double");
  reduce<std::int32_t>(here, "int32");
  reduce<std::uint64_t>(here, "uint64");
  reduce<std::uint8_t>(here, "uint8");
  average(here);
  broadcast(here);
  gather_and_scatter(here);
  send_and_receive(here);
  many_small(here);
}

// Splits into even and odd ranks, in reverse order, and into a part without the last rank.
void split(communicator& all, cudaStream_t stream) {
  const std::uint32_t rank = all.rank();
  const std::uint32_t size = all.world_size();
  auto half = all.split(rank % 2, size - rank);
  if (!half) throw std::runtime_error("split: no part for a rank with a color");
  const std::uint32_t ranks_of_color = (size + 1 - rank % 2) / 2;
  if (half->world_size() != ranks_of_color || half->rank() != ranks_of_color - 1 - rank / 2)
    throw std::runtime_error("split: rank " + std::to_string(half->rank()) + " of " +
                             std::to_string(half->world_size()));
  check_all({*half, rank % 2 == 0 ? "even ranks" : "odd ranks", stream});
  half->close(patience);

  const bool is_out = size > 1 && rank == size - 1;
  auto others = all.split(is_out ? std::nullopt : std::optional<std::uint32_t>(0));
  if (others.has_value() == is_out) throw std::runtime_error("split: a part without a color");
  if (!others) return;
  check_all({*others, "all but the last", stream});
  others->close(patience);
}

void run() {
  const environment here = read_environment();
  communicator_options options;
  options.join_timeout = patience;
  options.call_timeout = patience;
  auto all = communicator::join(here, options);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  check_all({all, "all ranks", stream});
  split(all, stream);
  options.name = "second";
  auto second = communicator::join(here, options);
  check_all({second, "second communicator", stream});
  second.close(patience);
  all.close(patience);
  cudaStreamDestroy(stream);
  std::printf("all is right on rank %u of %u, GPU %d\n", here.rank, here.world_size, all.device());
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // block buffering could cut a line in two
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    // Skip the destructors, which would wait for a GPU that waits for another rank.
    std::fprintf(stderr, "nccl_collectives: %s\n", error.what());
    std::fflush(nullptr);
    std::_Exit(1);
  }
}
