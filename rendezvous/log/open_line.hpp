// An open_line remembers which stream has written the unfinished line at the end of an output, so
// that nothing else is written into that line: the line first gets its newline, and the rest of it
// begins with its prefix again. Its stream may continue the line as long as no other has written.
//
// On a terminal, the newest state of a progress bar replaces the previous one; anywhere else each
// state is a line of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::log {

// Owners of an open line other than one stream of a worker: both streams of workers whose bytes are
// passed through, which may share a line, and the program's own progress messages.
inline constexpr std::uint64_t passed_through = ~std::uint64_t{0};
inline constexpr std::uint64_t own_words = passed_through - 1;

// A piece of output.
struct line_part {
  enum class kind {
    passes,    // raw bytes: no prefix, and no newline except after another stream's open line
    begins,    // starts a line; the text already has its prefix
    opens,     // starts a line without a prefix
    goes_on,   // continues the line that this stream has begun
    replaces,  // replaces what this stream has written of the line
  };

  std::string_view text;
  kind how = kind::passes;
  std::uint64_t whose = 0;  // its stream; with one number, they continue each other's lines
  std::string_view prefix = {};
  bool is_state = false;  // of a progress bar: complete, without a newline
  // The state is useless once something else is written, so a terminal erases its line.
  bool is_passing = false;
};

class open_line {
 public:
  // `redraws`: the output is a terminal that can erase a line.
  explicit open_line(bool redraws = false) : redraws_(redraws) {}

  bool redraws() const { return redraws_; }

  // Appends the part to what is to be written.
  void append(std::string& to, const line_part& part);
  // Appends whole lines, which are not continued.
  void append_lines(std::string& to, std::string_view lines);

 private:
  void end(std::string& to);

  bool redraws_;
  bool is_open_ = false;
  bool is_passing_ = false;  // whether the open line may be erased
  std::uint64_t whose_ = 0;
};

}  // namespace ddprun::log
