// A line_splitter cuts a stream of bytes into whole lines, so that the output of several workers is
// mixed line by line and never within one.
//
// Pure: bytes in, calls out. No byte is lost or changed, with two exceptions: a lone carriage
// return (a progress bar drawing over itself) ends a line and becomes a newline, and a line longer
// than the limit, or one without its newline at the end, is given one. Bytes need not be valid
// UTF-8.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

class line_splitter {
 public:
  // Called with one line, its newline included; the view lives for the call.
  using line_handler = std::function<void(std::string_view)>;

  // `limit` in bytes without the newline, at least 1: a longer line comes in pieces of that size.
  line_splitter(std::size_t limit, line_handler handler);

  void feed(std::string_view bytes);

  // The stream has ended: what is left comes out as a line.
  void finish();

 private:
  void append(std::string_view text);
  void end_line(std::string_view text, std::string_view ending);

  std::size_t limit_;
  line_handler handler_;
  std::string partial_;        // of the line that has no end yet, at most the limit
  bool after_return_ = false;  // a carriage return came last: it may begin "\r\n"
};

}  // namespace ddprun::launcher
