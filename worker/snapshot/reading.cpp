#include "worker/snapshot/reading.hpp"

#include "worker/snapshot/listing.hpp"
#include "worker/snapshot/sharded_tensors.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

namespace ddprun::worker {

std::optional<failure> snapshot_reading::open(snapshot_order order) {
  const std::string manifest_path = path_ + "/" + std::string(manifest_name);
  const auto names = list_until(
      files_, path_, [](const name_set& found) { return found.contains(manifest_name); });
  const bool is_gone =
      names ? !names->contains(manifest_name) : is_system_error(names.error(), ENOENT);
  if (is_gone) {
    return failure{errc::not_found, manifest_path + ": " + system_error(ENOENT).message() + "; " +
                                        std::string(shared_folder_hint)};
  }
  if (!names) return failure{names.error(), path_ + ": " + names.error().message()};
  const auto text = files_.read(manifest_path, manifest_bytes_max);
  if (!text) return failure{text.error(), manifest_path + ": " + text.error().message()};
  auto content = parse_manifest(*text);
  if (!content) return failure{content.error(), content.error().message()};
  if (content->order() != order)
    return failure{errc::damaged, "it is the manifest of another snapshot"};
  content_ = std::move(*content);
  return std::nullopt;
}

std::variant<rank_file, failure> snapshot_reading::file(std::uint32_t rank, bool is_checked) const {
  std::string why;
  const auto name = file_name_in(content_.info, rank);
  auto found = read_rank_file(files_, path_ + "/" + name, content_.files[rank], is_checked, why);
  if (!found) return failure{found.error(), name + ": " + why};
  return std::move(*found);
}

std::optional<failure> snapshot_reading::check_length(std::uint32_t rank) const {
  const auto name = file_name_in(content_.info, rank);
  const auto size = files_.size(path_ + "/" + name);
  if (!size) {
    const bool is_none = size.error() == errc::not_found || is_system_error(size.error(), ENOENT);
    return failure{is_none ? make_error_code(errc::damaged) : size.error(),
                   name + ": " + size.error().message()};
  }
  if (*size == content_.files[rank].bytes) return std::nullopt;
  return failure{errc::damaged, name + ": it has " + std::to_string(*size) + " bytes instead of " +
                                    std::to_string(content_.files[rank].bytes)};
}

std::shared_ptr<sharded_tensors> snapshot_reading::pieces(std::uint32_t first,
                                                          bool is_checked) const {
  const auto open = [from = *this, is_checked](
                        std::uint32_t rank,
                        std::string& problem) -> result<sharded_tensors::opened_file> {
    auto found = from.file(rank, is_checked);
    if (const auto* wrong = std::get_if<failure>(&found)) {
      problem = wrong->text;
      return wrong->code;
    }
    auto& read = std::get<rank_file>(found);
    return sharded_tensors::opened_file{std::move(read.own), std::move(read.mapping)};
  };
  return std::make_shared<sharded_tensors>(static_cast<std::uint32_t>(content_.files.size()), first,
                                           open);
}

resumed_snapshot snapshot_reading::begin() const {
  resumed_snapshot found;
  found.info = content_.info;
  found.world_size = static_cast<std::uint32_t>(content_.files.size());
  found.path = path_;
  return found;
}

void add_share(snapshot_part& all, snapshot_part share) {
  all.values.merge(share.values);
  std::move(share.tensors.begin(), share.tensors.end(), std::back_inserter(all.tensors));
}

}  // namespace ddprun::worker
