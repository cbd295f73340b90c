// What the daemon shows of its runs over HTTP, as JSON.
#pragma once

#include "rendezvous/core/run/run.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::server {

inline constexpr std::string_view runs_path = "/api/v1/runs";

// What one answer may cost: about a millisecond.
inline constexpr std::size_t runs_per_page = 20;
inline constexpr std::size_t members_per_page = 100;  // of all runs of the page together

struct runs_page {
  std::size_t first = 0;      // of the runs, by name
  std::size_t run_count = 0;  // all
  std::vector<core::run_view> runs;
};

// The body of /api/v1/runs. Where there is more, "next" is the path that shows it.
std::string runs_json(const runs_page& page);

// The body of /api/v1/runs/ID; `first` is the place of its first member among all.
std::string run_json(const core::run_view& run, std::size_t first);

// A run id as it stands in a path, and back; what is no proper escape stays as it is.
std::string to_url(std::string_view text);
std::string from_url(std::string_view text);

}  // namespace ddprun::server
