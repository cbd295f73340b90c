// The files of a vault: looked through, copied to disk and put back.
//
// Workers write there, and a disk may have been written by anybody: below the folder that the
// caller has opened no link is followed, and nothing but regular files is opened.
//
// Thread rule: any thread; every call may block for as long as a disk hangs. Errors: `problem`, a
// line's end for a person, with the system's words.
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

// Called after each piece of a copy, with its bytes: waits where the copy is to be slow. False: it
// is given up.
using pace = std::function<bool(std::uint64_t bytes)>;

struct outcome {
  std::string problem;        // empty: it is done
  bool has_changed = false;   // a worker wrote there meanwhile: to be tried again later
  bool is_damaged = false;    // its checksum is wrong, or something of it is missing
  bool is_abandoned = false;  // `pace` said so
  bool is_lost = false;       // a connection broke off: another try may succeed
  bool is_done() const { return problem.empty(); }
};

// The folder itself may be a link; what is below is not followed.
result<unique_fd> open_folder(const std::string& path);

// All below it, to a depth and a number that no saver comes to.
std::vector<found_file> list_files(int folder);

// With all that is below; one that is not there is removed already.
void remove_below(int folder, std::string_view path);
// With the marker beside it.
void remove_entry(int folder, std::string_view name);

// Takes its marker away, under another name: nobody takes it for complete. False: it is not there.
inline constexpr std::string_view unmarked_suffix = "-not-everywhere";
bool unmark_entry(int folder, const entry& one);

// Copies an entry to disk, whole or not at all: under another name first, then renamed. `mark`
// tells it from copies that others are making there.
outcome keep_on_disk(int memory, const entry& kept, const std::string& disk, std::string_view mark,
                     const pace& go_on);

// The same with what `fill` puts into the new folder, below `files_folder`, and into the manifest.
outcome keep_by(const std::string& disk, const version& what, std::string_view mark,
                const std::function<outcome(int unfinished, manifest& made)>& fill);

// The folders of `disk` that hold an entry each, newest first.
std::vector<std::string> kept_folders(const std::string& disk);
std::optional<manifest> read_manifest(const std::string& kept);
// Puts one back under its name, in place of whatever has that name, and checks it.
outcome put_back_from(const std::string& kept, const manifest& wanted, int memory,
                      const pace& go_on);

// All but the newest `count`; and what copies have left whose agents died.
void remove_older(const std::string& disk, std::size_t count);
void remove_unfinished(const std::string& disk);
// What is newer than `order` gets a name by which it is not found again; of such the newest
// `kept_on_disk` stay, and of some before them the manifest.
void hide_newer(const std::string& disk, std::int64_t order);
// Gives a kept one a name by which it is not found again; of those before it only the manifest
// stays. False: it is not there.
bool set_aside_on_disk(const std::string& disk, const version& what);
// Those that have such a name.
std::vector<version> set_aside_in(const std::string& disk);

}  // namespace ddprun::launcher::vault
