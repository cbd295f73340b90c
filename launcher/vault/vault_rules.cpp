#include "launcher/vault/vault_rules.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

constexpr std::string_view manifest_of_snapshot = "manifest.json";
constexpr std::string_view metadata_of_dcp = ".metadata";
// worker/snapshot adds these files to a complete snapshot, to record who has resumed from it.
constexpr std::string_view note_of_snapshot = "resumed-";
constexpr std::size_t order_digits = 20;

struct split_path {
  std::string_view folder;  // empty: the vault's own folder
  std::string_view name;
};

split_path split_last(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {{}, path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

bool is_snapshot(std::string_view folder) {
  return split_last(folder).name.starts_with("snapshot-");
}

bool is_below(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() + 1 && path.starts_with(folder) && path[folder.size()] == '/';
}

// Returns the entry that this file marks; empty: it is no marker.
std::string_view marked_by(std::string_view path) {
  const auto [folder, name] = split_last(path);
  if (name == marker_name) return folder;
  if (name == metadata_of_dcp)
    return folder.find('/') == std::string_view::npos ? folder : std::string_view();
  if (name == manifest_of_snapshot) return is_snapshot(folder) ? folder : std::string_view();
  if (name.ends_with(marker_name)) return path.substr(0, path.size() - marker_name.size());
  return {};
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "__3_0.distcp", of rank 3.
bool is_file_of_dcp(std::string_view name) {
  constexpr std::string_view begin = "__", end = ".distcp";
  if (!name.starts_with(begin) || !name.ends_with(end)) return false;
  name = name.substr(begin.size(), name.size() - begin.size() - end.size());
  const std::size_t middle = name.find('_');
  return middle != std::string_view::npos && is_number(name.substr(0, middle)) &&
         is_number(name.substr(middle + 1));
}

using files = std::vector<found_file>;

// `found` is sorted by path, so everything below a folder is contiguous.
entry gather(const files& found, std::string_view name, const found_file& marker) {
  entry made;
  made.what = {marker.modified_ns, std::string(name)};
  const auto take = [&](const found_file& one) {
    if (one.path == marker.path || one.kind == file_kind::folder) return;
    if (split_last(one.path).name == resumed_note) return;  // newer than the marker, likewise
    // These notes are newer than the marker, and would make the entry incomplete.
    if (is_snapshot(name) && split_last(one.path).name.starts_with(note_of_snapshot)) return;
    if (one.kind == file_kind::strange)
      made.problem = one.path + " is neither a file nor a folder";
    else if (one.is_hollow)
      made.problem = "it had no room in memory";
    else if (!is_safe_path(one.path))
      made.problem = "a file's name has odd characters";
    made.files.push_back(one);
    made.size += one.size;
  };
  auto at = std::lower_bound(
      found.begin(), found.end(), name,
      [](const found_file& one, std::string_view sought) { return one.path < sought; });
  for (; at != found.end() && at->path.starts_with(name); ++at) {
    if (at->path == name || is_below(at->path, name)) take(*at);
  }
  made.files.push_back(marker);
  made.size += marker.size;
  return made;
}

bool is_complete(const entry& one) {
  const bool is_alone =
      one.files.size() == 1 && one.files.back().path == one.what.name + std::string(marker_name);
  // A marker without its file or folder marks nothing.
  return !is_alone && std::all_of(one.files.begin(), one.files.end(), [&](const found_file& file) {
    return file.modified_ns <= one.what.order;
  });
}

}  // namespace

std::vector<entry> complete_entries(files found) {
  std::sort(found.begin(), found.end(),
            [](const found_file& a, const found_file& b) { return a.path < b.path; });
  std::map<std::string_view, const found_file*> markers;  // by the entry's name
  for (const found_file& one : found) {
    const std::string_view name = marked_by(one.path);
    if (name.empty() || one.kind != file_kind::regular) continue;
    // Our marker takes precedence over a library's.
    const found_file*& marker = markers[name];
    if (marker == nullptr || one.path.ends_with(marker_name)) marker = &one;
  }
  const std::vector<std::string> parts = folders_of_parts(found);
  std::vector<entry> complete;
  std::string_view outer;
  for (const auto& [name, marker] : markers) {
    if (!outer.empty() && is_below(name, outer)) continue;  // it is a part of the outer entry
    outer = name;
    entry made = gather(found, name, *marker);
    const auto part = std::find_if(parts.begin(), parts.end(), [&name = name](const auto& folder) {
      return is_in(folder, name);
    });
    if (part != parts.end()) {
      made.problem =
          *part +
          " has files of a DCP checkpoint and no .metadata: it was not yet written when it "
          "was marked, or ranks of several nodes save it together (use a folder that all "
          "of them share)";
    }
    if (is_complete(made)) complete.push_back(std::move(made));
  }
  std::sort(complete.begin(), complete.end(),
            [](const entry& a, const entry& b) { return a.what < b.what; });
  return complete;
}

bool is_in(std::string_view path, std::string_view folder) {
  return path == folder || is_below(path, folder);
}

std::vector<std::string> folders_of_parts(const files& found) {
  std::set<std::string_view> parts;
  for (const found_file& one : found) {
    const auto [folder, name] = split_last(one.path);
    if (!folder.empty() && one.kind == file_kind::regular && is_file_of_dcp(name))
      parts.insert(folder);
  }
  for (const found_file& one : found) {
    const auto [folder, name] = split_last(one.path);
    if (name == metadata_of_dcp && one.kind == file_kind::regular) parts.erase(folder);
  }
  return {parts.begin(), parts.end()};
}

std::uint64_t occupied_by(const files& found) {
  std::uint64_t all = 0;
  for (const found_file& one : found)
    all += one.occupied;
  return all;
}

std::vector<version> to_drop(const std::vector<entry>& complete, std::uint64_t occupied,
                             std::uint64_t limit) {
  std::vector<version> dropped;
  if (complete.empty()) return dropped;
  const std::uint64_t wanted = complete.back().size;
  for (std::size_t index = 0; index + 1 < complete.size(); ++index) {
    if (occupied + wanted <= limit) break;
    dropped.push_back(complete[index].what);
    occupied -= std::min(occupied, complete[index].size);
  }
  return dropped;
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > 1024) return false;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part.size() > 255 || part == "." || part == "..") return false;
    if (std::any_of(part.begin(), part.end(), [](unsigned char c) { return c < ' ' || c == 127; }))
      return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::string folder_of(const version& what) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%0*lld", static_cast<int>(order_digits),
                static_cast<long long>(what.order));
  std::string name = what.name.substr(0, 100);
  std::replace(name.begin(), name.end(), '/', '_');
  return std::string(digits) + "-" + name;
}

