// A usage error is one line for the user: what is wrong, where, and what to do. The program prints
// it after its name on standard error and exits with `usage_exit_code`.
#pragma once

#include "rendezvous/base/exit_codes.hpp"

#include <boost/system/result.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::cli {

struct usage_error {
  std::string text;
};

// `given` is what the user wrote: "--nnodes=3:2".
inline usage_error wrong(std::string_view given, const std::string& text) {
  return {std::string(given) + ": " + text};
}

template <typename T>
using parsed = boost::system::result<T, usage_error>;

// Empty if nothing is wrong.
using checked = std::optional<usage_error>;

}  // namespace ddprun::cli
