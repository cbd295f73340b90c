// Runs collectives on small tensors, and shows what each rank had before and after. Start it first
// on a new cluster: it shows whether the ranks reach each other, and needs no data.
#include "examples/common/example_command_line.hpp"
#include "examples/common/program.hpp"
#include "worker/torch/process_group.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <cstdio>
#include <string>

namespace {

namespace worker = ddprun::worker;

worker::place_by_hand parse(int count, char** values) {
  worker::place_by_hand place;
  std::string ip, port;
  examples::command_line line("toy",
                              "Sums and sends small tensors over all ranks. Started by ddprun or "
                              "torchrun it needs no option; by hand all four.");
  line.rank_and_world_size(place);
  line.text("--ip", ip, "of rank 0");
  line.text("--port", port, "on which rank 0 serves the others");
  line.parse(count, values);
  const bool some = place.rank || place.world_size || !ip.empty() || !port.empty();
  if (some && (!place.rank || !place.world_size || ip.empty() || port.empty())) {
    line.refuse("--rank, --world-size, --ip and --port go together");
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

int run(const worker::place_by_hand& place) {
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
  return 0;
}

}  // namespace

int main(int count, char** values) {
  const auto options = parse(count, values);
  return examples::run_program("toy", [&] { return run(options); });
}
