#include "launcher/warm/learnt_imports.hpp"

#include "launcher/base/fnv_hash.hpp"
#include "launcher/base/library_file.hpp"
#include "launcher/process/find_program.hpp"
#include "launcher/warm/private_files.hpp"
#include "rendezvous/base/hex_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <utility>

namespace ddprun::launcher::warm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view first_word = "ddprun-imports ";
constexpr std::string_view first_line = "ddprun-imports 3";
// Of the file: the list, and as much again for its dependencies.
constexpr std::size_t file_bytes_max = 2 * learnt_bytes_max;

std::string_view value_in(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string_view entry : environment) {
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
      return entry.substr(name.size() + 1);
  }
  return {};
}

bool is_hex(std::string_view text) {
  return text.size() % 2 == 0 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A collision is harmless: the file has the whole key.
std::string hash_of(std::string_view text) {
  std::array<char, 17> name{};
  std::snprintf(name.data(), name.size(), "%016llx",
                static_cast<unsigned long long>(fnv_hash(text)));
  return name.data();
}

// Empty: there is no such file.
std::string stamp_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  const std::int64_t time =
      std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
  return std::to_string(time) + " " + std::to_string(found.st_size) + " " +
         std::to_string(found.st_ino);
}

// A shell script in place of Python (as pyenv's) may start another Python next time.
bool is_binary(const std::string& program) {
  std::ifstream file(program, std::ios::binary);
  std::array<char, 4> magic{};
  file.read(magic.data(), magic.size());
  return file && std::string_view(magic.data(), magic.size()) ==
                     "\x7f"
                     "ELF";
}

// Returns the package folder that has the module; none: it is the user's own, or Python's.
std::optional<std::string> packages_of(const std::string& module) {
  for (const std::string_view name : {"/site-packages/", "/dist-packages/"}) {
    const std::size_t at = module.rfind(name);
    if (at != std::string::npos) return module.substr(0, at + name.size() - 1);
  }
  return std::nullopt;
}

// Returns the files on which the list depends. Python's own modules are covered by the interpreter.
std::set<std::string> files_of(const learnt_list& list, const std::string& key) {
  std::set<std::string> files = {list.program};
  std::istringstream words(key);
  for (std::string word; std::getline(words, word, '\0');) {
    if (word.ends_with(".py")) files.insert(word);
  }
  std::istringstream lines(list.text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("I ")) continue;
    const std::size_t space = line.find(' ', 2);
    if (space == std::string::npos || space + 1 == line.size()) continue;
    const std::string module = line.substr(space + 1);
    if (const auto folder = packages_of(module)) {
      files.insert(*folder);
    } else if (!is_below_python(module)) {
      files.insert(module);
    }
  }
  return files;
}

// Takes a line off the front; none: there is no complete line.
std::optional<std::string_view> next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

// Checks "TIME SIZE INODE PATH".
bool is_as_it_was(std::string_view stamped) {
  std::size_t end = 0;
  for (int field = 0; field < 3; ++field) {
    end = stamped.find(' ', field == 0 ? 0 : end + 1);
    if (end == std::string_view::npos) return false;
  }
  return stamp_of(std::string(stamped.substr(end + 1))) == stamped.substr(0, end);
}

// ddprun_recorder.py has the format.
bool is_line_of_list(std::string_view line) {
  if (line.size() < 3 || line[1] != ' ') return false;
  const std::string_view rest = line.substr(2);
  const std::size_t space = rest.find(' ');
  switch (line[0]) {
    case 'H':
      return true;
    case 'I': {
      const std::string_view name = rest.substr(0, space);
      return !name.empty() && name.front() != '.' && name.find('/') == std::string_view::npos;
    }
    case 'E':
      return space != std::string_view::npos && is_hex(rest.substr(0, space)) &&
             is_hex(rest.substr(space + 1));
    case 'U':
      return is_hex(rest);
    case 'R':
      return space != std::string_view::npos;
    default:
      return false;
  }
}

bool is_list(std::string_view text) {
  while (!text.empty()) {
    const auto line = next_line(text);
    if (!line || !is_line_of_list(*line)) return false;
  }
  return true;
}

