#include "worker/snapshot/shares.hpp"

#include "worker/snapshot/checksum.hpp"
#include "worker/snapshot/names.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace ddprun::worker {
namespace {

using json = nlohmann::json;

std::vector<std::uint64_t> lengths_of(const snapshot_part& part) {
  std::vector<std::uint64_t> lengths;
  for (const auto& tensor : part.tensors)
    lengths.push_back(bytes_of(tensor).value_or(0));  // one that is too long is refused later
  return lengths;
}

std::uint64_t checksum_of_deal(const snapshot_part& part, const dealt_tensors& dealt) {
  checksum sum;
  for (std::size_t at = 0; at < part.tensors.size(); ++at) {
    if (part.tensors[at].is_rank_0s) continue;
    const auto& tensor = static_cast<const tensor_description&>(part.tensors[at]);
    sum.add(to_text(tensor) + " " + std::to_string(dealt.rank_of[at]) + "\n");
  }
  return sum.value();
}

}  // namespace

std::uint64_t bytes_to_share(const snapshot_part& replicated) {
  std::uint64_t sum = 0;
  for (const auto& tensor : replicated.tensors) {
    if (!tensor.is_rank_0s) sum += bytes_of(tensor).value_or(0);
  }
  return sum;
}

std::uint32_t writers_for(std::uint64_t bytes, std::uint32_t world_size, std::uint32_t nodes) {
  const std::uint32_t most = nodes <= 1 ? std::min(world_size, writers_of_a_node_max) : world_size;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(bytes / share_bytes_min, 1, std::max<std::uint32_t>(most, 1)));
}

dealt_tensors deal_out(const snapshot_part& replicated, std::uint32_t writers,
                       std::uint32_t world_size) {
  dealt_tensors dealt;
  dealt.rank_of.assign(replicated.tensors.size(), 0);
  writers = std::clamp<std::uint32_t>(writers, 1, std::max<std::uint32_t>(world_size, 1));
  const auto lengths = lengths_of(replicated);
  std::vector<std::size_t> order;  // of those that any rank may write
  for (std::size_t at = 0; at < lengths.size(); ++at) {
    if (!replicated.tensors[at].is_rank_0s) order.push_back(at);
  }
  // Assign the longest tensors first, each to the writer with the least bytes: then no two shares
  // differ by more than the longest tensor. What is rank 0's comes on top: other ranks may not know
  // of it, and all must come to the same result.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
  using load = std::pair<std::uint64_t, std::uint32_t>;  // bytes, writer
  std::priority_queue<load, std::vector<load>, std::greater<>> least;
  for (std::uint32_t writer = 0; writer < writers; ++writer)
    least.emplace(0, writer);
  for (const std::size_t index : order) {
    auto [bytes, writer] = least.top();
    least.pop();
    dealt.rank_of[index] = static_cast<std::uint32_t>(std::uint64_t{writer} * world_size / writers);
    if (__builtin_add_overflow(bytes, lengths[index], &bytes)) bytes = ~std::uint64_t{0};
    least.emplace(bytes, writer);
  }
  dealt.ranks.insert(dealt.ranks.end(), dealt.rank_of.begin(), dealt.rank_of.end());
  std::sort(dealt.ranks.begin(), dealt.ranks.end());
  dealt.ranks.erase(std::unique(dealt.ranks.begin(), dealt.ranks.end()), dealt.ranks.end());
  dealt.checksum = checksum_of_deal(replicated, dealt);
  return dealt;
}

std::uint64_t checksum_of_descriptions(const snapshot_part& replicated) {
  checksum sum;
  for (const auto& tensor : replicated.tensors) {
    if (tensor.is_rank_0s) continue;
    sum.add(to_text(static_cast<const tensor_description&>(tensor)) + "\n");
  }
  return sum.value();
}

snapshot_part share_of(const snapshot_part& replicated, const dealt_tensors& dealt,
                       std::uint32_t rank) {
  snapshot_part share;
  if (rank == 0) share.values = replicated.values;
  for (std::size_t at = 0; at < replicated.tensors.size(); ++at) {
    if (dealt.rank_of[at] == rank) share.tensors.push_back(replicated.tensors[at]);
  }
  return share;
}

result<std::string> index_text(const snapshot_part& replicated, const dealt_tensors& dealt,
                               std::string& problem) {
  json files = json::object();
  std::uint64_t bytes = 0;
  for (std::size_t at = 0; at < replicated.tensors.size(); ++at) {
    const auto& tensor = replicated.tensors[at];
    if (files.contains(tensor.name)) {
      problem = "two tensors have the name '" + tensor.name + "'";
      return make_error_code(errc::invalid_argument);
    }
    files[tensor.name] = rank_file_name(dealt.rank_of[at]);
    bytes += bytes_of(tensor).value_or(0);
  }
  const json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(files)}};
  try {
    return index.dump(2) + "\n";
  } catch (const json::exception&) {
    problem = "a name in it is not UTF-8";
    return make_error_code(errc::invalid_argument);
  }
}

}  // namespace ddprun::worker
