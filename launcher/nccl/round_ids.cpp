#include "launcher/nccl/round_ids.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/core/messages/versions.hpp"
#include "worker/nccl_id.hpp"
#include "worker/nccl_version.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace ddprun::launcher {
namespace {

// "nccl VERSION COUNT ID,ID,..."
constexpr std::string_view kind = "nccl";

// Takes off the part before the separator, or all if there is none.
std::string_view take_part(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<nccl_round_ids> ids_in(std::string_view text) {
  if (take_part(text, ' ') != kind) return std::nullopt;
  const std::optional<std::uint32_t> version = number_of(take_part(text, ' '));
  const std::optional<std::uint32_t> count = number_of(take_part(text, ' '));
  if (!version || !count) return std::nullopt;
  nccl_round_ids ids;
  ids.version = *version;
  ids.count = *count;
  while (!text.empty()) {
    const std::string_view id = take_part(text, ',');
    if (!worker::nccl_id_from(id)) return std::nullopt;
    ids.first.emplace_back(id);
  }
  if (ids.first.size() != std::min<std::size_t>(ids.count, nccl_ids_max)) return std::nullopt;
  return ids;
}

}  // namespace

std::string nccl_ids_text(const std::vector<std::string>& ids) {
  std::string text;
  for (const std::string& id : ids)
    text += (text.empty() ? "" : ",") + id;
  return text;
}

leader_data to_leader_data(const std::vector<std::string>& ids, std::uint32_t version,
                           const std::string& address) {
  if (ids.empty()) return {};
  const std::size_t told = std::min(ids.size(), nccl_ids_max);
  leader_data given;
  given.bytes = std::string(kind) + " " + std::to_string(version) + " " +
                std::to_string(ids.size()) + " " +
                nccl_ids_text({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(told)});
  given.about = counted(ids.size(), "id") + " of NCCL " + worker::nccl_version_text(version) +
                "; the ranks of the first meet at " + address;
  return given;
}

std::string read_nccl_ids(const leader_data& given, nccl_round_ids& ids) {
  ids = {};
  if (given.bytes.empty()) return {};
  std::optional<nccl_round_ids> found = ids_in(given.bytes);
  if (!found) {
    return "the leader of the round sent data that is not a list of NCCL ids known to this ddprun, "
           "so the workers of this node get no DDPRUN_NCCL_IDS: " +
           std::string(core::same_version_advice);
  }
  ids = *std::move(found);
  return {};
}

}  // namespace ddprun::launcher
