// The desk is what the loop and the threads of a vault have in common: what is asked for, and
// where the workers' folder is at the moment.
//
// The threads may hang in a disk for ever, and outlive the loop then: they hold the desk, and it
// holds nothing of the loop's but a way to tell it something, which ends with the keeper.
//
// Thread rule: any thread, under its mutex; what is atomic, without.
#pragma once

#include "launcher/cli/vault_options.hpp"
#include "launcher/vault/memory_home.hpp"
#include "launcher/vault/origin.hpp"
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
  std::string memory;  // what workers are given
  std::string disk;    // empty: no copy can be kept
  unique_fd lock;      // on `disk`
};

// What the buddy is to keep, too.
struct outgoing {
  std::uint32_t group_rank = 0;
  std::string memory;  // where it is
  std::string disk;    // where there may be a copy; empty: nowhere
  entry newest;

  owned_version which() const { return {group_rank, newest.what}; }
};

struct desk {
  using teller = std::function<void(note_level, const std::string&)>;

  vault_options wanted;  // with a whole path
  std::string mark;
  std::function<std::optional<std::uint64_t>()> memory_left;  // of the node; blocks

  std::mutex mutex;
  std::condition_variable changed;
  memory_home home;         // of the preparing thread, and of the copying one at the very end
  std::uint64_t limit = 0;  // bytes of memory
  std::shared_ptr<const shelf> current;
  std::string folder;  // of current, as soon as it can be written to
  // Or hidden: not there for anybody any more, wherever copies of it are.
  std::set<owned_version> set_aside;
  std::set<std::string> damaged;            // folders on disk
  origin_record origins;                    // of what is in memory
  std::set<std::uint32_t> savers;           // group ranks that have ever saved anything
  std::optional<peer> buddy;                // the node that keeps a copy of what is saved here
  std::optional<std::uint32_t> own_saver;   // the group rank of this node, whose workers have saved
  std::shared_ptr<const outgoing> to_send;  // none: there is nothing
  std::uint64_t hurries_asked = 0;          // copies that are wanted at once
  std::uint64_t hurries_done = 0;
  bool is_ending = false;
  bool is_abandoned = false;  // nobody waits for what is copied
  bool ends_well = false;
  bool is_over = false;  // all that can be on disk is, and the memory is given back

  std::mutex preparing;                     // held by a preparation
  std::atomic<bool> is_silent = false;      // the disk has not answered one
  std::atomic<std::uint64_t> ticket = 0;    // of the newest preparation: older ones give up
  std::atomic<std::uint64_t> progress = 0;  // goes up as long as no disk hangs
  std::atomic<std::uint64_t> moved = 0;     // bytes, by preparations

  void tell(note_level level, const std::string& text);
  // Not again until another text of that kind was told; an empty one is only remembered.
  void tell_once(const std::string& kind, const std::string& text);
  void tell_to(teller to);  // empty: nobody any more

  // A preparation has moved so many bytes.
  void note_moved(std::uint64_t bytes) {
    ++progress;
    moved += bytes;
  }

  void hurry();
  bool is_hurried() const { return hurries_done < hurries_asked || is_ending; }  // under the mutex
  bool is_set_aside(const owned_version& which);
  // A folder on disk whose files are not what its manifest says.
  void note_damaged(const std::string& kept);
  bool is_damaged(const std::string& kept);
  origin origin_of(const owned_version& which);

 private:
  std::mutex telling_;
  teller to_;
  std::map<std::string, std::string> told_;  // by kind
};

}  // namespace ddprun::launcher::vault
