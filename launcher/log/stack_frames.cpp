#include "launcher/log/stack_frames.hpp"

#include "launcher/base/rank_mark.hpp"
#include "launcher/base/text.hpp"

#include <utility>

namespace ddprun::launcher {

std::optional<std::uint32_t> stack_frame_in(std::string_view line) {
  line = without_rank(line);
  constexpr std::string_view begin = "frame #";
  if (!line.starts_with(begin)) return std::nullopt;
  line.remove_prefix(begin.size());
  const std::size_t colon = line.find(": ");
  return colon == std::string_view::npos ? std::nullopt
                                         : whole_number<std::uint32_t>(line.substr(0, colon));
}

stack_frames::what stack_frames::take(std::string_view line) {
  const std::optional<std::uint32_t> number = stack_frame_in(line);
  const bool goes_on = number && is_within_ && *number > last_;
  if (!goes_on) {
    told_ += left_out();
    count_ = 0;
  }
  is_within_ = number.has_value();
  if (!number) return what::keep;
  last_ = *number;
  if (*number < stack_frames_kept) return what::keep;
  if (count_++ == 0) first_ = *number;
  return what::leave_out;
}

std::string stack_frames::left_out() const {
  if (count_ == 0) return {};
  return "frame #" + std::to_string(first_) + " to #" + std::to_string(last_) + ": " +
         std::to_string(count_) + (count_ == 1 ? " frame is" : " frames are") + " left out\n";
}

std::string stack_frames::take_left_out() {
  return std::exchange(told_, {});
}

}  // namespace ddprun::launcher