enum class state { good, outdated, broken };

state parse(std::string_view text, const std::string& key, learnt_list& list) {
  const auto version = next_line(text);
  if (version != first_line)
    return version && version->starts_with(first_word) ? state::outdated : state::broken;
  const auto key_line = next_line(text);
  if (!key_line || !key_line->starts_with("K ")) return state::broken;
  if (key_line->substr(2) != hex_text(key))
    return state::outdated;  // another key with the same hash
  std::size_t bytes = 0;
  for (;;) {
    const auto line = next_line(text);
    if (!line) return state::broken;
    if (line->empty()) break;
    const std::string_view value = line->size() > 2 ? line->substr(2) : std::string_view();
    if (line->starts_with("P ")) list.program = value;
    if (line->starts_with("S ") && !is_as_it_was(value)) return state::outdated;
    if (line->starts_with("B ")) std::from_chars(value.data(), value.data() + value.size(), bytes);
  }
  if (bytes == 0 || bytes != text.size() || bytes > learnt_bytes_max || !is_list(text))
    return state::broken;
  list.text = text;
  return state::good;
}

void remove_oldest(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    files.emplace_back(entry->last_write_time(gone), entry->path());
  }
  std::sort(files.rbegin(), files.rend());
  for (std::size_t index = learnt_files_max; index < files.size(); ++index)
    fs::remove(files[index].second, error);
}

}  // namespace

learnt_imports learnt_imports::of(const std::vector<std::string>& command,
                                  const std::vector<std::string>& environment) {
  learnt_imports made;
  const std::string_view cache = value_in(environment, "XDG_CACHE_HOME");
  const std::string_view home = value_in(environment, "HOME");
  if (cache.starts_with('/')) {
    made.folder = std::string(cache) + "/ddprun/imports";
  } else if (home.starts_with('/')) {
    made.folder = std::string(home) + "/.cache/ddprun/imports";
  }
  std::error_code error;
  std::vector<std::string> parts = command;
  parts.push_back(fs::current_path(error).string());
  for (const std::string& entry : environment) {
    if (entry.starts_with("PYTHON") || entry.starts_with("PATH=") || entry.starts_with("VIRTUAL_"))
      parts.push_back(entry);
    if (entry.starts_with("PATH=")) made.path_variable = entry;
  }
  for (const std::string& part : parts)
    made.key += part + '\0';
  made.python = command.front();
  return made;
}

std::string learnt_imports::path() const {
  return folder + "/" + hash_of(key);
}

learnt_answer learnt_imports::read() const {
  learnt_answer answer;
  if (folder.empty()) return answer;
  const auto file = read_private_file(folder, hash_of(key), file_bytes_max);
  answer.complaint = file.problem;
  if (!file.text) return answer;
  learnt_list list;
  const state found = parse(*file.text, key, list);
  if (found == state::broken) answer.complaint = path() + " is not whole";
  if (found != state::good) return answer;
  // The file must not make us start another program than the command names.
  std::vector<std::string> where;
  if (!path_variable.empty()) where.push_back(path_variable);
  if (find_program(python, where) == list.program) answer.list = std::move(list);
  return answer;
}

std::string learnt_imports::keep(const learnt_list& list) const {
  if (folder.empty() || list.text.empty() || list.text.size() > learnt_bytes_max) return {};
  if (!is_binary(list.program)) return {};
  if (const auto old = read().list; old && old->text.size() >= list.text.size()) return {};
  std::string text(first_line);
  text += "\nK " + hex_text(key) + "\nP " + list.program + "\n";
  for (const std::string& name : files_of(list, key)) {
    if (const std::string stamp = stamp_of(name); !stamp.empty())
      text += "S " + stamp + " " + name + "\n";
  }
  text += "B " + std::to_string(list.text.size()) + "\n\n" + list.text;
  if (text.size() > file_bytes_max) return {};
  std::string problem = write_private_file(folder, hash_of(key), text);
  if (problem.empty()) remove_oldest(folder);
  return problem;
}

void learnt_imports::forget() const {
  std::error_code ignored;
  if (!folder.empty()) fs::remove(path(), ignored);
}

}  // namespace ddprun::launcher::warm
