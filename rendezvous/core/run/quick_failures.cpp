#include "rendezvous/core/run/quick_failures.hpp"

#include "rendezvous/core/messages/cause.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace ddprun::core {
namespace {

bool is_of_word(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0;
}

// With a mark for each word that has a digit: "step 1200 at 0x7f2a" and "step 7 at 0x55c0" are one.
std::string without_numbers(std::string_view text) {
  std::string made;
  while (!text.empty()) {
    const auto end = std::find_if_not(text.begin(), text.end(), is_of_word);
    const std::string_view word = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    const bool has_digit = std::any_of(
        word.begin(), word.end(), [](unsigned char letter) { return std::isdigit(letter) != 0; });
    made += has_digit ? std::string_view("#") : word;
    text.remove_prefix(word.size());
    if (text.empty()) break;
    made += text.front();
    text.remove_prefix(1);
  }
  return made;
}

// An exception ends a worker, whether it was still on its way out or not.
cause_class kind_of(const cause& value) {
  return value.was_failing ? cause_class::exit : value.kind;
}

}  // namespace

bool is_same_failure(const cause& one, const cause& other) {
  return kind_of(one) == kind_of(other) && exit_code_of(one) == exit_code_of(other) &&
         without_numbers(one.text) == without_numbers(other.text);
}

bool is_failure_of_its_own(const cause& why) {
  const bool is_ours = why.by_our_stop && !why.was_failing;
  return is_charged_as_restart(why.kind) && !why.is_effect && !is_ours;
}

void quick_failures::add(const cause& first, duration after, const std::string& node,
                         bool all_failed) {
  ++in_row_;
  if (!is_failure_of_its_own(first)) {
    forget_alike();
    return;
  }
  const bool is_same = last_ && is_same_failure(*last_, first);
  same_ = is_same ? same_ + 1 : 1;
  all_failed_ = all_failed ? all_failed_ + 1 : 0;
  const bool goes_on = alike() > 1;
  longest_ = goes_on ? std::max(longest_, after) : after;
  if (!goes_on) {
    node_ = node;
  } else if (node_ != node || all_failed) {
    node_.clear();
  }
  last_ = first;
}

void quick_failures::forget_alike() {
  const std::uint32_t in_row = in_row_;
  *this = {};
  in_row_ = in_row;
}

duration quick_failures::within() const {
  const duration second = std::chrono::seconds(1);
  return std::max(second, (longest_ + second - duration(1)) / second * second);
}

duration quick_failures::pause(duration most) const {
  if (in_row_ < 2) return duration::zero();
  duration length = first_pause;
  for (std::uint32_t index = 2; index < in_row_ && length < most; ++index)
    length *= 2;
  return std::min(length, most);
}

}  // namespace ddprun::core
