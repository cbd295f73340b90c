// The prefix that PyTorch puts before each line of an uncaught exception: "[rank3]: ".
//
// Source: _distributed_excepthook in torch/distributed/distributed_c10d.py of PyTorch 2.11 to 2.15.
#pragma once

#include <string_view>

namespace ddprun::launcher {

// The line without the prefix, if it has one. On an empty line the prefix is "[rank3]:".
inline std::string_view without_rank(std::string_view line) {
  constexpr std::string_view begin = "[rank";
  constexpr std::string_view end = "]:";
  if (!line.starts_with(begin)) return line;
  const std::size_t digits = line.find_first_not_of("0123456789", begin.size());
  if (digits == std::string_view::npos || digits == begin.size()) return line;
  std::string_view rest = line.substr(digits);
  if (!rest.starts_with(end)) return line;
  rest.remove_prefix(end.size());
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  return rest;
}

}  // namespace ddprun::launcher
