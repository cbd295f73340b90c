// Where the output of the workers goes: the values of --log-dir, --redirects, --tee,
// --local-ranks-filter, --duplicate-stdout-filters, --duplicate-stderr-filters and
// --log-line-prefix-template, with torchrun's forms. Local ranks may have any number of digits. And
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

// Whether a worker keeps the terminal that ours goes to.
enum class pty_mode {
  automatic,  // the only one of the world, or rank 0
  off,
};

// Which of a worker's two streams, as torchrun numbers them.
struct stream_set {
  bool output = false;  // 1
  bool errors = false;  // 2; 3: both

  bool none() const { return !output && !errors; }
};

// The same for all workers, or by local rank; those that are not named have none.
struct stream_choice {
  stream_set all;
  std::map<std::uint32_t, stream_set> by_rank;

  stream_set of(std::uint32_t local_rank) const;
  bool none() const;
};

// The template of lines that begin with nothing. An empty one is a variable of a shell that is not
// set: the default.
inline constexpr std::string_view no_prefix = "${}";

struct output_options {
  std::string log_dir;      // empty: a temporary one, where something needs it
  stream_choice redirects;  // to files only
  stream_choice tee;        // to files and to ours
  // The local ranks whose output comes to ours; empty: all.
  std::set<std::uint32_t> shown;
  // Lines of teed streams with one of these in them are written once more, those of all workers to
  // one file.
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  std::string prefix_template;  // of lines on ours; empty: "[node:rank] "
  bool is_tagged = false;       // whoever has started ddprun begins each line with the node's tag
  std::string report_file;      // where the reports of rounds go; empty: nowhere
  color_mode color = color_mode::automatic;  // of prefixes on ours, and of our own words
  pty_mode pty = pty_mode::automatic;

  // The person asks for files. /dev/null is torchrun's word for none, not even error files.
  bool writes_files() const { return !is_off() && (!redirects.none() || !tee.none()); }
  bool is_off() const { return log_dir == "/dev/null"; }
};

// "3", or "0:1,12:3".
cli::parsed<stream_choice> read_streams(std::string_view given, std::string_view text);

// "0,3,12"; empty: all.
cli::parsed<std::set<std::uint32_t>> read_local_ranks(std::string_view given,
                                                      std::string_view text);

// Parts between commas; two commas are one in a part. Empty parts, which every line has in it, are
// left out.
std::vector<std::string> read_filters(std::string_view text);

}  // namespace ddprun::launcher
