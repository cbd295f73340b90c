// The desk is the state that the loop and the threads of a vault share: what is asked for, and
// where the workers' folder is at the moment.
//
// Threads may hang in a disk forever and outlive the loop. They hold the desk, and the desk holds
// nothing of the loop's except a way to send it messages, which the keeper cuts when it ends.
//
// Thread rule: any thread. All members need the mutex, except those that are atomic.
#pragma once

#include "launcher/cli/vault_options.hpp"
#include "launcher/vault/entry_origin.hpp"
#include "launcher/vault/memory_home.hpp"
#include "launcher/vault/peer_calls.hpp"
#include "launcher/vault/vault_rules.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher::vault {

// Where the vault of one group rank is.
struct shelf {
  std::uint32_t group_rank = 0;
  std::string memory;  // the folder that workers are given
  std::string disk;    // empty: copies cannot be kept
  unique_fd lock;      // on the lock file of `disk`
};

// The entry that the buddy has to copy.
struct outgoing {
  std::uint32_t group_rank = 0;
  std::string memory;  // the folder that it is in
  std::string disk;    // the folder that may have a copy; empty: none has
  entry newest;

  owned_version which() const { return {group_rank, newest.what}; }
};

struct desk {
  using teller = std::function<void(note_level, const std::string&)>;

  vault_options wanted;  // `disk` is an absolute path
  std::string mark;
  std::function<std::optional<std::uint64_t>()> memory_left;  // of the node; may block

  std::mutex mutex;
  std::condition_variable changed;
  memory_home home;  // used by the preparing thread, and at the very end by the copying thread
  std::uint64_t limit = 0;  // in bytes of memory
  std::shared_ptr<const shelf> current;
  std::string folder;  // of `current`, as soon as workers may write to it
  // Entries that are set aside or hidden: no copy of them may be used any more.
  std::set<owned_version> set_aside;
  std::set<std::string> damaged;            // folders on disk
  origin_record origins;                    // of the entries in memory
  std::set<std::uint32_t> savers;           // group ranks that have ever saved
  std::optional<peer> buddy;                // the node that keeps our copies
  std::optional<std::uint32_t> own_saver;   // our group rank, if our workers have saved
  std::shared_ptr<const outgoing> to_send;  // none: there is nothing to send
  std::uint64_t hurries_asked = 0;          // requests for a copy at once
  std::uint64_t hurries_done = 0;
  bool is_ending = false;
  bool is_abandoned = false;  // drop all copies in progress
  bool ends_well = false;
  bool is_over = false;  // everything that can be on disk is, and the memory is freed

  std::mutex preparing;                     // held while a preparation runs
  std::atomic<bool> is_silent = false;      // the disk has not answered a preparation
  std::atomic<std::uint64_t> ticket = 0;    // of the newest preparation; older ones give up
  std::atomic<std::uint64_t> progress = 0;  // grows as long as no disk hangs
  std::atomic<std::uint64_t> moved = 0;     // bytes that preparations have copied

  void tell(note_level level, const std::string& text);
  // Prints `text` unless it is the last one of its kind. An empty text is only remembered, so that
  // the next one is printed again.
  void tell_once(const std::string& kind, const std::string& text);
  void tell_to(teller to);  // empty: messages are dropped

  void note_moved(std::uint64_t bytes) {
    ++progress;
    moved += bytes;
  }

  void hurry();
  bool is_hurried() const { return hurries_done < hurries_asked || is_ending; }  // needs the mutex
  bool is_set_aside(const owned_version& which);
  // Marks a folder on disk whose files do not match its manifest.
  void note_damaged(const std::string& kept);
  bool is_damaged(const std::string& kept);
  origin origin_of(const owned_version& which);

 private:
  std::mutex telling_;
  teller to_;
  std::map<std::string, std::string> told_;  // by kind
};

}  // namespace ddprun::launcher::vault
