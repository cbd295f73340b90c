#include "launcher/nccl/id_count.hpp"

#include "launcher/base/text.hpp"

#include <algorithm>
#include <string>

namespace ddprun::launcher {
namespace {

constexpr const char* ranks_per_id_variable = "TORCH_NCCL_RANKS_PER_ROOT";
constexpr std::uint32_t ranks_per_id_default = 128;

std::uint32_t ranks_per_id(const environment_map& environment) {
  const std::string text = variable_or_empty(environment, ranks_per_id_variable);
  const std::uint32_t ranks = leading_number<std::uint32_t>(text).value_or(0);
  return ranks == 0 ? ranks_per_id_default : ranks;
}

}  // namespace

std::uint32_t nccl_id_count(std::uint32_t world_size, const environment_map& environment) {
  const std::uint32_t ranks = ranks_per_id(environment);
  const std::uint32_t count = world_size / ranks + (world_size % ranks != 0 ? 1 : 0);
  return std::clamp(count, 1U, nccl_ids_max_made);
}

}  // namespace ddprun::launcher
