#include "launcher/log/library_frames.hpp"

#include "launcher/base/library_file.hpp"
#include "launcher/base/rank_mark.hpp"

namespace ddprun::launcher {
namespace {

// Returns the file of ` File "train.py", line 31, in step`; empty for other lines.
std::string_view file_in(std::string_view line) {
  constexpr std::string_view begin = "  File \"";
  if (!line.starts_with(begin)) return {};
  line.remove_prefix(begin.size());
  const std::size_t end = line.find("\", line ");
  return end == std::string_view::npos ? std::string_view() : line.substr(0, end);
}

}  // namespace

bool library_frames::take(std::string_view line) {
  line = without_rank(line);
  has_begun_ = false;
  if (const std::string_view file = file_in(line); !file.empty()) {
    has_begun_ = is_within_ = is_library_file(file);
  } else if (!line.starts_with("    ")) {
    is_within_ = false;
  }
  return is_within_;
}

}  // namespace ddprun::launcher
