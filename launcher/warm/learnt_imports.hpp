// learnt_imports is the list of what a script has imported in its last life, kept in a file of the
// user's cache ($XDG_CACHE_HOME or ~/.cache, then ddprun/imports/HASH), so that its next first
// start may find its imports made.
//
// It is kept for one command with its working folder and Python's own variables, and is out of date
// when the interpreter, the script, a module of the person's own, or a folder in which packages are
// installed has another time, size or number than it had. The file:
//
//     ddprun-imports 1
//     K HEX                      the command, the folder and the variables, each ended by a zero
//     byte P PATH                     the interpreter S MTIME_NS SIZE INODE PATH for each file and
//     folder
//                                (an empty line, then the list, see ddprun_recorder.py)
//
// Thread rule: any thread; plain values. Its calls block while the disk does. Errors: a list that
// cannot be read or kept is none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::warm {

struct learnt_list {
  std::string program;  // the interpreter's path
  std::string text;
};

struct learnt_imports {
  std::string folder;  // empty: there is no place for it
  std::string key;     // the command, the folder and the variables

  // `environment`: a worker's, as NAME=value.
  static learnt_imports of(const std::vector<std::string>& command,
                           const std::vector<std::string>& environment);

  std::optional<learnt_list> read() const;

  // A shorter list does not take the place of one that is still good.
  void keep(const learnt_list& list) const;

 private:
  std::string path() const;
};

inline constexpr std::size_t learnt_bytes_max = 4 * 1024 * 1024;
inline constexpr std::size_t learnt_files_max = 64;  // the oldest go

}  // namespace ddprun::launcher::warm
