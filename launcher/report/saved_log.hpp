// The root cause of a failure, from what a job has printed: a log of ddprun, of torchrun, of srun,
// or the output of one program.
//
// A line begins with what tells whose it is: "[node:3] " (ddprun), "[default3]:" (torchrun's
// --tee), "3: " (srun --label), "[rank3]: " (PyTorch's exceptions), "[pod/job-0/train] " (kubectl
// logs --prefix); stamps of kubectl and docker before it are left out. What counts is each one's
// last exception, or the first line that is known (signatures.hpp); of several the one that fails
// for a reason of its own, and among those the one whose words stand first. Where all that is said
// follows from another end, and torchrun or srun names a rank that has said nothing, it is that.
// Where ddprun has
// written its box (round_box.hpp), as text or with --log-format=json, that is the answer: the last
// one whole, and of the rounds before it a line each.
//
// Memory: at most 16 KiB for each of 4096 sources.
#pragma once

#include "launcher/report/own_json_line.hpp"
#include "launcher/report/signatures.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

class saved_log {
 public:
  // What follows is of another file of the same job, whose name is told. Of a single one there is
  // no need to say so.
  void begin_file(const std::string& name);
  // Line by line, without newlines.
  void add(std::string_view line);

  // What a person is told; what belongs to the line above it is indented. Empty: there is nothing
  // like a failure.
  std::vector<std::string> explain() const;

  std::uint64_t lines() const { return lines_; }

 private:
  struct source {
    std::string file;           // where it stands
    std::string tail;           // its last lines, without what they begin with
    std::string rank;           // as PyTorch says
    std::uint64_t head_at = 0;  // the line in which its last exception begins; 0: none
    std::uint64_t known_at = 0;
    std::string known_line;  // the first known one, preferably not secondary
  };
  struct finding;

  void take_line(source& of, std::string_view line);
  void begin_box(std::string headline);
  std::vector<std::string> with_earlier_rounds() const;
  bool take_box(std::string_view line);
  bool take_box(const own_json_line& line);
  void take_verdict(std::string_view line);
  std::vector<finding> findings() const;
  bool is_silent_first(const std::vector<finding>& found) const;

  std::uint64_t lines_ = 0;
  std::string file_;  // empty: there is only one
  std::uint64_t files_ = 0;
  std::uint64_t line_ = 0;  // of that file
  std::map<std::string, source> sources_;
  std::vector<std::string> box_;     // the last of ddprun's own
  std::deque<std::string> earlier_;  // of the rounds before that, one line each
  bool is_in_box_ = false;
  struct verdict {     // who ended first, as torchrun or srun saw it
    std::string by;    // empty: neither has said so
    std::string rank;  // or task
    std::string text;
  };
  verdict verdict_;
  int verdict_lines_ = 0;  // of torchrun's that are still to come
};

}  // namespace ddprun::launcher
