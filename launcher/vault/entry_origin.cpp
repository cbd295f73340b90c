#include "launcher/vault/entry_origin.hpp"

#include "launcher/base/text.hpp"
#include "launcher/vault/next_word.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

constexpr std::string_view first_of_origins = "ddprun vault origins 1";
constexpr std::string_view not_known = "-";
constexpr std::size_t round_bytes_max = 64;

bool is_round(std::string_view text) {
  return !text.empty() && text.size() <= round_bytes_max &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '-';
         });
}

bool read_origin_line(std::string_view line, origin_record& record) {
  const std::string_view what = next_word(line);
  if (what == "now") {
    auto from = take_origin(line);
    if (!from || !line.empty()) return false;
    record.now = std::move(*from);
    return true;
  }
  const auto of = whole_number<std::uint32_t>(next_word(line));
  const auto order = whole_number<std::int64_t>(next_word(line));
  auto from = take_origin(line);
  if (what != "of" || !of || !order || !from || !is_safe_path(line)) return false;
  record.known[{*of, {*order, std::string(line)}}] = std::move(*from);
  return true;
}

}  // namespace

std::string to_text(const origin& from) {
  return std::to_string(from.nodes) + " " +
         (from.round.empty() ? std::string(not_known) : from.round);
}

std::optional<origin> take_origin(std::string_view& line) {
  const auto nodes = whole_number<std::uint32_t>(next_word(line));
  const std::string_view round = next_word(line);
  if (!nodes || !is_round(round) || (*nodes == 0) != (round == not_known)) return std::nullopt;
  return origin{round == not_known ? std::string() : std::string(round), *nodes};
}

origin origin_record::of(const owned_version& which) const {
  const auto found = known.find(which);
  return found == known.end() ? now : found->second;
}

std::string to_text(const origin_record& record) {
  std::string text = std::string(first_of_origins) + "\nnow " + to_text(record.now) + "\n";
  for (const auto& [which, from] : record.known) {
    text += "of " + std::to_string(which.of) + " " + std::to_string(which.what.order) + " " +
            to_text(from) + " " + which.what.name + "\n";
  }
  return text;
}

origin_record parse_origins(std::string_view text) {
  if (!text.ends_with('\n')) return {};
  text.remove_suffix(1);
  origin_record record;
  bool is_first = true;
  for (const std::string_view line : split(text, '\n')) {
    const bool is_read = is_first ? line == first_of_origins : read_origin_line(line, record);
    if (!is_read) return {};
    is_first = false;
  }
  return record;
}

}  // namespace ddprun::launcher::vault
