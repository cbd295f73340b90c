// A snapshot is the state of a training job at one step, kept so that it is whole or not there:
// whatever crashes, and whenever, a snapshot that was reported saved is found again.
//
// A folder has one writer at a time. Opening it draws a *tenure*, a number greater than every one
// before in that folder, and leaves a claim file with it. Snapshots are ordered by (tenure, step):
// so a worker of an old round that comes back late (it was frozen, or cut off and not yet fenced)
// may write what it likes, its snapshots never win over those of a newer round, and it is refused
// at the latest with its next save. Tenures rather than rounds, because rounds begin at 1 again
// when the same command is started tomorrow, and because torchrun has none.
//
// A save writes a temporary file, syncs it, renames it, syncs the folder, and only then removes
// snapshots beyond the newest `keep`. Until then the old ones stay as they are: a full disk or a
// read-only folder costs the new snapshot, never an old one. Nothing is removed but what the writer
// has written itself or whose header it has read: a file that cannot be read stays for ever.
//
// All ranks must go on from the same snapshot: let rank 0 read and hand it to the others, or the
// choice of it (two ranks that look at different moments may see different newest ones). The
// folder must be the same for every node that may come to hold rank 0: a shared file system.
//
// Thread rule: one thread per object.
// Errors: the error code returned is the kernel's or an errc (refused: a newer round has the
// folder; damaged: a file fails its checksum); the sentence with path and reason goes to
// `on_message`.
#pragma once

#include "worker/file_system.hpp"
#include "worker/snapshot_format.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

constexpr std::uint64_t snapshot_bytes_max = std::uint64_t{1} << 36;  // 64 GiB, of a whole file

// Receives one line a time, without its end. The default writes it to stderr.
using message_handler = std::function<void(const std::string& line)>;
void write_to_stderr(const std::string& line);

struct snapshot {
  snapshot_info info;
  std::string path;
  std::string file;  // header and payload, as read
  std::string_view payload() const { return std::string_view(file).substr(snapshot_header_bytes); }
};

// The newest whole snapshot in the folder; none when there is none, or no such folder. Files that
// are torn or damaged are skipped, each with a message, and so are those that an older round left
// with a higher step than the newest.
//
// Any other trouble is an error, and training must not begin: a disk that cannot read for a moment,
// a file of a newer format, snapshots of which every one is damaged. Going on would throw the
// history away.
result<std::optional<snapshot>> newest_snapshot(file_system& files, const std::string& folder,
                                                const message_handler& on_message);

struct snapshot_options {
  std::string folder;        // made when it is not there
  std::size_t keep = 3;      // newest snapshots to keep, at least 1
  instance_id instance = 0;  // of this run, from worker::environment; 0 when there is none
  round_number round = 1;
  message_handler on_message = write_to_stderr;
};

class snapshot_writer {
 public:
  // Claims the folder; errc::refused when a newer round of the same instance has it.
  static result<snapshot_writer> open(file_system& files, snapshot_options options);

  // Saves and returns the path. `step` must not fall between two saves of one writer; saving a
  // step again replaces it. errc::limit_reached: more than snapshot_bytes_max with its header.
  result<std::string> save(std::uint64_t step, std::uint64_t epoch, std::string_view payload);

  std::uint64_t tenure() const { return tenure_; }

 private:
  snapshot_writer(file_system& files, snapshot_options options)
      : files_(&files), options_(std::move(options)) {}

  std::string path(const std::string& name) const { return options_.folder + "/" + name; }
  error_code say(error_code error, const std::string& what) const;
  error_code claim();
  error_code check_claim(const std::vector<std::string>& names, std::uint64_t& tenure_max) const;
  error_code make_folders() const;
  void remove_leftovers(const std::vector<std::string>& names) const;
  void verify(const std::vector<std::string>& names);
  void remove_beyond_keep();

  file_system* files_;
  snapshot_options options_;
  std::uint64_t tenure_ = 0;
  std::set<snapshot_order> verified_;  // written by us, or with a header that we have read
};

}  // namespace ddprun::worker
