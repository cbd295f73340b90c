// Where the workers' output goes: the values of --log-dir, --redirects, --tee,
// --local-ranks-filter, --duplicate-stdout-filters, --duplicate-stderr-filters and
// --log-line-prefix-template in torchrun's forms; local ranks may have any number of digits. Also
// of --report, --color and --pty, which are ours.
#pragma once

#include "rendezvous/base/color.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// Whether a worker writes to a terminal if ours is one.
enum class pty_mode {
  automatic,  // the only worker of the world, or rank 0
  off,
};

// A selection of a worker's two streams, numbered as by torchrun.
struct stream_set {
  bool output = false;  // 1
  bool errors = false;  // 2; 3: both

  bool none() const { return !output && !errors; }
};

// One selection for all workers, or by local rank; ranks that are not named have none.
struct stream_choice {
  stream_set all;
  std::map<std::uint32_t, stream_set> by_rank;

  stream_set of(std::uint32_t local_rank) const;
  bool none() const;
};

// The template of lines without a prefix. An empty template comes from an unset shell variable and
// means the default.
inline constexpr std::string_view no_prefix = "${}";

struct output_options {
  std::string log_dir;      // empty: a temporary one, if something needs it
  stream_choice redirects;  // to files only
  stream_choice tee;        // to files and to our own output
  // The local ranks whose output is shown; empty: all.
  std::set<std::uint32_t> shown;
  // Teed lines that contain one of these are copied to one file for all workers.
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  std::string prefix_template;  // of lines that are shown; empty: "[node:rank] "
  bool is_tagged = false;       // ddprun's caller prefixes each line with the node's tag
  std::string report_file;      // for reports of rounds; empty: none
  color_mode color = color_mode::automatic;  // of prefixes, and of our own messages
  pty_mode pty = pty_mode::automatic;

  // True if the user asks for files. /dev/null is torchrun's word for no files at all, error files
  // included.
  bool writes_files() const { return !is_off() && (!redirects.none() || !tee.none()); }
  bool is_off() const { return log_dir == "/dev/null"; }
};

// "3", or "0:1,12:3".
cli::parsed<stream_choice> read_streams(std::string_view given, std::string_view text);

// "0,3,12"; empty: all.
cli::parsed<std::set<std::uint32_t>> read_local_ranks(std::string_view given,
                                                      std::string_view text);

// Splits at commas; two commas are one inside a part. Empty parts are left out, because every line
// contains them.
std::vector<std::string> read_filters(std::string_view text);

}  // namespace ddprun::launcher
