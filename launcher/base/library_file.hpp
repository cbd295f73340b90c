// Recognises files in a Python traceback that the user has not written: of installed packages, or
// of Python itself.
#pragma once

#include <string_view>

namespace ddprun::launcher {

// True for Python's library, or below it.
inline bool is_below_python(std::string_view file) {
  return file.find("/lib/python3") != std::string_view::npos ||
         file.find("/lib64/python3") != std::string_view::npos;
}

inline bool is_library_file(std::string_view file) {
  // "<frozen ...": such as "<frozen importlib._bootstrap>".
  for (const std::string_view part : {"/site-packages/", "/dist-packages/", "<frozen "}) {
    if (file.find(part) != std::string_view::npos) return true;
  }
  return is_below_python(file);
}

}  // namespace ddprun::launcher
