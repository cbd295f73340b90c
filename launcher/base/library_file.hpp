// A file of a Python traceback that the person has not written: of an installed package, or of
// Python itself.
//
// Thread rule: pure function.
#pragma once

#include <string_view>

namespace ddprun::launcher {

inline bool is_library_file(std::string_view file) {
  // "<frozen importlib._bootstrap>"
  for (const std::string_view part :
       {"/site-packages/", "/dist-packages/", "/lib/python3", "<frozen "}) {
    if (file.find(part) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace ddprun::launcher
