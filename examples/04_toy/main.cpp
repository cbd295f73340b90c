// Collectives on small tensors: what each rank had, and what all have afterwards. The first thing
// to start on a new cluster: it says whether the ranks reach each other, and needs no data.
#include "worker/torch/process_group.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <charconv>
#include <cstdio>
#include <exception>
#include <getopt.h>
#include <stdexcept>
#include <string>

namespace {

namespace worker = ddprun::worker;

constexpr const char* usage =
    "usage: toy [options]\n"
    "\n"
    "Sums and sends small tensors over all ranks. Started by ddprun or torchrun it needs no "
    "option;\n"
    "by hand, or where the ranks are to be told by arguments, all four:\n"
    "\n"
    "  --rank R          this one's rank, from 0\n"
    "  --world-size W    how many there are\n"
    "  --ip IP           of rank 0\n"
    "  --port P          on which rank 0 serves the others\n";

std::uint32_t number(const char* name, const std::string& text) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, value);
  if (failure == std::errc{} && rest == end) return value;
  throw std::invalid_argument(std::string(name) + " is '" + text + "': it must be a whole number");
}

worker::place_by_hand parse(int count, char** values) {
  const option options[] = {
      {"rank", required_argument, nullptr, 'r'}, {"world-size", required_argument, nullptr, 'w'},
      {"ip", required_argument, nullptr, 'i'},   {"port", required_argument, nullptr, 'p'},
      {"help", no_argument, nullptr, 'h'},       {}};
  worker::place_by_hand place;
  std::string ip, port;
  for (int letter = 0; (letter = ::getopt_long(count, values, "", options, nullptr)) != -1;) {
    if (letter == 'h') {
      std::fputs(usage, stdout);
      std::exit(0);
    }
    if (letter == 'r') place.rank = number("--rank", optarg);
    if (letter == 'w') place.world_size = number("--world-size", optarg);
    if (letter == 'i') ip = optarg;
    if (letter == 'p') port = optarg;
    if (letter == '?') throw std::invalid_argument("--help lists the options");
  }
  if (optind < count) throw std::invalid_argument(std::string(values[optind]) + " is no option");
  const bool some = place.rank || place.world_size || !ip.empty() || !port.empty();
  if (some && (!place.rank || !place.world_size || ip.empty() || port.empty())) {
    throw std::invalid_argument("--rank, --world-size, --ip and --port go together");
  }
  const bool is_v6 = ip.find(':') != std::string::npos;
  if (some) place.init_method = "tcp://" + (is_v6 ? "[" + ip + "]" : ip) + ":" + port;
  return place;
}

std::string to_text(const at::Tensor& tensor) {
  std::string text;
  for (std::int64_t index = 0; index < tensor.numel(); ++index)
    text += (index == 0 ? "[" : ", ") + std::to_string(tensor[index].item<std::int64_t>());
  return text + "]";
}

void run(const worker::place_by_hand& place) {
  const auto here = worker::read_environment(place);
  auto group = worker::process_group::join(here);
  const auto tell = [&](const char* what, const std::string& before, const at::Tensor& after) {
    std::printf("rank %u of %u: %s %s -> %s\n", here.rank, here.world_size, what, before.c_str(),
                to_text(after).c_str());
  };
  auto sum = at::full({3}, static_cast<std::int64_t>(here.rank + 1), at::kLong);
  std::string before = to_text(sum);
  group.all_reduce_sum(sum);
  tell("all_reduce", before, sum);

  auto sent = at::arange(3, at::kLong) + static_cast<std::int64_t>(10 * here.rank);
  before = to_text(sent);
  group.broadcast(sent, here.world_size - 1);
  tell("broadcast from the last", before, sent);
  group.close();
}

}  // namespace

int main(int count, char** values) {
  try {
    run(parse(count, values));
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "toy: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "toy: %s\n", error.what());
    return 1;
  }
  return 0;
}
