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

// Of a piece.
tensor_region region_of(const tensor_view& tensor) {
  return {tensor.piece_of->offset, tensor.shape};
}
tensor_description whole_of(const tensor_view& tensor) {
  return {tensor.name, tensor.type, tensor.piece_of->shape};
}

}  // namespace

sharded_tensors::sharded_tensors(std::uint32_t ranks, std::uint32_t first, opener open)
    : ranks_(ranks), first_(first), open_(std::move(open)) {}

error_code sharded_tensors::add(std::uint32_t rank, const snapshot_part& own,
                                std::shared_ptr<const mapped_file> bytes, std::string& problem) {
  const std::lock_guard lock(mutex_);
  return take(rank, own, std::move(bytes), problem);
}

error_code sharded_tensors::take(std::uint32_t rank, const snapshot_part& own,
                                 std::shared_ptr<const mapped_file> bytes,
                                 std::string& problem) const {
  // All are checked before one is taken: the bytes of a file that is refused are gone.
  std::map<std::string_view, tensor_description> added;
  for (const tensor_view& tensor : own.tensors) {
    if (!tensor.piece_of) continue;
    const tensor_region region = region_of(tensor);
    const tensor_description whole = whole_of(tensor);
    const auto known = tensors_.find(tensor.name);
    const tensor_description& expected = known != tensors_.end()
                                             ? known->second.whole
                                             : added.try_emplace(tensor.name, whole).first->second;
    if (!is_inside(region, whole.shape) || expected != whole) {
      problem = "piece " + text_of(region) + " does not fit into " + to_text(expected);
      return errc::damaged;
    }
  }
  for (const tensor_view& tensor : own.tensors) {
    if (!tensor.piece_of) continue;
    const tensor_region region = region_of(tensor);
    auto& all = tensors_[tensor.name];
    if (all.pieces.empty()) all.whole = whole_of(tensor);
    // Ranks with the same region have the same content.
    const bool is_there = std::any_of(all.pieces.begin(), all.pieces.end(),
                                      [&](const piece& each) { return each.region == region; });
    if (!is_there) all.pieces.push_back({region, tensor.bytes});
  }
  bytes_.push_back(std::move(bytes));
  is_open_.insert(rank);
  return {};
}

result<bool> sharded_tensors::open_next(std::uint32_t& turn, std::string& problem) const {
  while (turn < ranks_) {
    const std::uint32_t rank = (first_ + turn++) % ranks_;
    if (is_open_.contains(rank)) continue;
    auto opened = open_(rank, problem);
    if (!opened) return {boost::system::in_place_error, opened.error()};
    if (auto error = take(rank, opened->own, std::move(opened->bytes), problem)) {
      return {boost::system::in_place_error, error};
    }
    return true;
  }
  return false;
}

error_code sharded_tensors::open_all(std::string& problem) const {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t turn = 0;;) {
    const auto has_opened = open_next(turn, problem);
    if (!has_opened) return has_opened.error();
    if (!*has_opened) return {};
  }
}

error_code sharded_tensors::read(std::string_view name, const tensor_region& region, char* to,
                                 std::string& problem) const {
  const std::lock_guard lock(mutex_);
  std::vector<tensor_region> parts;
  std::uint64_t elements = 0;
  std::size_t seen = 0;    // pieces
  error_code first_wrong;  // what cannot be opened may have nothing of it
  std::string first_problem;
  for (std::uint32_t turn = 0;;) {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) {
      const auto& [whole, pieces] = found->second;
      if (!is_inside(region, whole.shape)) {
        problem = to_text(whole) + " has no region " + text_of(region);
        return errc::invalid_argument;
      }
      for (; seen < pieces.size(); ++seen) {
        const piece& each = pieces[seen];
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
    }
    std::string why;
    const auto has_opened = open_next(turn, why);
    if (!has_opened && !first_wrong) {
      first_wrong = has_opened.error();
      first_problem = why;
    }
    if (!has_opened || *has_opened) continue;
    if (first_wrong) {
      problem = first_problem;
      return first_wrong;
    }
    if (found == tensors_.end()) {
      problem = "there is no sharded tensor '" + std::string(name) + "'";
      return errc::not_found;
    }
    problem = "no rank's file has all of region " + text_of(region) + " of " +
              to_text(found->second.whole);
    return errc::damaged;
  }
}

}  // namespace ddprun::worker
