#include "launcher/hosts/ssh/order.hpp"

#include "launcher/base/text.hpp"

#include <cerrno>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

constexpr std::string_view order_mark = "ddprun-order 1 ";
constexpr std::size_t first_line_bytes_max = 64;

void put(std::string& to, std::string_view field) {
  to.append(field.data(), field.size());
  to += '\0';
}

std::optional<std::string_view> take_field(std::string_view& from) {
  const std::size_t end = from.find('\0');
  if (end == std::string_view::npos) return {};
  const std::string_view field = from.substr(0, end);
  from.remove_prefix(end + 1);
  return field;
}

bool read_exactly(int descriptor, char* to, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t count = ::read(descriptor, to, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    to += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

// Reads byte by byte, because what follows the line is for another reader.
std::optional<std::string> read_first_line(int descriptor) {
  std::string line;
  while (line.size() < first_line_bytes_max) {
    char next = 0;
    if (!read_exactly(descriptor, &next, 1)) return {};
    if (next == '\n') return line;
    line += next;
  }
  return {};
}

}  // namespace

std::string encode(const order& what) {
  std::string fields;
  put(fields, what.directory);
  put(fields, std::to_string(what.words.size()));
  for (const std::string& word : what.words)
    put(fields, word);
  for (const std::string& entry : to_entries(what.variables))
    put(fields, entry);
  return std::string(order_mark) + std::to_string(fields.size()) + "\n" + fields;
}

std::optional<order> decode_fields(std::string_view fields) {
  order read;
  const auto directory = take_field(fields);
  const auto words = directory ? take_field(fields) : std::nullopt;
  const auto count = words ? whole_number<std::size_t>(*words) : std::nullopt;
  if (!count) return {};
  read.directory = *directory;
  for (std::size_t index = 0; index < *count; ++index) {
    const auto word = take_field(fields);
    if (!word) return {};
    read.words.emplace_back(*word);
  }
  while (!fields.empty()) {
    const auto entry = take_field(fields);
    const std::size_t equals = entry ? entry->find('=') : std::string_view::npos;
    if (equals == std::string_view::npos || equals == 0) return {};
    read.variables.emplace(entry->substr(0, equals), entry->substr(equals + 1));
  }
  return read;
}

std::optional<order> read_order(int descriptor) {
  const auto line = read_first_line(descriptor);
  if (!line || !line->starts_with(order_mark)) return {};
  const auto bytes = whole_number<std::size_t>(std::string_view(*line).substr(order_mark.size()));
  if (!bytes || *bytes > order_bytes_max) return {};
  std::string fields(*bytes, '\0');
  if (!read_exactly(descriptor, fields.data(), fields.size())) return {};
  return decode_fields(fields);
}

}  // namespace ddprun::launcher::ssh