std::optional<std::int64_t> order_in(std::string_view folder) {
  if (folder.size() <= order_digits || folder[order_digits] != '-') return std::nullopt;
  std::int64_t order = 0;
  const char* const end = folder.data() + order_digits;
  const auto read = std::from_chars(folder.data(), end, order);
  if (read.ec != std::errc() || read.ptr != end || order < 0) return std::nullopt;
  return order;
}

void trial::begin(const std::optional<version>& newest) {
  if (newest != begun_with_) failures_ = 0;
  begun_with_ = newest;
}

std::string resumed_note_of(const version& what) {
  const std::string_view folder = split_last(what.name).folder;
  return std::string(folder) + (folder.empty() ? "" : "/") + std::string(resumed_note);
}

bool was_resumed(const version& newest, const std::optional<std::string>& note) {
  if (!note) return true;
  const std::string_view named = std::string_view(*note).substr(0, note->find('\n'));
  return named == split_last(newest.name).name;
}

std::optional<version> trial::fail(const std::optional<version>& newest, bool has_resumed) {
  if (!newest || newest != begun_with_ || !has_resumed) {
    failures_ = 0;
    return std::nullopt;
  }
  if (++failures_ < failures_to_distrust) return std::nullopt;
  failures_ = 0;
  return newest;
}

budget budget_for(std::uint64_t asked, const memory_facts& facts) {
  const std::uint64_t room = std::min(facts.free, facts.left.value_or(facts.free));
  if (asked == 0) return {std::min(facts.size / 2, room / 2), false};
  return {std::min(asked, room), room < asked};
}

}  // namespace ddprun::launcher::vault
