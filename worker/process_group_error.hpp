// What a collective of a process group throws when it fails: most often, a rank has died.
#pragma once

#include <stdexcept>

namespace ddprun::worker {

class process_group_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ddprun::worker
