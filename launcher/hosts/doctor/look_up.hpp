// A look-up of a host name for a thread that may wait, with a limit on how long.
//
// Thread rule: any thread; blocks for `limit` at most. A look-up that the name service never
// answers is left behind on a thread of its own.
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/net/resolve.hpp"

#include <string>

namespace ddprun::launcher::doctor {

struct look_up_answer {
  bool is_late = true;
  error_code error;
  net::endpoints found;
};

look_up_answer look_up(const std::string& host, std::uint16_t port, duration limit);

}  // namespace ddprun::launcher::doctor
