#include "launcher/vault/vault_manifest.hpp"

#include "launcher/base/text.hpp"
#include "launcher/vault/entry_origin.hpp"
#include "launcher/vault/next_word.hpp"
#include "worker/snapshot/checksum.hpp"

#include <charconv>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

constexpr std::string_view first_line = "ddprun vault 1";

std::optional<std::uint64_t> hexadecimal(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

std::optional<kept_file> file_in(std::string_view line) {
  const auto size = whole_number<std::uint64_t>(next_word(line));
  const auto checksum = hexadecimal(next_word(line));
  const auto modified = whole_number<std::int64_t>(next_word(line));
  if (!size || !checksum || !modified || !is_safe_path(line)) return std::nullopt;
  return kept_file{std::string(line), *size, *checksum, *modified};
}

}  // namespace

std::string to_text(const manifest& written) {
  std::string text = std::string(first_line) + "\norder " + std::to_string(written.what.order) +
                     "\nname " + written.what.name + "\n";
  if (written.from.is_known()) text += "saved " + to_text(written.from) + "\n";
  for (const kept_file& one : written.files) {
    text += "file " + std::to_string(one.size) + " " + worker::checksum_text(one.checksum) + " " +
            std::to_string(one.modified_ns) + " " + one.path + "\n";
  }
  return text + "end " + worker::checksum_text(worker::checksum_of(text)) + "\n";
}

std::optional<manifest> parse_manifest(std::string_view text) {
  const std::size_t end = text.rfind("\nend ");
  if (end == std::string_view::npos || !text.ends_with('\n')) return std::nullopt;
  const std::string_view lines = text.substr(0, end + 1);
  const std::string_view sum = text.substr(end + 5, text.size() - end - 6);
  if (hexadecimal(sum) != worker::checksum_of(lines)) return std::nullopt;

  manifest read;
  std::size_t number = 0;
  for (std::string_view line : split(lines.substr(0, lines.size() - 1), '\n')) {
    if (number++ == 0) {
      if (line != first_line) return std::nullopt;
      continue;
    }
    const std::string_view what = next_word(line);
    if (number == 2) {
      const auto order = whole_number<std::int64_t>(line);
      if (what != "order" || !order) return std::nullopt;
      read.what.order = *order;
    } else if (number == 3) {
      if (what != "name" || !is_safe_path(line)) return std::nullopt;
      read.what.name = line;
    } else if (number == 4 && what == "saved") {
      auto from = take_origin(line);
      if (!from || !line.empty()) return std::nullopt;
      read.from = std::move(*from);
    } else {
      auto file = file_in(line);
      if (what != "file" || !file) return std::nullopt;
      read.files.push_back(std::move(*file));
    }
  }
  if (read.files.empty()) return std::nullopt;
  return read;
}

}  // namespace ddprun::launcher::vault
