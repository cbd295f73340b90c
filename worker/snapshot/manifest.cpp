#include "worker/snapshot/manifest.hpp"

#include "worker/snapshot/checksum.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <optional>
#include <utility>

namespace ddprun::worker {
namespace {

using json = nlohmann::json;

constexpr std::string_view format = "ddprun snapshot";
constexpr std::uint64_t newest_version = 3;

std::string tail_of(std::string_view before) {
  return "  \"xxh3\": \"" + checksum_text(checksum_of(before)) + "\"\n}\n";
}

std::optional<std::uint64_t> number_in(const json& object, const char* key) {
  if (!object.contains(key) || !object[key].is_number_unsigned()) return std::nullopt;
  return object[key].get<std::uint64_t>();
}

std::optional<std::uint64_t> checksum_in(const json& object) {
  if (!object.contains("xxh3") || !object["xxh3"].is_string()) return std::nullopt;
  const auto& text = object["xxh3"].get_ref<const std::string&>();
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return checksum_text(value) == text ? std::optional(value) : std::nullopt;
}

// Rank 0 writes the values, so it is always among them.
std::optional<std::vector<std::uint32_t>> ranks_in(const json& list, std::size_t files) {
  if (!list.is_array() || list.empty() || list[0] != 0) return std::nullopt;
  std::vector<std::uint32_t> ranks;
  for (const json& each : list) {
    if (!each.is_number_unsigned() || each.get<std::uint64_t>() >= files) return std::nullopt;
    const auto rank = each.get<std::uint32_t>();
    if (!ranks.empty() && rank <= ranks.back()) return std::nullopt;
    ranks.push_back(rank);
  }
  return ranks;
}

std::optional<file_record> record_in(const json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto bytes = number_in(object, "bytes");
  const auto xxh3 = checksum_in(object);
  if (!bytes || !xxh3) return std::nullopt;
  return file_record{*bytes, *xxh3};
}

}  // namespace

std::string file_name_in(const snapshot_info& info, std::uint32_t rank) {
  return info.is_emergency ? std::string(survivors_file_name) : rank_file_name(rank);
}

std::string to_text(const manifest& content) {
  const auto& info = content.info;
  const bool is_shared = content.replicated.size() > 1;
  std::string text = "{\n  \"format\": \"" + std::string(format) +
                     "\", \"version\": " + std::to_string(newest_version) +
                     ",\n  \"generation\": " + std::to_string(info.generation) +
                     ", \"step\": " + std::to_string(info.step) +
                     ", \"epoch\": " + std::to_string(info.epoch) +
                     ", \"instance\": " + std::to_string(info.instance) +
                     ", \"round\": " + std::to_string(info.round) +
                     (info.tells_progress ? ", \"progress\": true" : "") +
                     (info.is_emergency ? ", \"emergency\": true" : "") +
                     (content.has_pieces ? ", \"pieces\": true" : "") +
                     (is_shared ? ",\n  \"replicated\": " + json(content.replicated).dump() : "") +
                     ",\n  \"files\": [";
  for (std::size_t rank = 0; rank < content.files.size(); ++rank) {
    text += std::string(rank == 0 ? "" : ",") +
            "\n    {\"bytes\": " + std::to_string(content.files[rank].bytes) + ", \"xxh3\": \"" +
            checksum_text(content.files[rank].xxh3) + "\"}";
  }
  text += "],\n";
  return text + tail_of(text);
}

result<manifest> parse_manifest(std::string_view text) {
  const std::size_t tail_bytes = tail_of("").size();
  if (text.size() < tail_bytes) return errc::damaged;
  const std::string_view before = text.substr(0, text.size() - tail_bytes);
  if (text.substr(before.size()) != tail_of(before)) return errc::damaged;
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("format") || parsed["format"] != format) {
    return errc::damaged;
  }
  const auto written_version = number_in(parsed, "version");
  if (written_version && *written_version > newest_version) return errc::version_mismatch;
  // Up to version 2 it had another name.
  const char* const generation_key = parsed.contains("generation") ? "generation" : "tenure";
  manifest content;
  for (const auto& [key, value] : {std::pair{generation_key, &content.info.generation},
                                   {"step", &content.info.step},
                                   {"epoch", &content.info.epoch},
                                   {"instance", &content.info.instance},
                                   {"round", &content.info.round}}) {
    const auto number = number_in(parsed, key);
    if (!number) return errc::damaged;
    *value = *number;
  }
  content.info.is_emergency = parsed.contains("emergency") && parsed["emergency"] == true;
  content.info.tells_progress = parsed.contains("progress") && parsed["progress"] == true;
  content.has_pieces = parsed.contains("pieces") && parsed["pieces"] == true;
  if (!parsed.contains("files") || !parsed["files"].is_array()) return errc::damaged;
  for (const json& file : parsed["files"]) {
    const auto record = record_in(file);
    if (!record) return errc::damaged;
    content.files.push_back(*record);
  }
  if (content.files.empty()) return errc::damaged;  // every job has a rank 0
  if (parsed.contains("replicated")) {
    auto ranks = ranks_in(parsed["replicated"], content.files.size());
    if (!ranks) return errc::damaged;
    content.replicated = std::move(*ranks);
  }
  return content;
}

}  // namespace ddprun::worker
