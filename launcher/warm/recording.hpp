// A recording is the list of what a Python imports, as long as it runs: a file in memory that this
// process owns, and the recorder that writes to it (ddprun_recorder.py has the format), in a
// site_zip that makes Python begin with it.
//
// Thread rule: one thread; other processes write to the list. Ownership: both files are gone with
// the object, and whoever still records notes nothing more. Errors: the system's.
#pragma once

#include "launcher/process/spawner.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher::warm {

class recording {
 public:
  // `known`: what the list has already. `stack_signal`: as in warm_options.
  static result<recording> begin(std::string_view known = {}, int stack_signal = 0);

  // The same start, with the recorder.
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
