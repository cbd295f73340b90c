// What lies in a vault, and what becomes of it: which entries are complete, which of them is the
// newest, which go, and which is distrusted.
//
// An entry is what a worker has saved at one moment, as files below the vault's folder:
//
//   step-100/...   step-100/.complete   a folder, with a marker in it
//   step-100.pt    step-100.pt.complete a file (or a folder), with a marker beside it
//   step-100/...   step-100/.metadata   of torch.distributed.checkpoint, right in the vault's
//   folder snapshot-000001-000100/...          of worker/snapshot, whose manifest.json is the
//   marker
//
// It is complete once its marker is there, and none of its files is newer than that: what is
// written anew without a new marker is not. The time of the marker orders the entries.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::vault {

inline constexpr std::string_view marker_name = ".complete";

// The newest of which so many stay on disk; and are put back, where a node has lost its memory: two
// nodes may have lost theirs a step apart.
inline constexpr std::size_t kept_on_disk = 4;
inline constexpr std::size_t put_back = 2;
// What workers went on from is set aside when so many rounds in a row have failed from there.
inline constexpr std::uint32_t failures_to_distrust = 2;

enum class file_kind {
  regular,
  folder,
  strange,  // a link, a socket, a device: never followed, never copied
};

// One thing in a vault's folder. Paths are from there, with "/" between.
struct found_file {
  std::string path;
  file_kind kind = file_kind::regular;
  std::uint64_t size = 0;        // bytes
  std::uint64_t occupied = 0;    // bytes of memory
  std::int64_t modified_ns = 0;  // since 1970
  bool is_hollow = false;        // it had no room: see memory_guard.hpp
};

// What tells one state of an entry from another; newer is greater.
struct version {
  std::int64_t order = 0;  // when its marker was written, in ns since 1970
  std::string name;        // "step-100", "out/checkpoint-500"
  auto operator<=>(const version&) const = default;
};

// One of a certain node's: two nodes give their entries the same names.
struct owned_version {
  std::uint32_t of = 0;  // the group rank that its workers had
  version what;
  auto operator<=>(const owned_version&) const = default;
};

// The round of the job whose workers have saved an entry.
//
// The parts of one entry are of one round: two of one name may be of two, where a job went back and
// came to the same step once more. The number of its nodes says whose parts there are: of an entry
// that one node saved while it was alone nothing is missing. It is not known of what was saved
// while the nodes had nothing in common.
struct origin {
  std::string round;        // "7319.4", instance and round, on all of its nodes; empty: not known
  std::uint32_t nodes = 0;  // of that round; 0: not known
  auto operator<=>(const origin&) const = default;

  bool is_known() const { return nodes != 0; }
  // Its workers may have saved a part; a node that came later may have been given one.
  bool has_part_of(std::uint32_t group_rank) const { return !is_known() || group_rank < nodes; }
};

struct entry {
  version what;
  std::vector<found_file> files;  // the marker last
  std::uint64_t size = 0;
  std::string problem;  // why it cannot be kept; empty: it can
  origin from;          // files do not tell it: where the desk knows it
};

// The complete ones, oldest first.
std::vector<entry> complete_entries(std::vector<found_file> found);

// The memory that all of it takes.
std::uint64_t occupied_by(const std::vector<found_file>& found);

// Which complete entries go from memory, so that one more as large as the newest has room within
// `limit`: the oldest first, never the newest. `occupied`: by all that lies there.
std::vector<version> to_drop(const std::vector<entry>& complete, std::uint64_t occupied,
                             std::uint64_t limit);

// One that may be opened below a folder: relative, without "..", and of printable parts.
bool is_safe_path(std::string_view path);

// The folder of a version on disk, "00001732606339000000000-step-100", and back: in the order of
// their names they are in the order of their age. None: it is no such name.
std::string folder_of(const version& what);
std::optional<std::int64_t> order_in(std::string_view folder);

// Whether what workers go on from leads anywhere.
class trial {
 public:
  // A round begins with that as the newest; none: with nothing.
  void begin(const std::optional<version>& newest);
  // It has failed, and left that as the newest. The version that is to be set aside, if any.
  std::optional<version> fail(const std::optional<version>& newest);

 private:
  std::optional<version> begun_with_;
  std::uint32_t failures_ = 0;  // in a row, from there
};

// How much memory a vault may take.
struct memory_facts {
  std::uint64_t size = 0;  // of the file system in memory
  std::uint64_t free = 0;
  std::optional<std::uint64_t> left;  // of the node, and of the cgroups that we are in
};
struct budget {
  std::uint64_t limit = 0;
  bool is_less_than_asked = false;
};
// `asked`: 0: half of what there is.
budget budget_for(std::uint64_t asked, const memory_facts& facts);

}  // namespace ddprun::launcher::vault
