// A file of a Python traceback that the person has not written: of an installed package, or of
// Python itself.
#pragma once

#include <string_view>

namespace ddprun::launcher {

// Of Python's library, or installed below it.
inline bool is_below_python(std::string_view file) {
  return file.find("/lib/python3") != std::string_view::npos ||
         file.find("/lib64/python3") != std::string_view::npos;
}

inline bool is_library_file(std::string_view file) {
  // "<frozen importlib._bootstrap>"
  for (const std::string_view part : {"/site-packages/", "/dist-packages/", "<frozen "}) {
    if (file.find(part) != std::string_view::npos) return true;
  }
  return is_below_python(file);
}

}  // namespace ddprun::launcher
