#include "rendezvous/core/messages/rank_ends.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace ddprun {

std::string_view to_string(ending value) {
  switch (value) {
    case ending::failed:
      return "failed";
    case ending::secondary:
      return "secondary";
    case ending::lost:
      return "lost";
    case ending::killed:
      return "killed";
    case ending::stopped:
      return "stopped";
    case ending::succeeded:
      return "succeeded";
  }
  return "unknown";
}

std::vector<std::string> to_texts(const std::vector<ended_ranks>& values) {
  std::vector<std::string> texts;
  const ended_ranks* before = nullptr;
  for (const ended_ranks& one : values) {
    if (before != nullptr && before->how == one.how) {
      texts.back() += ',';
    } else {
      texts.push_back(std::string(to_string(one.how)) + " ");
    }
    texts.back() += std::to_string(one.first);
    if (one.last != one.first) texts.back() += "-" + std::to_string(one.last);
    before = &one;
  }
  return texts;
}

bool read_ended_ranks(std::string_view text, std::vector<ended_ranks>& values) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return false;
  int how = 0;
  while (how <= static_cast<int>(ending::succeeded) &&
         to_string(static_cast<ending>(how)) != text.substr(0, blank))
    ++how;
  if (how > static_cast<int>(ending::succeeded)) return false;
  std::vector<ended_ranks> read;
  const char* const end = text.data() + text.size();
  // `at` is the separator before the next number.
  for (const char* at = text.data() + blank;;) {
    ended_ranks one;
    one.how = static_cast<ending>(how);
    const auto first = std::from_chars(at + 1, end, one.first);
    if (first.ec != std::errc()) return false;
    at = first.ptr;
    one.last = one.first;
    if (at != end && *at == '-') {
      const auto last = std::from_chars(at + 1, end, one.last);
      if (last.ec != std::errc() || one.last < one.first) return false;
      at = last.ptr;
    }
    read.push_back(one);
    if (at == end) break;
    if (*at != ',') return false;
  }
  // Added only now, so that a text that is refused changes nothing.
  if (values.size() + read.size() > ends_max) return false;
  values.insert(values.end(), read.begin(), read.end());
  return true;
}

std::string detail_text(const ended_ranks& value) {
  if (!value.after) return {};
  std::string text = std::to_string(value.after->first.count());
  if (value.after->last != value.after->first) {
    text += "-" + std::to_string(value.after->last.count());
  }
  if (value.code > 0) text += " exit " + std::to_string(value.code);
  if (value.code < 0) text += " signal " + std::to_string(-value.code);
  return text;
}

namespace {

// At most a year, which is longer than any round.
bool read_after(std::string_view& text, std::chrono::milliseconds& value) {
  constexpr std::int64_t most = std::int64_t{366} * 24 * 3600 * 1000;
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || number < 0 || number > most) return false;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  value = std::chrono::milliseconds(number);
  return true;
}

// " exit 1", " signal 6".
bool read_code(std::string_view text, int& value) {
  constexpr std::string_view exit = " exit ";
  constexpr std::string_view signal = " signal ";
  const bool is_signal = text.starts_with(signal);
  if (!is_signal && !text.starts_with(exit)) return false;
  text.remove_prefix((is_signal ? signal : exit).size());
  int number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return false;
  if (number < 1 || number > end_code_max) return false;
  value = is_signal ? -number : number;
  return true;
}

}  // namespace

bool read_detail(std::string_view text, ended_ranks& value) {
  if (text.empty()) return true;
  end_times after;
  int code = 0;
  if (!read_after(text, after.first)) return false;
  after.last = after.first;
  if (text.starts_with('-')) {
    text.remove_prefix(1);
    if (!read_after(text, after.last) || after.last < after.first) return false;
  }
  if (!text.empty() && !read_code(text, code)) return false;
  value.after = after;
  value.code = code;
  return true;
}

namespace {

// Keeps only what is known of both.
void join_details(ended_ranks& whole, const ended_ranks& part) {
  if (whole.after && part.after) {
    whole.after->first = std::min(whole.after->first, part.after->first);
    whole.after->last = std::max(whole.after->last, part.after->last);
  } else {
    whole.after.reset();
  }
  if (whole.code != part.code || !whole.after) whole.code = 0;
}

}  // namespace

std::vector<ended_ranks> merged(std::vector<ended_ranks> parts) {
  std::sort(parts.begin(), parts.end(), [](const ended_ranks& one, const ended_ranks& other) {
    return std::tuple(one.how, one.first, one.last) <
           std::tuple(other.how, other.first, other.last);
  });
  std::vector<ended_ranks> whole;
  for (const ended_ranks& part : parts) {
    // In 64 bits, because a peer may name the highest rank that there is.
    const bool goes_on = !whole.empty() && whole.back().how == part.how &&
                         std::uint64_t{part.first} <= std::uint64_t{whole.back().last} + 1;
    if (goes_on) {
      whole.back().last = std::max(whole.back().last, part.last);
      join_details(whole.back(), part);
    } else if (whole.size() < ends_max) {
      whole.push_back(part);
    }
  }
  return whole;
}

}  // namespace ddprun
