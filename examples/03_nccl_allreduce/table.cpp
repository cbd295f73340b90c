#include "examples/03_nccl_allreduce/table.hpp"

#include <array>
#include <cstdio>

namespace allreduce {
namespace {

template <typename... Values>
std::string print(const char* format, Values... values) {
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

}  // namespace

std::string table::head() const {
  return "#\n"
         "#                                                              out-of-place              "
         " "
         "        in-place          \n"
         "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
         "time   algbw   busbw #wrong\n"
         "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
         "(us)  (GB/s)  (GB/s)       \n";
}

// Bus bandwidth is what each link must have carried: 2 (n - 1) / n of the data in an all_reduce of
// n ranks. It makes different numbers of ranks comparable (PERFORMANCE.md of nccl-tests).
std::string table::columns(std::size_t bytes, const measure& one) {
  const double ranks = world_size_;
  const double algorithm = static_cast<double>(bytes) / one.microseconds / 1000.0;
  const double bus = algorithm * 2 * (ranks - 1) / ranks;
  wrong_ += one.wrong;
  bandwidth_sum_ += bus;
  ++bandwidths_;
  return print("  %7.2f  %6.2f  %6.2f  %5llu", one.microseconds, algorithm, bus,
               static_cast<unsigned long long>(one.wrong));
}

std::string table::line(std::size_t bytes, const measure& out_of_place, const measure& in_place) {
  return print("%12zu  %12zu  %8s  %6s  %6d", bytes, bytes / sizeof(float), "float", "sum", -1) +
         columns(bytes, out_of_place) + columns(bytes, in_place) + "\n";
}

std::string table::foot() const {
  const double mean = bandwidths_ == 0 ? 0 : bandwidth_sum_ / static_cast<double>(bandwidths_);
  return print("# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(wrong_),
               wrong_ == 0 ? "OK" : "FAILED") +
         print("# Avg bus bandwidth    : %g\n#\n", mean);
}

}  // namespace allreduce
