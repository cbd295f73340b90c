#include "launcher/hosts/kubernetes/bar_progress.hpp"

#include "launcher/base/text.hpp"
#include "launcher/hosts/kubernetes/ascii.hpp"

#include <algorithm>

namespace ddprun::launcher::kubernetes {
namespace {

std::optional<std::uint64_t> number_before(std::string_view text, std::size_t end) {
  while (end > 0 && text[end - 1] == ' ')
    --end;
  std::size_t begin = end;
  while (begin > 0 && is_digit(text[begin - 1]))
    --begin;
  return whole_number<std::uint64_t>(text.substr(begin, end - begin));
}

// Reads "01:20" or "1:02:03"; empty for "?".
std::optional<std::uint64_t> clock_seconds(std::string_view text) {
  std::uint64_t seconds = 0;
  for (const std::string_view part : split(text, ':')) {
    const auto number = whole_number<std::uint64_t>(part);
    if (!number) return std::nullopt;
    seconds = seconds * 60 + *number;
  }
  return seconds;
}

std::optional<std::uint64_t> seconds_left(std::string_view behind) {
  const std::size_t less = behind.find('<');
  if (behind.find('[') < less && less != std::string_view::npos) {
    const std::string_view rest = behind.substr(less + 1);
    return clock_seconds(trimmed(rest.substr(0, rest.find_first_of(",]"))));
  }
  const std::size_t ours = behind.find(" s left");
  return ours == std::string_view::npos ? std::nullopt : number_before(behind, ours);
}

struct epochs {
  std::uint64_t current = 1;
  std::uint64_t all = 1;
};

// Reads "Epoch 3/10" or "epoch [3/10]"; one of one if there is no epoch.
epochs epochs_in(std::string_view front) {
  const auto is_same = [](char a, char b) { return to_small_letter(a) == b; };
  constexpr std::string_view word = "epoch";
  const auto at = std::search(front.begin(), front.end(), word.begin(), word.end(), is_same);
  const auto slash = std::find(at, front.end(), '/');
  if (slash == front.end()) return {};
  const auto middle = static_cast<std::size_t>(slash - front.begin());
  const auto current = number_before(front, middle);
  const auto all = leading_number<std::uint64_t>(front.substr(middle + 1));
  if (!current || !all || *current < 1 || *all < *current) return {};
  return {*current, *all};
}

std::optional<bar_progress> read_bar(std::string_view line) {
  const std::size_t sign = line.find('%');
  if (sign == std::string_view::npos) return std::nullopt;
  const std::string_view behind = line.substr(sign + 1);
  // "45%|####" of tqdm, "]  45 % |" of ours; other percentages are not progress.
  const bool is_bar = behind.starts_with('|') ||
                      (behind.starts_with(" |") && line.substr(0, sign).find("] ") != line.npos);
  const auto percent = number_before(line, sign);
  if (!is_bar || !percent || *percent > 100) return std::nullopt;
  const epochs here = epochs_in(line.substr(0, sign));
  bar_progress found;
  found.percent = static_cast<std::uint32_t>(((here.current - 1) * 100 + *percent) / here.all);
  if (here.all == 1) found.seconds = seconds_left(behind);
  return found;
}

}  // namespace

std::optional<bar_progress> find_bar(std::string_view words) {
  std::optional<bar_progress> last;
  for (const std::string_view line : split(words, '\n')) {
    if (const auto found = read_bar(line)) last = found;
  }
  return last;
}

}  // namespace ddprun::launcher::kubernetes
