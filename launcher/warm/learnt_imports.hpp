// learnt_imports is the list of what a script has imported in its last life, kept in a file of the
// user's cache ($XDG_CACHE_HOME or ~/.cache, then ddprun/imports/HASH), so that its next first
// start may find its imports made.
//
// It is kept for one command with its working folder and Python's own variables, and is out of date
// when the interpreter, the script, a module of the person's own, or a folder in which packages are
// installed has another time, size or number than it had. The file:
//
//     ddprun-imports 2
//     K HEX           the command, the folder and the variables, each ended by a zero byte
//     P PATH          the interpreter
//     S TIME SIZE INODE PATH
//                     of each file and folder on which it depends; the time in ns
//     B BYTES         how long the list is
//                     (an empty line, then the list, see ddprun_recorder.py)
//
// What it says is not trusted: the file and its folder must belong to this user and be writable by
// nobody else, the interpreter must be the one that the command means now, and a list only names
// modules, of which the zygote takes none but installed ones.
//
// Thread rule: any thread; plain values. Its calls block while the disk does. Errors: a list that
// cannot be read or kept is none, and where a person should know of it there is a line that says
// why.
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

struct learnt_answer {
  std::optional<learnt_list> list;  // none: there is none, or it is out of date
  std::string complaint;            // empty: nothing is wrong
};

struct learnt_imports {
  std::string folder;  // empty: there is no place for it
  std::string key;     // the command, the folder and the variables
  std::string python;  // the first word of the command
  std::string path_variable;

  // `environment`: a worker's, as NAME=value.
  static learnt_imports of(const std::vector<std::string>& command,
                           const std::vector<std::string>& environment);

  learnt_answer read() const;

  // A shorter list does not take the place of one that is still good. Returns why it could not be
  // kept; empty: it is, or there is no place for it.
  std::string keep(const learnt_list& list) const;

  // It was of no use.
  void forget() const;

 private:
  std::string path() const;
};

inline constexpr std::size_t learnt_bytes_max = 4 * 1024 * 1024;  // of a list
inline constexpr std::size_t learnt_files_max = 64;               // the oldest go

}  // namespace ddprun::launcher::warm
