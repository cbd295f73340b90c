// What `ddprun doctor` has found out about one thing on this node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

enum class health : std::uint8_t {
  ok,
  warning,  // some jobs or programs will have trouble
  error,    // jobs fail on this node
};

struct finding {
  std::string check;  // such as "/dev/shm": short, and the same on every node
  health state = health::ok;
  std::string seen;    // facts, with units
  std::string advice;  // empty if nothing needs to be done
};

using findings = std::vector<finding>;

}  // namespace ddprun::launcher::doctor
