#include "launcher/report/python_error.hpp"

#include "launcher/base/library_file.hpp"
#include "launcher/report/output_lines.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace ddprun::launcher {
namespace {

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}

// Removes what draws the tree of an ExceptionGroup: "    | ", "  + ".
std::string_view without_tree(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos || begin + 1 >= line.size()) return line;
  const bool is_tree = (line[begin] == '|' || line[begin] == '+') && line[begin + 1] == ' ';
  return is_tree ? line.substr(begin + 2) : line;
}

// "+---------------- 1 ----------------" separates the parts of a group.
bool parts_group(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin != std::string_view::npos && line.substr(begin).starts_with("+-");
}

// Input typed at a prompt, "<stdin>", has no file to look into.
bool is_users_file(std::string_view file) {
  return !file.starts_with('<') && !is_library_file(file);
}

// The head may also follow an unfinished progress bar, or be the top of rich's box.
bool is_head(std::string_view line) {
  return line.ends_with("Traceback (most recent call last):") ||
         (line.starts_with("╭") && line.find("Traceback (most recent call last)") != line.npos);
}

// A frame of rich: "│ /data/train.py:7 in step      │".
constexpr std::string_view box_side = "│ ";

std::optional<python_frame> boxed_frame_in(std::string_view line) {
  line.remove_prefix(box_side.size());
  const std::size_t in = line.find(" in ");
  if (in == 0 || in == std::string_view::npos || line.starts_with(' ')) return {};
  const std::string_view place = line.substr(0, in);
  const std::size_t colon = place.rfind(':');
  const bool has_line =
      colon != std::string_view::npos && colon + 1 < place.size() &&
      std::all_of(place.begin() + static_cast<std::ptrdiff_t>(colon) + 1, place.end(), is_digit);
  if (!has_line) return {};
  python_frame frame;
  frame.place = line.substr(0, line.find(' ', in + 4));
  frame.is_users = is_users_file(place.substr(0, colon));
  return frame;
}

// Recognises the line above the traceback of an exception that did not end the process.
bool is_aside(std::string_view line) {
  for (const std::string_view begin :
       {"Exception ignored", "Exception in thread", "Exception in callback", "Error in atexit",
        "Error in sys.excepthook", "--- Logging error", "future: <Task"}) {
    if (line.starts_with(begin)) return true;
  }
  return false;
}

// Recognises multiprocessing's "Process SpawnProcess-1:".
bool is_of_child(std::string_view line) {
  return line.starts_with("Process ") && line.ends_with(":");
}

bool joins_errors(std::string_view line) {
  return line.starts_with("During handling of the above exception") ||
         line.starts_with("The above exception was the direct cause");
}

// Recognises the line, inside an exception's message, before the traceback of another process that
// it passes on: torch.multiprocessing.spawn's, and a DataLoader's.
bool hands_on(std::string_view line) {
  return line.starts_with("Original Traceback (most recent call last):") ||
         (line.starts_with("-- Process ") && line.ends_with("with the following error:"));
}

// Reads `  File "train.py", line 31, in step`; a syntax error lacks the last part.
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
  // faulthandler's frames have no comma: they belong to a thread and not to an exception.
  if (!line.empty() && !line.starts_with(", in ")) return {};
  if (line.starts_with(", in ")) frame.place += " in " + std::string(line.substr(5));
  frame.is_users = is_users_file(file);
  return frame;
}

// Recognises "torch.cuda.OutOfMemoryError: CUDA out of memory" and "KeyboardInterrupt": a name
// whose last part has a capital, alone or before a colon; below frames, any name ("struct.error:
// ...").
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

// True for the outermost frame of an exception that reaches the interpreter.
bool is_main(const python_frame& frame) {
  return frame.place.ends_with(" in <module>") ||
         frame.place.find(" in _run_module_as_main") != std::string::npos ||
         frame.place.find(" in ") == std::string::npos;  // a syntax error
}

// True if Python's own library has caught the exception and goes on: a queue's thread, a finalizer.
bool is_of_python_itself(const python_frame& frame) {
  return !frame.is_users && is_below_python(frame.place) &&
         frame.place.find("-packages/") == std::string::npos;
}

class chain_reader {
 public:
  void take(std::string_view line);
  std::vector<python_chain> finish();

 private:
  enum class kind { own, child, aside };
  static constexpr std::size_t more_max = 12;

  void begin();
  void take_boxed(std::string_view line);
  void take_exception(std::string_view line);
  void take_other(std::string_view line);

  std::vector<python_chain> chains_;
  std::vector<std::size_t> ends_;  // of each chain: written_ at its end
  std::size_t written_ = 0;
  python_error open_;        // an exception that is not complete yet
  kind whose_ = kind::own;   // of the open traceback
  bool is_within_ = false;   // inside a traceback
  bool has_head_ = false;    // the open traceback has its first line
  bool is_joined_ = false;   // the next exception continues the chain
  bool is_handed_ = false;   // the next exception replaces the one before
  bool is_fatal_ = false;    // faulthandler's output follows
  bool is_message_ = false;  // directly below an exception
  std::string_view above_;
};

void chain_reader::begin() {
  open_ = {};
  is_within_ = has_head_ = true;
  is_fatal_ = is_message_ = false;
  if (is_joined_ || is_handed_) return;
  whose_ = is_aside(above_) ? kind::aside : is_of_child(above_) ? kind::child : kind::own;
}

