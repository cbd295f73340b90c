// A log_route says where the bytes of a worker's stream go: to our own stream, to a file, and
// matching lines to a file that several streams share.
#pragma once

#include "launcher/log/terminal_size.hpp"
#include "rendezvous/base/color.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct log_route {
  std::string prefix;  // of each line on our stream, "[node-a:0] "; empty: bytes pass through
  std::optional<color> prefix_color;  // on our stream
  bool is_shown = true;
  std::optional<terminal_size> terminal;  // none: the worker has a pipe
  std::string file;                       // empty: no file
  std::string matches_file;               // for lines, with their prefix, that contain a needle
  std::vector<std::string> needles;       // none: no such file
};

}  // namespace ddprun::launcher
