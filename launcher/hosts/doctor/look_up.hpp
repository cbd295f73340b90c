// A host name look-up for a thread that may block, with a time limit.
//
// Thread rule: any thread; blocks for up to `limit`. A look-up that the name service never answers
// is left behind on a thread of its own.
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/net/resolve.hpp"

#include <string>
#include <string_view>

namespace ddprun::launcher::doctor {

struct look_up_answer {
  bool is_late = true;
  error_code error;
  net::endpoints found;
};

look_up_answer look_up(const std::string& host, std::uint16_t port, duration limit);

struct name_of_address {
  bool is_late = false;
  std::string name;  // empty: it has none
};

// The reverse look-up; `address` must be numeric.
name_of_address look_up_name_of(const std::string& address, duration limit);

// True for "node-a" and "node-a.example.org".
bool is_one_host_name(std::string_view one, std::string_view two);

}  // namespace ddprun::launcher::doctor
