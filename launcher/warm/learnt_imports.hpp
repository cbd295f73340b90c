// learnt_imports is the list of what a script imported in its last life, kept in a file of the
// user's cache ($XDG_CACHE_HOME or ~/.cache, then ddprun/imports/HASH), so that even its next first
// round may start warm.
//
// A list belongs to one command with its working folder and Python's own variables. It is outdated
// if the interpreter, the script, a module of the user's own, or a folder of installed packages has
// another time, size or inode number. The file:
//
//     ddprun-imports 3
//     K HEX           the command, the folder and the variables, each ended by a zero byte
//     P PATH          the interpreter
//     S TIME SIZE INODE PATH
//                     of each file and folder on which it depends; the time in ns
//     B BYTES         the length of the list
//                     (an empty line, then the list, see ddprun_recorder.py)
//
// The file is not trusted: it and its folder must belong to this user and be writable by no other
// user, the interpreter must be the one that the command means now, and the zygote imports only
// installed modules of the list.
//
// Thread rule: any thread; plain values. Calls block while the disk does. Errors: a list that
// cannot be read or kept is none; if a user should know, there is a line that says why.
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
  std::optional<learnt_list> list;  // none: there is none, or it is outdated
  std::string complaint;            // empty: there is no error
};

struct learnt_imports {
  std::string folder;  // empty: there is no cache folder
  std::string key;     // the command, the folder and the variables
  std::string python;  // the first word of the command
  std::string path_variable;

  // `environment` is a worker's, as NAME=value.
  static learnt_imports of(const std::vector<std::string>& command,
                           const std::vector<std::string>& environment);

  learnt_answer read() const;

  // A shorter list does not replace one that is still good. Returns why it was not kept; empty: it
  // was, or there is no cache folder.
  std::string keep(const learnt_list& list) const;

  // Removes a list that was of no use.
  void forget() const;

 private:
  std::string path() const;
};

inline constexpr std::size_t learnt_bytes_max = 4 * 1024 * 1024;  // of a list
inline constexpr std::size_t learnt_files_max = 64;               // the oldest are removed

}  // namespace ddprun::launcher::warm
