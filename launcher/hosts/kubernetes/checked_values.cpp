#include "launcher/hosts/kubernetes/checked_values.hpp"

#include "launcher/hosts/kubernetes/ascii.hpp"
#include "rendezvous/base/utf8.hpp"

#include <algorithm>
#include <array>

namespace ddprun::launcher::kubernetes {
namespace {

constexpr std::size_t label_max = 63;

bool is_label(std::string_view text) {
  const auto is_end = [](char c) { return is_small_letter(c) || is_digit(c); };
  return !text.empty() && text.size() <= label_max && is_end(text.front()) && is_end(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return is_end(c) || c == '-'; });
}

struct quantity {
  bool is_number = false;
  bool is_zero = true;
  std::string_view suffix;
};

quantity split_quantity(std::string_view text) {
  quantity found;
  std::size_t at = 0;
  std::size_t digits = 0;
  std::size_t points = 0;
  for (; at < text.size() && (is_digit(text[at]) || text[at] == '.'); ++at) {
    if (text[at] == '.') {
      ++points;
    } else {
      ++digits;
      if (text[at] != '0') found.is_zero = false;
    }
  }
  found.is_number = digits > 0 && points <= 1;
  found.suffix = text.substr(at);
  return found;
}

cli::usage_error no_amount(std::string_view given, std::string_view examples) {
  return cli::wrong(given, "not an amount that Kubernetes knows; write " + std::string(examples));
}

}  // namespace

cli::parsed<std::string> read_label(std::string_view given, std::string_view text) {
  if (is_label(text)) return {boost::system::in_place_value, text};
  return cli::wrong(given,
                    "Kubernetes takes 1 to 63 small letters, digits and '-', which neither begin "
                    "nor end with '-'");
}

cli::parsed<std::string> read_service_name(std::string_view given, std::string_view text) {
  if (is_label(text) && is_small_letter(text.front())) return {boost::system::in_place_value, text};
  return cli::wrong(given,
                    "Kubernetes takes 1 to 63 small letters, digits and '-', which begin with a "
                    "letter and do not end with '-'");
}

cli::parsed<std::string> read_processors(std::string_view given, std::string_view text) {
  const quantity found = split_quantity(text);
  if (!found.is_number || (!found.suffix.empty() && found.suffix != "m"))
    return no_amount(given, "processors as 8, 0.5 or 500m");
  if (found.is_zero) return cli::wrong(given, "a pod needs a share of a processor");
  return {boost::system::in_place_value, text};
}

cli::parsed<std::string> read_bytes(std::string_view given, std::string_view text) {
  static constexpr std::array suffixes = {"",   "k",  "M",  "G",  "T",  "P", "E",
                                          "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  static constexpr std::array others = {"m", "b",  "g", "gb", "kb", "mb",
                                        "t", "tb", "K", "MB", "GB", "TB"};
  const quantity found = split_quantity(text);
  const auto is_one_of = [&](const auto& list) {
    return std::find(list.begin(), list.end(), found.suffix) != list.end();
  };
  const std::string number(text.substr(0, text.size() - found.suffix.size()));
  if (found.is_number && found.suffix == "m") {
    return cli::wrong(given, "that is " + number + " thousandths of a byte to Kubernetes; write " +
                                 number + "Mi");
  }
  if (found.is_number && is_one_of(others) && !is_one_of(suffixes)) {
    std::string letter(1, found.suffix.front());
    if (is_small_letter(letter[0])) letter[0] = static_cast<char>(letter[0] - 'a' + 'A');
    return no_amount(given, letter == "B" ? number : number + letter + "i");
  }
  if (!found.is_number || !is_one_of(suffixes))
    return no_amount(given, "bytes as 64Gi, 512Mi or 500M");
  if (found.is_zero) return cli::wrong(given, "a pod needs at least one byte");
  return {boost::system::in_place_value, text};
}

cli::parsed<std::pair<std::string, std::string>> read_variable(std::string_view given,
                                                               std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return cli::wrong(given, "write NAME=VALUE");
  const std::string_view name = text.substr(0, equals);
  const bool is_good = !is_digit(name.front()) && std::all_of(name.begin(), name.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.';
  });
  if (!is_good) {
    return cli::wrong(given,
                      "a variable's name has letters, digits, '_', '-' and '.', and begins with no "
                      "digit");
  }
  if (!is_valid_utf8(text)) return cli::wrong(given, "a manifest is UTF-8, and this is not");
  return std::pair(std::string(name), std::string(text.substr(equals + 1)));
}

cli::parsed<std::string> read_image(std::string_view given, std::string_view text) {
  const bool is_good = !text.empty() && text.front() != '-' && is_valid_utf8(text) &&
                       std::all_of(text.begin(), text.end(), [](char c) { return c > ' '; });
  if (is_good) return {boost::system::in_place_value, text};
  return cli::wrong(given, "write an image's name, as registry.example.org/train:1");
}

std::string without_expansion(std::string_view text) {
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '$') {
      made += text[at++];
      continue;
    }
    const std::size_t end = std::min(text.find_first_not_of('$', at), text.size());
    const bool is_seen = end - at > 1 || (end < text.size() && text[end] == '(');
    made.append((end - at) * (is_seen ? 2 : 1), '$');
    at = end;
  }
  return made;
}

}  // namespace ddprun::launcher::kubernetes
