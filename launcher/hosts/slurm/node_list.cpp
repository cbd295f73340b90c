#include "launcher/hosts/slurm/node_list.hpp"

#include "launcher/base/text.hpp"

#include <algorithm>

namespace ddprun::launcher::slurm {
namespace {

bool is_decimal(char character) {
  return character >= '0' && character <= '9';
}

std::size_t count_digits(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_decimal) -
                                  text.begin());
}

// Reads all of `text` as digits.
template <typename Number>
std::optional<Number> read_number(std::string_view text) {
  if (text.empty() || !is_decimal(text.front())) return {};  // "-1" is not accepted
  return whole_number<Number>(text);
}

// Splits `text` at separators outside of brackets.
std::vector<std::string_view> split_outside_brackets(std::string_view text,
                                                     std::string_view separators) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  std::size_t depth = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const bool is_end = at == text.size();
    if (!is_end && text[at] == '[') ++depth;
    if (!is_end && text[at] == ']' && depth > 0) --depth;
    if (!is_end && (depth > 0 || separators.find(text[at]) == std::string_view::npos)) continue;
    parts.push_back(text.substr(start, at - start));
    start = at + 1;
  }
  return parts;
}

// Expands "3" or "001-010"; the first number decides the width.
bool expand_range(std::string_view range, std::vector<std::string>& numbers) {
  const std::size_t hyphen = range.find('-');
  const std::string_view first_text = range.substr(0, hyphen);
  const std::string_view last_text =
      hyphen == std::string_view::npos ? first_text : range.substr(hyphen + 1);
  const auto first = read_number<std::uint64_t>(first_text);
  const auto last = read_number<std::uint64_t>(last_text);
  if (!first || !last || *last < *first || *last - *first >= names_max - numbers.size())
    return false;
  for (std::uint64_t number = *first; number <= *last; ++number) {
    std::string digits = std::to_string(number);
    if (digits.size() < first_text.size()) digits.insert(0, first_text.size() - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
  return true;
}

// Expands the text between brackets.
std::optional<std::vector<std::string>> expand_ranges(std::string_view ranges) {
  std::vector<std::string> numbers;
  for (const std::string_view range : split_outside_brackets(ranges, ",")) {
    if (!expand_range(range, numbers)) return {};
  }
  return numbers;
}

// Combines each name with each ending.
bool multiply(std::vector<std::string>& names, const std::vector<std::string>& endings) {
  if (names.size() * endings.size() > names_max) return false;
  std::vector<std::string> longer;
  longer.reserve(names.size() * endings.size());
  for (const std::string& name : names) {
    for (const std::string& ending : endings)
      longer.push_back(name + ending);
  }
  names = std::move(longer);
  return true;
}

// Expands "r[1-2]n[01-16]"; the last bracket varies fastest.
std::optional<std::vector<std::string>> expand_name(std::string_view name) {
  std::vector<std::string> names = {""};
  while (!name.empty()) {
    const std::size_t open = name.find('[');
    const std::string_view plain = name.substr(0, open);
    if (plain.find(']') != std::string_view::npos) return {};
    for (std::string& each : names)
      each += plain;
    if (open == std::string_view::npos) break;
    const std::size_t close = name.find(']', open);
    if (close == std::string_view::npos) return {};
    const auto numbers = expand_ranges(name.substr(open + 1, close - open - 1));
    if (!numbers || !multiply(names, *numbers)) return {};
    name.remove_prefix(close + 1);
  }
  return names;
}

// Removes leading zeros: "0007" is 7, however long it is.
std::string_view without_zeros(std::string_view digits) {
  const std::size_t first = digits.find_first_not_of('0');
  return first == std::string_view::npos ? std::string_view() : digits.substr(first);
}

}  // namespace

std::optional<std::vector<std::string>> expand_node_list(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view part : split_outside_brackets(list, ", ")) {
    if (part.empty()) continue;
    const auto more = expand_name(part);
    if (!more || names.size() + more->size() > names_max) return {};
    names.insert(names.end(), more->begin(), more->end());
  }
  return names;
}

std::optional<std::vector<std::uint32_t>> expand_counts(std::string_view list) {
  std::vector<std::uint32_t> counts;
  for (const std::string_view part : split_outside_brackets(list, ",")) {
    const std::size_t digits = count_digits(part);
    const auto count = read_number<std::uint32_t>(part.substr(0, digits));
    std::optional<std::uint32_t> times = 1;
    if (digits != part.size()) {
      const bool is_repeated = part.substr(digits).starts_with("(x") && part.ends_with(')');
      if (!is_repeated) return {};
      times = read_number<std::uint32_t>(part.substr(digits + 2, part.size() - digits - 3));
    }
    if (!count || !times || *times > names_max - counts.size()) return {};
    counts.insert(counts.end(), *times, *count);
  }
  return counts;
}

bool is_before(std::string_view left, std::string_view right) {
  std::string_view rest_left = left;
  std::string_view rest_right = right;
  while (!rest_left.empty() && !rest_right.empty()) {
    const std::size_t digits_left = count_digits(rest_left);
    const std::size_t digits_right = count_digits(rest_right);
    if (digits_left > 0 && digits_right > 0) {
      const std::string_view number_left = without_zeros(rest_left.substr(0, digits_left));
      const std::string_view number_right = without_zeros(rest_right.substr(0, digits_right));
      if (number_left.size() != number_right.size())
        return number_left.size() < number_right.size();
      if (number_left != number_right) return number_left < number_right;
      rest_left.remove_prefix(digits_left);
      rest_right.remove_prefix(digits_right);
    } else {
      if (rest_left.front() != rest_right.front()) return rest_left.front() < rest_right.front();
      rest_left.remove_prefix(1);
      rest_right.remove_prefix(1);
    }
  }
  if (rest_left.size() != rest_right.size()) return rest_left.size() < rest_right.size();
  return left < right;  // n1 and n01 are different names
}

}  // namespace ddprun::launcher::slurm
