#include "launcher/warm/learnt_imports.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::warm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view first_line = "ddprun-imports 1\n";

std::string_view value_in(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string_view entry : environment) {
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
      return entry.substr(name.size() + 1);
  }
  return {};
}

std::string hex_of(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    hex += digits[byte >> 4];
    hex += digits[byte & 15];
  }
  return hex;
}

// FNV-1a: only a name, as the file has the whole key.
std::string hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  std::array<char, 17> name{};
  std::snprintf(name.data(), name.size(), "%016llx", static_cast<unsigned long long>(hash));
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

// A script of the shell's in Python's place (pyenv's) may start another one the next time.
bool is_binary(const std::string& program) {
  std::ifstream file(program, std::ios::binary);
  std::array<char, 4> magic{};
  file.read(magic.data(), magic.size());
  return file && std::string_view(magic.data(), magic.size()) ==
                     "\x7f"
                     "ELF";
}

// The folder of packages in which it is; none: it is the person's own, or Python's.
std::optional<std::string> packages_of(const std::string& module) {
  for (const std::string_view name : {"/site-packages/", "/dist-packages/"}) {
    const std::size_t at = module.rfind(name);
    if (at != std::string::npos) return module.substr(0, at + name.size() - 1);
  }
  return std::nullopt;
}

// The files on which the list depends. Python's own modules go with the interpreter.
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
    } else if (module.find("/lib/python3") == std::string::npos) {
      files.insert(module);
    }
  }
  return files;
}

void remove_oldest(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    files.emplace_back(entry.last_write_time(error), entry.path());
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
  }
  for (const std::string& part : parts)
    made.key += part + '\0';
  return made;
}

std::string learnt_imports::path() const {
  return folder + "/" + hash_of(key);
}

std::optional<learnt_list> learnt_imports::read() const {
  if (folder.empty()) return std::nullopt;
  std::ifstream file(path(), std::ios::binary);
  std::string line;
  if (!std::getline(file, line) || line + "\n" != first_line) return std::nullopt;
  if (!std::getline(file, line) || line != "K " + hex_of(key)) return std::nullopt;
  learnt_list list;
  while (std::getline(file, line) && !line.empty()) {
    if (line.starts_with("P ")) list.program = line.substr(2);
    if (!line.starts_with("S ")) continue;
    std::size_t end = 1;
    for (int field = 0; field < 3 && end != std::string::npos; ++field)
      end = line.find(' ', end + 1);
    if (end == std::string::npos) return std::nullopt;
    if (stamp_of(line.substr(end + 1)) != line.substr(2, end - 2)) return std::nullopt;
  }
  list.text.assign(std::istreambuf_iterator<char>(file), {});
  const bool is_whole = list.text.size() <= learnt_bytes_max && list.text.ends_with('\n');
  if (!is_whole || list.program.empty()) return std::nullopt;
  return list;
}

void learnt_imports::keep(const learnt_list& list) const {
  if (folder.empty() || list.text.size() > learnt_bytes_max || !is_binary(list.program)) return;
  if (const auto old = read(); old && old->text.size() >= list.text.size()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  fs::permissions(folder, fs::perms::owner_all, error);
  const std::string next = path() + "." + std::to_string(::getpid());
  {
    std::ofstream file(next, std::ios::binary);
    file << first_line << "K " << hex_of(key) << "\nP " << list.program << "\n";
    for (const std::string& name : files_of(list, key)) {
      if (const std::string stamp = stamp_of(name); !stamp.empty())
        file << "S " << stamp << " " << name << "\n";
    }
    file << "\n" << list.text;
    if (!file.flush()) return void(fs::remove(next, error));
  }
  fs::rename(next, path(), error);
  if (error) fs::remove(next, error);
  remove_oldest(folder);
}

}  // namespace ddprun::launcher::warm
