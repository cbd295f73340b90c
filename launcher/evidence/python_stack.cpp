#include "launcher/evidence/python_stack.hpp"

#include "launcher/base/library_file.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::size_t frame_name_bytes_max = 200;

std::optional<stack_frame> frame_of(std::string_view line) {
  constexpr std::string_view opening = "  File \"";
  constexpr std::string_view before_line = "\", line ";
  constexpr std::string_view before_name = " in ";
  if (!line.starts_with(opening)) return std::nullopt;
  line.remove_prefix(opening.size());
  const std::size_t file_end = line.rfind(before_line);
  if (file_end == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(file_end + before_line.size());
  stack_frame frame;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), frame.line);
  if (error != std::errc()) return std::nullopt;  // "???": the line is unknown
  const std::string_view name = rest.substr(static_cast<std::size_t>(end - rest.data()));
  if (!name.starts_with(before_name)) return std::nullopt;
  frame.file = line.substr(0, std::min(file_end, 4 * frame_name_bytes_max));
  frame.function = name.substr(before_name.size(), frame_name_bytes_max);
  return frame;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_of_torch(const stack_frame& frame, std::string_view folder) {
  return has(frame.file, std::string("/torch/") + std::string(folder));
}

// Frames of Python itself, or of installed packages.
bool is_of_library(const stack_frame& frame) {
  return frame.file.starts_with('<') || is_library_file(frame.file) ||
         is_of_torch(frame, "distributed/") || is_of_torch(frame, "autograd/");
}

std::string text_of_frame(const stack_frame& frame) {
  const std::size_t slash = frame.file.rfind('/');
  const std::string file = slash == std::string::npos ? frame.file : frame.file.substr(slash + 1);
  return frame.function + " (" + file + ":" + std::to_string(frame.line) + ")";
}

}  // namespace

std::vector<stack_frame> main_stack(std::string_view text) {
  std::vector<stack_frame> stack;
  bool is_current = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("Thread 0x") || line.starts_with("Current thread 0x")) {
      if (is_current) break;
      // The heading of a C stack (CPython 3.14) does not begin another thread.
      if (has(line, "C stack")) continue;
      is_current = line.starts_with("Current");
      stack.clear();
      continue;
    }
    const auto frame = frame_of(line);
    if (frame && stack.size() < frames_max) stack.push_back(*frame);
  }
  return stack;
}

standing standing_of(const std::vector<stack_frame>& stack) {
  standing found;
  if (stack.empty()) return found;
  const auto own = std::find_if_not(stack.begin(), stack.end(), is_of_library);
  for (auto frame = stack.begin(); frame != own; ++frame) {
    // The outermost frame of torch.distributed is the call that the script has made. Around it
    // there is only the logging wrapper.
    if (is_of_torch(*frame, "distributed/") && !frame->file.ends_with("/c10d_logger.py")) {
      found.waits_in = frame->function;
    }
  }
  const bool is_backward = stack.front().function == "_engine_run_backward";
  if (found.waits_in.empty() && is_backward) found.waits_in = "backward";
  found.place = text_of_frame(own == stack.end() ? stack.front() : *own);
  return found;
}

}  // namespace ddprun::launcher::evidence
