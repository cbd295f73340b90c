#include "worker/snapshot_format.hpp"

#include "worker/checksum.hpp"

#include <algorithm>
#include <charconv>

namespace ddprun::worker {
namespace {

constexpr std::string_view magic = "DDPRSNAP";
constexpr std::uint32_t format_version = 1;
constexpr std::string_view name_prefix = "snapshot-";
constexpr std::string_view name_suffix = ".ddprun";
constexpr std::string_view claim_prefix = "claim-";
constexpr std::size_t name_digits = 6;  // at least, so that `ls` sorts short runs well

template <typename Number>
void append_number(std::string& bytes, Number value) {
  for (std::size_t byte = 0; byte < sizeof value; ++byte) {
    bytes.push_back(static_cast<char>((value >> (8 * byte)) & 0xff));
  }
}

template <typename Number>
Number number_at(std::string_view bytes, std::size_t offset) {
  Number value = 0;
  for (std::size_t byte = 0; byte < sizeof value; ++byte) {
    value |= static_cast<Number>(static_cast<unsigned char>(bytes[offset + byte])) << (8 * byte);
  }
  return value;
}

std::string padded(std::uint64_t value) {
  const std::string digits = std::to_string(value);
  return std::string(name_digits - std::min(name_digits, digits.size()), '0') + digits;
}

std::optional<std::uint64_t> parse_padded(std::string_view digits) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, failure] = std::from_chars(digits.data(), end, value);
  // Only what `padded` writes: no two names may mean the same.
  if (failure != std::errc{} || rest != end || padded(value) != digits) return std::nullopt;
  return value;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::string encode_snapshot_header(const snapshot_info& info, std::string_view payload) {
  std::string bytes;
  bytes.reserve(snapshot_header_bytes);
  bytes += magic;
  append_number(bytes, format_version);
  append_number(bytes, std::uint32_t{0});
  append_number(bytes, info.tenure);
  append_number(bytes, info.instance);
  append_number(bytes, info.round);
  append_number(bytes, info.step);
  append_number(bytes, info.epoch);
  append_number(bytes, std::uint64_t{payload.size()});
  append_number(bytes, crc32c(payload));
  append_number(bytes, crc32c(bytes));
  return bytes;
}

result<snapshot_info> check_snapshot_head(std::string_view head, std::uint64_t file_bytes) {
  if (head.size() < snapshot_header_bytes || !head.starts_with(magic)) return errc::damaged;
  if (crc32c(head.substr(0, 68)) != number_at<std::uint32_t>(head, 68)) return errc::damaged;
  if (number_at<std::uint32_t>(head, 8) != format_version) return errc::version_mismatch;
  if (file_bytes - snapshot_header_bytes != number_at<std::uint64_t>(head, 56)) {
    return errc::damaged;
  }
  snapshot_info info;
  info.tenure = number_at<std::uint64_t>(head, 16);
  info.instance = number_at<std::uint64_t>(head, 24);
  info.round = number_at<std::uint64_t>(head, 32);
  info.step = number_at<std::uint64_t>(head, 40);
  info.epoch = number_at<std::uint64_t>(head, 48);
  return info;
}

result<snapshot_info> check_snapshot(std::string_view file) {
  const auto info = check_snapshot_head(file, file.size());
  if (!info) return info.error();
  const std::string_view payload = file.substr(snapshot_header_bytes);
  if (crc32c(payload) != number_at<std::uint32_t>(file, 64)) return errc::damaged;
  return info;
}

std::string snapshot_name(snapshot_order order) {
  return std::string(name_prefix) + padded(order.tenure) + "-" + padded(order.step) +
         std::string(name_suffix);
}

std::optional<snapshot_order> parse_snapshot_name(std::string_view name) {
  if (!take_prefix(name, name_prefix) || !name.ends_with(name_suffix)) return std::nullopt;
  name.remove_suffix(name_suffix.size());
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto tenure = parse_padded(name.substr(0, dash));
  const auto step = parse_padded(name.substr(dash + 1));
  if (!tenure || !step || *tenure > tenure_limit) return std::nullopt;
  return snapshot_order{*tenure, *step};
}

std::string claim_name(std::uint64_t tenure) {
  return std::string(claim_prefix) + padded(tenure);
}

std::optional<std::uint64_t> parse_claim_name(std::string_view name) {
  if (!take_prefix(name, claim_prefix)) return std::nullopt;
  const auto tenure = parse_padded(name);
  return tenure && *tenure <= tenure_limit ? tenure : std::nullopt;
}

}  // namespace ddprun::worker
