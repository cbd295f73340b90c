// Thrown by a collective of a process group that has failed, most often because a rank has died.
#pragma once

#include <stdexcept>

namespace ddprun::worker {

class process_group_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ddprun::worker
