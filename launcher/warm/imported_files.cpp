#include "launcher/warm/imported_files.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <mutex>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::launcher::warm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t looked_at_once = 64;  // files, by one thread
constexpr std::size_t threads_max = 8;

// Takes off what is before the end mark; none: there is none.
std::optional<std::string_view> take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + 1);
  return taken;
}

template <typename Number>
bool take_number(std::string_view& text, Number& to) {
  const auto taken = take_until(text, ' ');
  if (!taken) return false;
  const char* const end = taken->data() + taken->size();
  const auto [stop, error] = std::from_chars(taken->data(), end, to);
  return error == std::errc() && stop == end;
}

// Must match _is_module() in ddprun_files.py.
bool may_be_module(std::string_view name) {
  return name.ends_with(".py") || name.ends_with(".pyc") || name.ends_with(".so") ||
         (name.find('.') == std::string_view::npos && name != "__pycache__");
}

// Those of modules, as an entry has them; empty where the folder cannot be read.
std::string module_names_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (may_be_module(name)) found.push_back(std::move(name));
  }
  std::sort(found.begin(), found.end());
  std::string names;
  for (const std::string& name : found)
    names += name + '/';
  return names;
}

}  // namespace

std::optional<imported_files::entry> imported_files::entry_of(std::string_view text) {
  entry made;
  if (!text.starts_with("F ") && !text.starts_with("D ")) return std::nullopt;
  made.is_folder = text.front() == 'D';
  text.remove_prefix(2);
  if (!take_number(text, made.time) || !take_number(text, made.bytes) ||
      !take_number(text, made.number) || text.empty())
    return std::nullopt;
  made.path = text;
  return made;
}

std::optional<imported_files> imported_files::read(std::string_view text) {
  imported_files files;
  while (!text.empty()) {
    const auto taken = take_until(text, '\0');
    if (!taken) return std::nullopt;
    auto made = entry_of(*taken);
    if (!made) return std::nullopt;
    if (made->is_folder) {
      const auto names = take_until(text, '\0');
      if (!names) return std::nullopt;
      made->names = *names;
    }
    files.entries_.push_back(std::move(*made));
  }
  return files;
}

bool imported_files::has_changed(const entry& one) {
  struct stat found {};
  if (::stat(one.path.c_str(), &found) != 0) return true;
  const std::int64_t time =
      std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
  if (time == one.time && found.st_ino == one.number &&
      (one.is_folder || static_cast<std::uint64_t>(found.st_size) == one.bytes))
    return false;
  return !one.is_folder || module_names_in(one.path) != one.names;
}

std::string imported_files::changed() const {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t first = entries_.size();
  const auto look = [&] {
    for (;;) {
      const std::size_t from = next.fetch_add(looked_at_once);
      if (from >= entries_.size()) return;
      const std::size_t until = std::min(from + looked_at_once, entries_.size());
      for (std::size_t index = from; index < until; ++index) {
        if (!has_changed(entries_[index])) continue;
        next = entries_.size();  // one is enough
        const std::lock_guard lock(mutex);
        first = std::min(first, index);
        return;
      }
    }
  };
  std::vector<std::jthread> others;
  const std::size_t wanted = std::min(threads_max, entries_.size() / looked_at_once);
  try {
    while (others.size() + 1 < wanted)
      others.emplace_back(look);
  } catch (const std::system_error&) {  // those that there are do it
  }
  look();
  others.clear();
  return first < entries_.size() ? entries_[first].path : std::string();
}

}  // namespace ddprun::launcher::warm
