// The rules of a vault: which entries are complete, which is the newest, which are removed, and
// which is distrusted.
//
// An entry is what a worker has saved at one moment, as files in the vault's folder:
//
//   step-100/...     step-100/.complete    a folder, with a marker in it
//   step-100.pt      step-100.pt.complete  a file (or a folder), with a marker beside it
//   step-100/...     step-100/.metadata    of torch.distributed.checkpoint, only at the vault's top
//   snapshot-000001-000100/...             of worker/snapshot, whose marker is manifest.json
//
// It is complete if its marker is there and none of its files is newer: an entry that is
// overwritten without a new marker is incomplete. Entries are ordered by the time of their marker.
//
// Files of torch.distributed.checkpoint ("__3_0.distcp") are worth nothing without the `.metadata`
// in their folder, however deep in the entry that is. Where ranks of several nodes save one
// checkpoint together, only the coordinator's node gets it: what lies on the others is a part.
//
// Workers that do not simply resume from the newest entry say so in a file beside the entries,
// `.resumed-from`: the name of the entry that they have resumed from, or nothing.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::vault {

inline constexpr std::string_view marker_name = ".complete";
inline constexpr std::string_view resumed_note = ".resumed-from";

// How many of the newest entries stay on disk, and how many are restored if a node has lost its
// memory: two nodes may have saved last one step apart.
inline constexpr std::size_t kept_on_disk = 4;
inline constexpr std::size_t put_back = 2;
// After so many failed rounds in a row, the entry from which the workers resumed is set aside.
inline constexpr std::uint32_t failures_to_distrust = 2;

enum class file_kind {
  regular,
  folder,
  strange,  // a link, a socket, a device: never followed, never copied
};

// A file in a vault's folder. The path is relative to it.
struct found_file {
  std::string path;
  file_kind kind = file_kind::regular;
  std::uint64_t size = 0;        // bytes
  std::uint64_t occupied = 0;    // bytes of memory
  std::int64_t modified_ns = 0;  // since 1970
  bool is_hollow = false;        // its pages were freed: see memory_guard.hpp
};

// Identifies one state of an entry; newer is greater.
struct version {
  std::int64_t order = 0;  // when its marker was written, in ns since 1970
  std::string name;        // "step-100", "out/checkpoint-500"
  auto operator<=>(const version&) const = default;
};

// A version with the node that saved it: nodes use the same names.
struct owned_version {
  std::uint32_t of = 0;  // the group rank of those workers
  version what;
  auto operator<=>(const owned_version&) const = default;
};

// The round of the job in which workers saved an entry.
//
// All parts of an entry must be of one round: two parts of the same name differ if the job went
// back and came to the same step once more. The number of nodes tells how many parts there may be:
// an entry that a single node saved alone lacks nothing. The origin is unknown if the nodes had not
// agreed on a common entry.
struct origin {
  std::string round;        // "7319.4", instance and round, the same on all nodes; empty: unknown
  std::uint32_t nodes = 0;  // in that round; 0: unknown
  auto operator<=>(const origin&) const = default;

  bool is_known() const { return nodes != 0; }
  // True if that node's workers may have saved a part. A node that joined later may have been given
  // one.
  bool has_part_of(std::uint32_t group_rank) const { return !is_known() || group_rank < nodes; }
};

struct entry {
  version what;
  std::vector<found_file> files;  // the marker is the last
  std::uint64_t size = 0;
  std::string problem;  // why it cannot be copied; empty: it can
  origin from;          // set from the desk, as the files do not tell
};

// The complete entries, oldest first.
std::vector<entry> complete_entries(std::vector<found_file> found);

// The folders that have a part of a checkpoint (above), or one that is still being written, sorted.
std::vector<std::string> folders_of_parts(const std::vector<found_file>& found);

// True for "out/step-1" and for "out/step-1/model" in "out/step-1".
bool is_in(std::string_view path, std::string_view folder);

// The memory that all of them occupy.
std::uint64_t occupied_by(const std::vector<found_file>& found);

// The complete entries to remove from memory, so that one more as large as the newest fits within
// `limit`: the oldest first, never the newest. `occupied` counts everything in the vault.
std::vector<version> to_drop(const std::vector<entry>& complete, std::uint64_t occupied,
                             std::uint64_t limit);

// True for a path that may be opened below a folder: relative, without "..", and printable.
bool is_safe_path(std::string_view path);

// The folder of a version on disk, "00001732606339000000000-step-100", and back. Sorted by name
// they are sorted by age. None: the name has another form.
std::string folder_of(const version& what);
std::optional<std::int64_t> order_in(std::string_view folder);

// The path of the note beside an entry.
std::string resumed_note_of(const version& what);
// What the note says of an entry beside it. Without a note, workers resume from the newest.
bool was_resumed(const version& newest, const std::optional<std::string>& note);

// Counts the rounds that fail without progress from the same entry.
class trial {
 public:
  // A round begins with that as the newest entry; none: there is no entry.
  void begin(const std::optional<version>& newest);
  // The round has failed and left that as the newest, from which its workers had resumed, or not.
  // Returns the version to set aside, if any.
  std::optional<version> fail(const std::optional<version>& newest, bool has_resumed);

 private:
  std::optional<version> begun_with_;
  std::uint32_t failures_ = 0;  // in a row, from begun_with_
};

struct memory_facts {
  std::uint64_t size = 0;  // of the file system in memory
  std::uint64_t free = 0;
  std::optional<std::uint64_t> left;  // of the node, and within our cgroups
};
struct budget {
  std::uint64_t limit = 0;
  bool is_less_than_asked = false;
};
// `asked` 0: half of what there is.
budget budget_for(std::uint64_t asked, const memory_facts& facts);

}  // namespace ddprun::launcher::vault
