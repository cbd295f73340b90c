// An open_line knows whose line an output ends with while that has no newline yet, so that what
// others write never lands in it: it gets its newline first, and what follows of it begins with its
// prefix again. Whoever left it open goes on there as long as nobody else has written.
//
// The newest state of a progress bar replaces the one before it on a terminal; anywhere else each
// is a line of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::log {

// Owners of an open line that are no single stream of a worker: both of a worker whose bytes are
// passed through, which may go on in one line, and the program's own states.
inline constexpr std::uint64_t passed_through = ~std::uint64_t{0};
inline constexpr std::uint64_t own_words = passed_through - 1;

// A piece of somebody's output.
struct line_part {
  enum class kind {
    passes,    // bytes as they come: no prefix, and no newline but after somebody else's open line
    begins,    // at the beginning of a line, which has its prefix already
    opens,     // likewise, without the prefix
    goes_on,   // after what was pushed of its line before
    replaces,  // what was pushed of its line before
  };

  std::string_view text;
  kind how = kind::passes;
  std::uint64_t whose = 0;  // of those who share one number a line may be open for all
  std::string_view prefix = {};
  bool is_state = false;  // of a progress bar: it has no newline, and is whole
  // A state that is of no use any more once somebody writes: a terminal that can redraws its line.
  bool is_passing = false;
};

class open_line {
 public:
  // `redraws`: the output is a terminal that can.
  explicit open_line(bool redraws = false) : redraws_(redraws) {}

  bool redraws() const { return redraws_; }

  // Adds the part to what is to be written, after all that came before.
  void append(std::string& to, const line_part& part);
  // The same for whole lines of nobody who would go on.
  void append_lines(std::string& to, std::string_view lines);

 private:
  void end(std::string& to);

  bool redraws_;
  bool is_open_ = false;
  bool is_passing_ = false;  // the open line
  std::uint64_t whose_ = 0;
};

}  // namespace ddprun::log
