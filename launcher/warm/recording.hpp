// A recording is the list of what a Python process imports while it runs: a file in memory, and the
// recorder that writes to it (ddprun_recorder.py has the format), in a site_zip that Python loads
// at its start.
//
// Thread rule: one thread; other processes write to the list. Ownership: both files end with the
// object, and processes that still record then write nothing. Errors: the system's.
#pragma once

#include "launcher/process/spawner.hpp"
#include "launcher/warm/answer_options.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher::warm {

class recording {
 public:
  // `known`: what the list has already. `answers`: as in warm_options.
  static result<recording> begin(std::string_view known = {}, const answer_options& answers = {});

  // Returns the same start with the recorder added.
  spawn_request recorded(const spawn_request& request) const;

  std::string path() const;  // of the list, for other processes
  std::uint64_t bytes() const;
  std::string text() const;

 private:
  recording(unique_fd list, unique_fd site) : list_(std::move(list)), site_(std::move(site)) {}

  unique_fd list_;
  unique_fd site_;
};

}  // namespace ddprun::launcher::warm
