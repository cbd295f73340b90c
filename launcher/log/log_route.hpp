// A log_route says where the bytes of one of a worker's streams go: to ours, to a file of its own,
// and, line by line, to a file that several share.
#pragma once

#include "launcher/log/terminal_size.hpp"
#include "rendezvous/base/color.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct log_route {
  std::string prefix;  // of each line on ours, "[node-a:0] "; empty: bytes as they come
  std::optional<color> prefix_color;  // on ours
  bool is_shown = true;
  std::optional<terminal_size> terminal;  // the worker's stream is one; none: a pipe
  std::string file;                       // its path; empty: none
  std::string matches_file;          // lines, with their prefix, that have one of these in them
  std::vector<std::string> needles;  // none: there is no such file
};

}  // namespace ddprun::launcher
