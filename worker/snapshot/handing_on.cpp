#include "worker/snapshot/handing_on.hpp"

#include "worker/snapshot/rank_file.hpp"
#include "worker/snapshot/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ddprun::worker {
namespace {

// The size of one broadcast: enough to keep a network busy.
constexpr std::uint64_t handed_bytes = std::uint64_t{16} << 20;

}  // namespace

void hand_on(const byte_broadcast& broadcast, std::uint32_t reader, std::string_view from, char* to,
             std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += handed_bytes) {
    const std::uint64_t count = std::min(handed_bytes, bytes - at);
    if (!from.empty()) std::memcpy(to + at, from.data() + at, count);
    broadcast(reader, to + at, count);
  }
}

std::string handing_on::header(std::uint32_t reader, std::string_view file) const {
  std::uint64_t bytes = safetensors_header_bytes(file);
  broadcast_(reader, reinterpret_cast<char*>(&bytes), sizeof bytes);
  std::string text(bytes, '\0');
  hand_on(broadcast_, reader, file.substr(0, bytes), text.data(), bytes);
  return text;
}

result<snapshot_part> handing_on::share(std::uint32_t reader,
                                        const std::shared_ptr<const mapped_file>& file,
                                        std::string& problem) const {
  const std::string_view bytes = rank_ == reader ? file->bytes() : std::string_view();
  const std::string text = header(reader, bytes);
  auto content = read_safetensors_header(text, problem);
  if (!content) return content.error();
  std::string_view left = bytes.substr(std::min(bytes.size(), text.size()));
  for (tensor_view& tensor : content->tensors) {
    const std::uint64_t length = bytes_of(tensor).value_or(0);
    const std::string_view from = left.substr(0, length);
    left.remove_prefix(from.size());
    tensor.copy = [broadcast = broadcast_, reader, from, length, file](char* to) {
      hand_on(broadcast, reader, from, to, length);
    };
  }
  auto parts = split_by_owner(std::move(*content), problem);
  if (!parts) return parts.error();
  return std::move(parts->replicated);
}

std::shared_ptr<const mapped_file> handing_on::whole(
    std::uint32_t reader, std::uint32_t wanted_by, std::uint64_t bytes,
    const std::shared_ptr<const mapped_file>& file) const {
  const std::string_view from = rank_ == reader ? file->bytes() : std::string_view();
  auto made = std::make_shared<file_in_memory>();
  const bool is_wanted = rank_ == wanted_by;
  made->content.resize(is_wanted ? bytes : std::min(bytes, handed_bytes));
  for (std::uint64_t at = 0; at < bytes; at += handed_bytes) {
    const std::uint64_t count = std::min(handed_bytes, bytes - at);
    hand_on(broadcast_, reader, from.substr(std::min<std::size_t>(at, from.size()), count),
            made->content.data() + (is_wanted ? at : 0), count);
  }
  return is_wanted ? made : nullptr;
}

}  // namespace ddprun::worker