void chain_reader::take(std::string_view line) {
  if (hands_on(line) && !chains_.empty() && whose_ != kind::aside) {
    is_handed_ = true;
    if (line.starts_with("Original")) begin();
  } else if (is_head(line)) {
    begin();
  } else if (joins_errors(line) || parts_group(line)) {
    is_joined_ = true;
    is_message_ = false;
  } else if (is_within_ && line.starts_with("│")) {
    take_boxed(line);
  } else if (is_within_ && line.starts_with("╰")) {
    is_message_ = false;  // the exception follows below the box
  } else if (auto frame = frame_in(line)) {
    open_.frames.push_back(std::move(*frame));
    is_within_ = true;
    is_message_ = false;
  } else if (is_within_ && line.starts_with("    ")) {
    // The line of code; marks may follow below it.
    const bool is_first = !open_.frames.empty() && open_.frames.back().code.empty();
    if (is_first) open_.frames.back().code = without_indent(line);
  } else if (is_within_ && is_exception(line, !open_.frames.empty())) {
    take_exception(line);
    // A line that is not indented, and no exception: the traceback was interrupted.
  } else if (is_within_ && !line.starts_with(' ')) {
    open_ = {};
    is_within_ = has_head_ = false;
    take_other(line);
  } else {
    take_other(line);
  }
  if (!line.empty()) above_ = line;
}

void chain_reader::take_boxed(std::string_view line) {
  constexpr std::string_view mark = "│ ❱ ";
  if (!line.starts_with(box_side)) return;
  if (auto frame = boxed_frame_in(line)) {
    open_.frames.push_back(std::move(*frame));
  } else if (line.starts_with(mark) && !open_.frames.empty()) {
    // "│ ❱  7 │   raise ValueError("loss is NaN")      │"
    line.remove_prefix(mark.size());
    line = line.substr(std::min(line.find_first_not_of(" 0123456789"), line.size()));
    if (line.starts_with(box_side)) line.remove_prefix(box_side.size());
    if (line.ends_with("│")) line.remove_suffix(std::string_view("│").size());
    line = without_indent(line);
    open_.frames.back().code = line.substr(0, line.find_last_not_of(' ') + 1);
  }
}

void chain_reader::take_exception(std::string_view line) {
  const bool goes_on = std::exchange(is_joined_, false);
  const bool is_handed = std::exchange(is_handed_, false);
  const bool has_head = std::exchange(has_head_, false);
  is_within_ = false;
  const python_frame* const outermost = open_.frames.empty() ? nullptr : &open_.frames.front();
  const bool is_mains = outermost == nullptr || is_main(*outermost) || !has_head;
  // Python's library prints it and goes on, so it is not the end of the process.
  if (!goes_on && !is_handed && !is_mains && is_of_python_itself(*outermost)) whose_ = kind::aside;
  if (whose_ == kind::aside) {
    open_ = {};
    return;
  }
  open_.text = line;
  // What the child raised replaces the exception that only passes it on.
  if (is_handed && !chains_.empty()) {
    chains_.back().errors.clear();
  } else if (!goes_on || chains_.empty()) {
    open_.has_lost_origin = goes_on;
    chains_.push_back({{}, whose_ == kind::child ? printed_by::child : printed_by::program, 0});
    ends_.push_back(0);
  }
  python_chain& to = chains_.back();
  if (is_mains && to.by == printed_by::program) to.by = printed_by::interpreter;
  to.errors.push_back(std::exchange(open_, {}));
  ends_.back() = written_;
  is_message_ = true;
}

void chain_reader::take_other(std::string_view line) {
  if (is_fatal_error(line)) is_fatal_ = true;
  if (is_aside(line)) is_message_ = false;
  if (is_message_ && chains_.back().errors.back().more.size() < more_max) {
    chains_.back().errors.back().more.emplace_back(line);
  }
  if (!is_fatal_ && !is_of_way_out(line)) ++written_;
}

std::vector<python_chain> chain_reader::finish() {
  for (std::size_t index = 0; index < chains_.size(); ++index)
    chains_[index].lines_after = written_ - ends_[index];
  return std::move(chains_);
}

// Reads `  File "train.py", line 31 in step`.
std::optional<python_frame> dumped_frame_in(std::string_view line) {
  const std::size_t in = line.rfind(" in ");
  if (in == std::string_view::npos || line.find(", in ") != std::string_view::npos) return {};
  auto frame = frame_in(line.substr(0, in));
  if (frame) frame->place += std::string(line.substr(in));
  return frame;
}

}  // namespace

std::vector<python_frame> find_dumped_frames(std::string_view text) {
  std::vector<python_frame> frames;
  bool is_within = false;
  for (const std::string_view line : output_lines(text)) {
    if (line.starts_with("Current thread 0x")) {
      is_within = true;
      frames.clear();
    } else if (auto frame = is_within ? dumped_frame_in(line) : std::nullopt) {
      frames.push_back(std::move(*frame));
    } else {
      is_within = false;
    }
  }
  std::reverse(frames.begin(), frames.end());
  return frames;
}

std::vector<python_chain> find_python_chains(std::string_view text) {
  chain_reader reader;
  for (const std::string_view line : output_lines(text))
    reader.take(without_tree(line));
  return reader.finish();
}

}  // namespace ddprun::launcher
