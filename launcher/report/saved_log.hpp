// Finds the root cause of a failure in what a job has printed: a log of ddprun, torchrun or srun,
// or the output of one program.
//
// A line begins with a label that says whose it is: "[node:3] " (ddprun), "[default3]:" (torchrun's
// --tee), "3: " (srun --label), "[rank3]: " (PyTorch's exceptions), "[pod/job-0/train] " (kubectl
// logs --prefix); time stamps of kubectl and docker before it are skipped. For each source its last
// exception counts, or the first line that is known (signatures.hpp). Among the sources, one that
// fails for a reason of its own comes first, and among those the earliest in the log. If all
// failures are secondary, and torchrun or srun names a rank that has printed nothing, that rank is
// the cause. If ddprun has printed a box (round_box.hpp), as text or with --log-format=json, that
// is the answer: the last box, and one line for each earlier round.
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
  // Starts another file of the same job; its name is printed with what is found. Not needed for a
  // single file.
  void begin_file(const std::string& name);
  // Adds one line, without its newline.
  void add(std::string_view line);

  // The lines for the user; those that belong to the line above are indented. Empty: nothing looks
  // like a failure.
  std::vector<std::string> explain() const;

  std::uint64_t lines() const { return lines_; }

 private:
  struct source {
    std::string file;           // where it was found
    std::string tail;           // its last lines, without their labels
    std::string rank;           // from PyTorch
    std::uint64_t head_at = 0;  // the line where its last exception begins; 0: none
    std::uint64_t known_at = 0;
    std::string known_line;  // the first known line, preferably not secondary
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
  std::vector<std::string> box_;     // ddprun's last box
  std::deque<std::string> earlier_;  // of earlier rounds, one line each
  bool is_in_box_ = false;
  struct verdict {     // which rank ended first, from torchrun or srun
    std::string by;    // empty: neither is in the log
    std::string rank;  // or task
    std::string text;
  };
  verdict verdict_;
  int verdict_lines_ = 0;  // of torchrun's, still to come
};

}  // namespace ddprun::launcher
