#include "worker/snapshot/names.hpp"

#include <algorithm>
#include <charconv>

namespace ddprun::worker {
namespace {

constexpr std::string_view snapshot_prefix = "snapshot-";
constexpr std::string_view claim_prefix = "claim-";
constexpr std::string_view resumed_prefix = "resumed-";
constexpr std::string_view old_suffix = ".ddprun";
constexpr std::size_t digits = 6;
constexpr std::size_t rank_digits = 5;
constexpr std::string_view rank_prefix = "rank-";
constexpr std::string_view rank_suffix = ".safetensors";

std::string padded(std::uint64_t value, std::size_t width = digits) {
  const std::string text = std::to_string(value);
  return std::string(width - std::min(width, text.size()), '0') + text;
}

std::optional<std::uint64_t> parse_padded(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, value);
  // Accept only what `padded` writes, so that no two names mean the same.
  if (failure != std::errc{} || rest != end || padded(value) != text) return std::nullopt;
  return value;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<std::uint64_t> parse_generation(std::string_view name, std::string_view prefix) {
  if (!take_prefix(name, prefix)) return std::nullopt;
  const auto generation = parse_padded(name);
  return generation && *generation <= generation_limit ? generation : std::nullopt;
}

}  // namespace

std::string snapshot_name(snapshot_order order) {
  return std::string(snapshot_prefix) + padded(order.generation) + "-" + padded(order.step);
}

std::optional<snapshot_order> parse_snapshot_name(std::string_view name) {
  if (!take_prefix(name, snapshot_prefix)) return std::nullopt;
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto generation = parse_padded(name.substr(0, dash));
  const auto step = parse_padded(name.substr(dash + 1));
  if (!generation || !step || *generation > generation_limit) return std::nullopt;
  return snapshot_order{*generation, *step};
}

std::string claim_name(std::uint64_t generation) {
  return std::string(claim_prefix) + padded(generation);
}

std::optional<std::uint64_t> parse_claim_name(std::string_view name) {
  return parse_generation(name, claim_prefix);
}

std::string resumed_name(std::uint64_t generation) {
  return std::string(resumed_prefix) + padded(generation);
}

std::optional<std::uint64_t> parse_resumed_name(std::string_view name) {
  return parse_generation(name, resumed_prefix);
}

std::string rank_file_name(std::uint32_t rank) {
  return std::string(rank_prefix) + padded(rank, rank_digits) + std::string(rank_suffix);
}

bool is_name_in_snapshot(std::string_view name) {
  return (name.starts_with(rank_prefix) && name.ends_with(rank_suffix)) || name == manifest_name ||
         name == std::string(manifest_name) + std::string(temporary_suffix) ||
         name == std::string(manifest_name) + std::string(survivors_temporary_suffix) ||
         name == survivors_file_name || name == index_name || parse_resumed_name(name);
}

bool is_name_of_old_format(std::string_view name) {
  if (!name.ends_with(old_suffix)) return false;
  name.remove_suffix(old_suffix.size());
  return parse_snapshot_name(name).has_value();
}

}  // namespace ddprun::worker
