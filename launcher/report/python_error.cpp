#include "launcher/report/python_error.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace ddprun::launcher {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}

// Without PyTorch's "[rank3]: ".
std::string_view without_rank(std::string_view line) {
  constexpr std::string_view begin = "[rank";
  if (!line.starts_with(begin)) return line;
  std::size_t at = begin.size();
  while (at < line.size() && is_digit(line[at]))
    ++at;
  if (at == begin.size() || !line.substr(at).starts_with("]:")) return line;
  line.remove_prefix(at + 2);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

// Without what draws the tree of an ExceptionGroup: "    | ", "  + ".
std::string_view without_tree(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos || begin + 1 >= line.size()) return line;
  const bool is_tree = (line[begin] == '|' || line[begin] == '+') && line[begin + 1] == ' ';
  return is_tree ? line.substr(begin + 2) : line;
}

// "+---------------- 1 ----------------": the parts of a group are told one after the other.
bool parts_group(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin != std::string_view::npos && line.substr(begin).starts_with("+-");
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(without_tree(without_rank(line)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool is_head(std::string_view line) {
  return line == "Traceback (most recent call last):" ||
         line == "Exception Group Traceback (most recent call last):";
}

// What stands above a traceback of something that did not end the process.
bool is_aside(std::string_view line) {
  for (const std::string_view begin :
       {"Exception ignored", "Exception in thread", "Exception in callback", "Error in atexit",
        "Error in sys.excepthook", "--- Logging error"}) {
    if (line.starts_with(begin)) return true;
  }
  return false;
}

// "Process SpawnProcess-1:", of multiprocessing.
bool is_of_child(std::string_view line) {
  return line.starts_with("Process ") && line.ends_with(":");
}

bool joins_errors(std::string_view line) {
  return line.starts_with("During handling of the above exception") ||
         line.starts_with("The above exception was the direct cause");
}

bool is_users_file(std::string_view file) {
  if (file.starts_with('<')) return false;  // <frozen importlib._bootstrap>
  for (const std::string_view part : {"/site-packages/", "/dist-packages/", "/lib/python3"}) {
    if (file.find(part) != std::string_view::npos) return false;
  }
  return true;
}

// `  File "train.py", line 31, in step`; of a syntax error without the last part.
std::optional<python_frame> frame_in(std::string_view line) {
  constexpr std::string_view begin = "  File \"";
  constexpr std::string_view middle = "\", line ";
  if (!line.starts_with(begin)) return {};
  line.remove_prefix(begin.size());
  const std::size_t end = line.find(middle);
  if (end == std::string_view::npos) return {};
  const std::string_view file = line.substr(0, end);
  line.remove_prefix(end + middle.size());
  const std::size_t digits =
      static_cast<std::size_t>(std::find_if_not(line.begin(), line.end(), is_digit) - line.begin());
  if (digits == 0) return {};
  python_frame frame;
  frame.place = std::string(file) + ":" + std::string(line.substr(0, digits));
  line.remove_prefix(digits);
  if (line.starts_with(", in ")) frame.place += " in " + std::string(line.substr(5));
  frame.is_users = is_users_file(file);
  return frame;
}

// "torch.cuda.OutOfMemoryError: CUDA out of memory", "KeyboardInterrupt": a name with a capital in
// its last part, alone or before a colon; below frames any name ("struct.error: ...").
bool is_exception(std::string_view line, bool is_below_frames) {
  const std::size_t end = static_cast<std::size_t>(
      std::find_if_not(line.begin(), line.end(), is_of_name) - line.begin());
  if (end == 0 || (end < line.size() && line[end] != ':')) return false;
  if (is_below_frames) return true;
  const std::string_view name = line.substr(0, end);
  const std::size_t dot = name.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  return !last.empty() && last[0] >= 'A' && last[0] <= 'Z';
}

std::string_view without_indent(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

}  // namespace

std::vector<python_error> find_python_errors(std::string_view text) {
  enum class kind { own, child, aside };
  std::vector<python_error> chain, of_child;
  python_error open;       // its exception has not come yet
  kind whose = kind::own;  // of the traceback that is open
  bool is_within = false;  // a traceback
  bool is_joined = false;  // the next one goes on with the chain
  bool is_last_error = false;
  std::string_view above;
  for (const std::string_view line : lines_of(text)) {
    if (is_head(line)) {
      open = {};
      is_within = true;
      if (!is_joined) {
        whose = is_aside(above) ? kind::aside : is_of_child(above) ? kind::child : kind::own;
      }
    } else if (joins_errors(line) || parts_group(line)) {
      is_joined = true;
    } else if (auto frame = frame_in(line)) {
      open.frames.push_back(std::move(*frame));
      is_within = true;
    } else if (is_within && line.starts_with("    ")) {
      // The line of code; below it may be marks.
      const bool is_first = !open.frames.empty() && open.frames.back().code.empty();
      if (is_first) open.frames.back().code = without_indent(line);
    } else if (is_within && is_exception(line, !open.frames.empty())) {
      std::vector<python_error>& to = whose == kind::child ? of_child : chain;
      const bool goes_on = std::exchange(is_joined, false);
      if (whose != kind::aside) {
        if (!goes_on) to.clear();
        open.text = line;
        open.has_lost_origin = goes_on && to.empty();
        to.push_back(std::exchange(open, {}));
      }
      is_within = false;
    } else if (is_within && !line.starts_with(' ')) {
      open = {};
      is_within = false;
    } else if (std::exchange(is_last_error, line == "Last error:") && !chain.empty()) {
      chain.back().last_error = line;
    }
    if (!line.empty()) above = line;
  }
  return chain.empty() ? of_child : chain;
}

}  // namespace ddprun::launcher
