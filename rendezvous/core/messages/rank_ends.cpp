#include "rendezvous/core/messages/rank_ends.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace ddprun {

std::string_view to_string(ending value) {
  switch (value) {
    case ending::failed:
      return "failed";
    case ending::effect:
      return "effect";
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
  if (values.size() + read.size() > ends_max) return false;
  values.insert(values.end(), read.begin(), read.end());
  return true;
}

std::vector<ended_ranks> merged(std::vector<ended_ranks> parts) {
  std::sort(parts.begin(), parts.end(), [](const ended_ranks& one, const ended_ranks& other) {
    return std::tuple(one.how, one.first, one.last) <
           std::tuple(other.how, other.first, other.last);
  });
  std::vector<ended_ranks> whole;
  for (const ended_ranks& part : parts) {
    const bool goes_on = !whole.empty() && whole.back().how == part.how &&
                         std::uint64_t{part.first} <= std::uint64_t{whole.back().last} + 1;
    if (goes_on) {
      whole.back().last = std::max(whole.back().last, part.last);
    } else if (whole.size() < ends_max) {
      whole.push_back(part);
    }
  }
  return whole;
}

}  // namespace ddprun
