// The JSON that the daemon shows of its runs over HTTP.
#pragma once

#include "rendezvous/core/run/run_machine.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::server {

inline constexpr std::string_view runs_path = "/api/v1/runs";

// Limits for one answer, so that it takes about a millisecond.
inline constexpr std::size_t runs_per_page = 20;
inline constexpr std::size_t members_per_page = 100;  // of all runs on the page together

struct runs_page {
  std::size_t first = 0;      // index of the first run, by name
  std::size_t run_count = 0;  // of all runs
  std::vector<core::run_view> runs;
};

// Makes the body of /api/v1/runs. "next" is the path of the following page, if there is one.
std::string runs_json(const runs_page& page);

// Makes the body of /api/v1/runs/ID; `first` is the index of the first member shown.
std::string run_json(const core::run_view& run, std::size_t first);

// Escapes a run id for a path, and back; malformed escapes are left unchanged.
std::string to_url(std::string_view text);
std::string from_url(std::string_view text);

}  // namespace ddprun::server
