// The files of a vault: lists them, copies them to disk, and restores them.
//
// Workers write to these folders, and anyone may have written to a disk: below the folder that the
// caller has opened no link is followed, and only regular files are opened.
//
// Thread rule: any thread; every call may block as long as a disk hangs. Errors: `problem`, text
// for the end of a line, with the system's message.
#pragma once

#include "launcher/vault/vault_manifest.hpp"
#include "launcher/vault/vault_rules.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::vault {

// Called after each piece of a copy with its size; it blocks to slow the copy down. False ends the
// copy.
using pace = std::function<bool(std::uint64_t bytes)>;

struct outcome {
  std::string problem;        // empty: success
  bool has_changed = false;   // a worker wrote to it meanwhile: try again later
  bool is_damaged = false;    // a checksum is wrong, or a file is missing
  bool is_abandoned = false;  // `pace` has ended it
  bool is_lost = false;       // the connection broke off: another try may succeed
  bool is_done() const { return problem.empty(); }
};

// The folder itself may be a link; links below it are not followed.
result<unique_fd> open_folder(const std::string& path);

// Lists everything below it, to a depth and number that no framework reaches.
std::vector<found_file> list_files(int folder);

// Removes it with everything below. It may be gone already.
void remove_below(int folder, std::string_view path);
// Removes the entry and its marker.
void remove_entry(int folder, std::string_view name);

// Renames the entry's marker, so that it is not complete any more. False: the marker is gone.
inline constexpr std::string_view unmarked_suffix = "-not-everywhere";
bool unmark_entry(int folder, const entry& one);

// The content of the note beside an entry about what was resumed from; none: there is no such note.
std::optional<std::string> read_resumed_note(int folder, const version& beside);
// Empties all such notes, as nothing has resumed in the round that begins.
void clear_resumed_notes(int folder);

// Copies an entry to disk, completely or not at all: under another name first, which is then
// renamed. `mark` keeps it apart from the copies of others.
outcome keep_on_disk(int memory, const entry& kept, const std::string& disk, std::string_view mark,
                     const pace& go_on);

// The same, but `fill` writes the files to the new folder, below `files_folder`, and the manifest.
outcome keep_by(const std::string& disk, const version& what, std::string_view mark,
                const std::function<outcome(int unfinished, manifest& made)>& fill);

// The folders of `disk` that hold an entry each, newest first.
std::vector<std::string> kept_folders(const std::string& disk);
std::optional<manifest> read_manifest(const std::string& kept);
// Restores an entry under its name, replacing what has that name, and checks it.
outcome put_back_from(const std::string& kept, const manifest& wanted, int memory,
                      const pace& go_on);

// Removes all but the newest `count` entries.
void remove_older(const std::string& disk, std::size_t count);
// Removes unfinished copies of agents that died.
void remove_unfinished(const std::string& disk);
// Renames the entries newer than `order`, so that they are not found any more. The newest
// `kept_on_disk` of these keep their files, and some older ones their manifest.
void hide_newer(const std::string& disk, std::int64_t order);
// Renames an entry, so that it is not found any more. Of those set aside earlier only the manifests
// stay. False: it is not there.
bool set_aside_on_disk(const std::string& disk, const version& what);
// The entries that were renamed so.
std::vector<version> set_aside_in(const std::string& disk);

}  // namespace ddprun::launcher::vault
