#include "examples/03_nccl_allreduce/arguments.hpp"

#include <cctype>
#include <charconv>
#include <getopt.h>
#include <string_view>

namespace allreduce {
namespace {

constexpr std::uint64_t bytes_max = std::uint64_t{1} << 40;

const option options[] = {{"minbytes", required_argument, nullptr, 'b'},
                          {"maxbytes", required_argument, nullptr, 'e'},
                          {"stepfactor", required_argument, nullptr, 'f'},
                          {"iters", required_argument, nullptr, 'n'},
                          {"warmup_iters", required_argument, nullptr, 'w'},
                          {"timeout", required_argument, nullptr, 'T'},
                          {"help", no_argument, nullptr, 'h'},
                          {}};

// Reads a number, with has_unit also one that ends in K, M or G (powers of 1024).
std::optional<std::uint64_t> read_number(std::string_view text, std::uint64_t low,
                                         std::uint64_t high, bool has_unit) {
  unsigned shift = 0;
  if (has_unit && !text.empty()) {
    const char unit = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
    shift = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
    if (shift != 0) text.remove_suffix(1);
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > high >> shift)
    return std::nullopt;
  value <<= shift;
  if (value < low || value > high) return std::nullopt;
  return value;
}

struct range {
  std::uint64_t low, high;
  bool has_unit;
};

range range_of(int letter) {
  switch (letter) {
    case 'b':
    case 'e':
      return {4, bytes_max, true};
    case 'f':
      return {2, 1024, false};
    case 'n':
      return {1, 1'000'000, false};
    case 'w':
      return {0, 1'000'000, false};
    default:
      return {1, 86'400, false};
  }
}

}  // namespace

const char* const usage =
    R"(usage: nccl_allreduce [-b BYTES] [-e BYTES] [-f FACTOR] [-n ITERATIONS] [-w WARM_UPS]
                      [-T SECONDS]

Sums float32 over all ranks with NCCL, for each size from -b (8) to -e (128M), times -f (2) from one
to the next, and prints how fast. -n (20) runs are timed after -w (5) that are not. -T (60) is the
time for all ranks to come, and for each size. One rank for each GPU:

  ddprun --nproc-per-node=gpu --nccl-ids=on nccl_allreduce -b 8 -e 1G
)";

std::optional<arguments> read_arguments(int count, char** values, std::string& problem) {
  arguments read;
  ::opterr = 0;
  int letter;
  while ((letter = ::getopt_long(count, values, "b:e:f:n:w:T:h", options, nullptr)) != -1) {
    if (letter == 'h') return std::nullopt;
    if (letter == '?') {
      problem = std::string("'") + values[::optind - 1] + "' is no option, or lacks its value";
      return std::nullopt;
    }
    const range allowed = range_of(letter);
    const auto value = read_number(::optarg, allowed.low, allowed.high, allowed.has_unit);
    if (!value) {
      problem = std::string("-") + static_cast<char>(letter) + " '" + ::optarg +
                "': a number from " + std::to_string(allowed.low) + " to " +
                std::to_string(allowed.high) + (allowed.has_unit ? ", or with K, M, G" : "");
      return std::nullopt;
    }
    switch (letter) {
      case 'b':
        read.smallest = *value;
        break;
      case 'e':
        read.largest = *value;
        break;
      case 'f':
        read.factor = *value;
        break;
      case 'n':
        read.iterations = static_cast<std::uint32_t>(*value);
        break;
      case 'w':
        read.warm_ups = static_cast<std::uint32_t>(*value);
        break;
      default:
        read.timeout = std::chrono::seconds(*value);
        break;
    }
  }
  if (::optind < count) problem = std::string("'") + values[::optind] + "' is no option";
  if (read.smallest > read.largest)
    problem =
        "-b " + std::to_string(read.smallest) + " is more than -e " + std::to_string(read.largest);
  return problem.empty() ? std::optional(read) : std::nullopt;
}

}  // namespace allreduce
