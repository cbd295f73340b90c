#include "worker/snapshot/sharded_tensors.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::worker {
namespace {

std::string text_of(const tensor_region& region) {
  const auto list = [](const std::vector<std::uint64_t>& numbers) {
    std::string text = "[";
    for (const std::uint64_t each : numbers)
      text += (text.size() == 1 ? "" : ", ") + std::to_string(each);
    return text + "]";
  };
  return list(region.shape) + " at " + list(region.offset);
}

}  // namespace

error_code sharded_tensors::add(const snapshot_part& own, std::shared_ptr<const mapped_file> bytes,
                                std::string& problem) {
  for (const tensor_view& tensor : own.tensors) {
    if (!tensor.piece_of) continue;
    const tensor_region region{tensor.piece_of->offset, tensor.shape};
    const tensor_description whole{tensor.name, tensor.type, tensor.piece_of->shape};
    auto& all = tensors_[tensor.name];
    if (all.pieces.empty()) all.whole = whole;
    if (!is_inside(region, whole.shape) || all.whole != whole) {
      problem = "piece " + text_of(region) + " does not fit into " + to_text(all.whole);
      return errc::damaged;
    }
    // Ranks with the same region have the same content.
    const bool is_there = std::any_of(all.pieces.begin(), all.pieces.end(),
                                      [&](const piece& each) { return each.region == region; });
    if (!is_there) all.pieces.push_back({region, tensor.bytes});
  }
  bytes_.push_back(std::move(bytes));
  return {};
}

std::vector<tensor_description> sharded_tensors::wholes() const {
  std::vector<tensor_description> all;
  for (const auto& [name, each] : tensors_)
    all.push_back(each.whole);
  return all;
}

const tensor_description* sharded_tensors::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second.whole;
}

error_code sharded_tensors::read(std::string_view name, const tensor_region& region, char* to,
                                 std::string& problem) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    problem = "there is no sharded tensor '" + std::string(name) + "'";
    return errc::not_found;
  }
  const auto& [whole, pieces] = found->second;
  if (!is_inside(region, whole.shape)) {
    problem = to_text(whole) + " has no region " + text_of(region);
    return errc::invalid_argument;
  }
  std::vector<tensor_region> parts;
  std::uint64_t elements = 0;
  for (const piece& each : pieces) {
    const auto part = common_part(each.region, region);
    if (!part) continue;
    for (const auto& other : parts) {
      if (!common_part(*part, other)) continue;
      problem = "two pieces of " + to_text(whole) + " overlap in " + text_of(other);
      return errc::damaged;
    }
    copy_part(*part, bytes_of(whole.type), each.region, each.bytes.data(), region, to);
    elements += elements_of(*part);
    parts.push_back(*part);
  }
  if (elements == elements_of(region)) return {};
  problem = "no rank's file has all of region " + text_of(region) + " of " + to_text(whole);
  return errc::damaged;
}

}  // namespace ddprun::worker
