// The part of a preparation in which the nodes of a round agree on one entry.
#include "launcher/base/node_files.hpp"
#include "launcher/base/text.hpp"
#include "launcher/vault/peer_calls.hpp"
#include "launcher/vault/preparation.hpp"
#include "launcher/vault/restoring.hpp"
#include "launcher/vault/vault_files.hpp"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <set>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

// A node that once wrote no word (its ddprun may be older) must not delay every round.
constexpr std::chrono::seconds limit_after_silence{2};
constexpr std::string_view copy_prefix = "copy-of-";
// With more folders of other nodes than this, the folder is shared by all nodes, and each node
// lists its own.
constexpr std::size_t foreign_folders_max = 16;

struct foreign_folder {
  std::uint32_t of = 0;
  std::string path;
};

// Returns the folders on disk with entries of other nodes, unless a running agent has locked them.
std::vector<foreign_folder> foreign_folders(const std::string& disk, std::uint32_t own) {
  std::vector<foreign_folder> copies, others;
  for (const std::string& name : names_in(disk)) {
    const bool is_copy = name.starts_with(copy_prefix);
    const auto of = node_in(std::string_view(name).substr(is_copy ? copy_prefix.size() : 0));
    if (!of || (!is_copy && *of == own)) continue;
    const foreign_folder found{*of, disk + "/" + name};
    if (is_copy) {
      copies.push_back(found);
      continue;
    }
    const unique_fd lock(::open((found.path + "/.lock").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) others.push_back(found);
  }
  if (others.size() <= foreign_folders_max)
    copies.insert(copies.end(), others.begin(), others.end());
  return copies;
}

std::string numbers_of(const std::set<std::uint32_t>& nodes) {
  constexpr std::size_t named_max = 8;
  std::string text;
  std::size_t named = 0;
  for (const std::uint32_t node : nodes) {
    if (named++ == named_max) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::to_string(node);
  }
  return text;
}

// The leader is dialled at the store's address, which is known to work from here.
std::optional<peer> peer_of(const round_place& here, const agreed& found, std::uint32_t node) {
  const node_word& word = found.words[node];
  if (word.port == 0 || node == here.group_rank) return std::nullopt;
  const std::string& address = node == 0 ? here.store_address : word.address;
  if (address.empty()) return std::nullopt;
  return peer{node, address, word.port, word.token};
}

}  // namespace

// Adds the entries on disk of that node. A late copy may have brought back one that was just
// hidden.
void preparation::add_held(node_word& word, std::uint32_t of, const std::string& disk) {
  for (const std::string& name : kept_folders(disk)) {
    const auto kept = read_manifest(disk + "/" + name);
    if (kept && !desk_.is_set_aside({of, kept->what}) && word.held.size() < held_max)
      word.held.push_back({of, kept->what, kept->from});
    ++desk_.progress;
  }
  // These may have been set aside by an agent that is gone.
  for (version& what : set_aside_in(disk)) {
    const std::lock_guard lock(desk_.mutex);
    desk_.set_aside.insert({of, std::move(what)});
  }
}

node_word preparation::own_word(const round_place& here) {
  node_word word;
  if (!server_) {
    // Removes what agents have left that died while they received a copy.
    for (const std::string& name : names_in(desk_.wanted.disk)) {
      if (name.starts_with(copy_prefix)) remove_unfinished(desk_.wanted.disk + "/" + name);
    }
    std::string problem;
    server_ = copy_server::start(shared_, desk_.wanted.port, problem);
    if (!server_) {
      desk_.tell_once("server", "no other node can have copies kept here: cannot listen at port " +
                                    std::to_string(desk_.wanted.port) + ": " + problem +
                                    " (--vault-port)");
    }
  }
  if (server_ && !here.own_address.empty()) {
    word.address = here.own_address;
    word.port = server_->port();
    word.token = server_->token();
  }
  const std::vector<std::string> nodes =
      home_.empty() ? std::vector<std::string>() : names_in(home_);
  bool has_part = false;
  for (const std::string& name : nodes) {
    const auto of = node_in(name);
    const auto memory = of ? open_folder(home_ + "/" + name) : unique_fd();
    if (!of || !memory) continue;
    // Else the nodes that have the rest of it would take that for the whole.
    has_part = has_part || (*of == here.group_rank && here.nodes > 1 &&
                            !folders_of_parts(list_files(memory->get())).empty());
    for (const entry& one : complete(*of, memory->get())) {
      if (word.held.size() < held_max) word.held.push_back({*of, one.what, one.from});
    }
  }
  add_held(word, here.group_rank, desk_.wanted.disk + "/" + node_folder(here.group_rank));
  for (const foreign_folder& one : foreign_folders(desk_.wanted.disk, here.group_rank))
    add_held(word, one.of, one.path);
  const std::lock_guard lock(desk_.mutex);
  if (has_part) desk_.savers.insert(here.group_rank);
  for (const held_entry& one : word.held) {
    if (one.from.has_part_of(one.of)) desk_.savers.insert(one.of);
  }
  word.savers = desk_.savers;
  for (const owned_version& one : desk_.set_aside) {
    if (word.aside.size() < held_max) word.aside.insert(one);
  }
  return word;
}

bool preparation::take_common(round_place here, const shelf& own, int memory) {
  // With the workers' own store there is none yet at this point.
  if (here.store_port == 0) {
    if (here.nodes == 1) return false;
    desk_.tell_once("common",
                    "the nodes cannot agree on one entry where the store is rank 0's own: each "
                    "goes on from its newest");
    return false;
  }
  // Without the leader's mark, nodes without a vault write no word, and an agreement would wait for
  // them in vain.
  if (!here.has_leader_vault) {
    desk_.tell_once("common",
                    "node 0 has no --vault, or an older ddprun: the nodes keep no copies for each "
                    "other, and each goes on from its newest entry");
    const std::lock_guard lock(desk_.mutex);
    desk_.buddy.reset();
    return false;
  }
  if (was_silent_) here.word_limit = limit_after_silence;
  disagreement why;
  const auto goes_on = [this] {
    ++desk_.progress;
    return desk_.ticket == ticket_;
  };
  const auto found = agree(
      here, own_word(here), goes_on,
      [&](const agreed& so_far, const std::function<bool()>& goes_on_there) {
        return home_.empty() ? can_do_without(here, so_far)
                             : bring(here, own, memory, so_far, goes_on_there);
      },
      why);
  was_silent_ = !found && why.is_silence;
  if (!found) {
    // A preparation that was given up has nothing to report.
    if (goes_on()) {
      desk_.tell_once("common", "the nodes have not agreed on one entry (" + why.problem +
                                    "): each goes on from its newest");
    }
    return false;
  }
  desk_.tell_once("common", "");
  tell_who_has_none(found->words);
  if (!home_.empty()) tell_of_parts(here, memory, found->words);
  hide(here, own, memory, *found);
  const std::lock_guard lock(desk_.mutex);
  desk_.savers = found->choice.savers;
  desk_.buddy = peer_of(here, *found, next_with_vault(found->words, here.group_rank));
  return true;
}

void preparation::tell_who_has_none(const std::vector<node_word>& words) {
  std::set<std::uint32_t> without;
  for (std::uint32_t node = 0; node < words.size(); ++node) {
    if (!words[node].has_vault) without.insert(node);
  }
  const bool is_one = without.size() == 1;
  desk_.tell_once("without-vault",
                  without.empty()
                      ? ""
                      : (is_one ? "node " : "nodes ") + numbers_of(without) +
                            (is_one ? " has" : " have") +
                            " no --vault: nothing that is saved there is kept or put back");
}

// Of a checkpoint that ranks of several nodes have saved together.
void preparation::tell_of_parts(const round_place& here, int memory,
                                const std::vector<node_word>& words) {
  const std::vector<found_file> found = list_files(memory);
  for (const std::string& folder : folders_of_parts(found)) {
    // Rank 0 of a checkpoint of several nodes is the one that has .metadata: this node has been
    // stopped as it saved one of its own.
    const bool is_own = std::any_of(found.begin(), found.end(), [&folder](const found_file& one) {
      return one.path.starts_with(folder + "/__0_");
    });
    if (is_own) continue;
    for (std::uint32_t node = 0; node < words.size(); ++node) {
      const auto& held = words[node].held;
      const auto rest = std::find_if(held.begin(), held.end(), [&](const held_entry& one) {
        return one.of == node && node != here.group_rank && is_in(folder, one.what.name);
      });
      if (rest == held.end()) continue;
      desk_.tell_once("part", rest->what.name +
                                  " is a checkpoint of several nodes (DCP), whose .metadata is "
                                  "on node " +
                                  std::to_string(node) +
                                  " alone: no node goes on from it. Save it to a folder that all "
                                  "nodes share, or on each node by itself (no_dist=True)");
    }
  }
}

// Our own copy server, which has the entries of other nodes on this node.
std::optional<peer> preparation::peer_here() const {
  if (!server_) return std::nullopt;
  return peer{0, "127.0.0.1", server_->port(), server_->token()};
}

// Makes sure that the entry is on disk: only then it may be removed from memory.
bool preparation::is_safe(const shelf& own, int memory, const entry& one) {
  if (own.disk.empty()) return false;
  const std::vector<std::string> kept = kept_folders(own.disk);
  if (std::find(kept.begin(), kept.end(), folder_of(one.what)) != kept.end()) return true;
  entry copied = one;
  copied.from = desk_.origin_of({own.group_rank, one.what});
  return keep_on_disk(memory, copied, own.disk, "safe-" + desk_.mark, while_wanted()).is_done();
}

// Removes the oldest entries first. One that is wanted again can be restored from disk.
bool preparation::make_room(const shelf& own, int memory, const version& wanted,
                            std::uint64_t bytes) {
  const auto has_room = [&] {
    const std::uint64_t occupied = occupied_by(list_files(memory));
    return occupied <= desk_.limit && bytes <= desk_.limit - occupied;
  };
  for (const entry& one : complete_entries(list_files(memory))) {
    if (has_room()) return true;
    if (one.what != wanted && is_safe(own, memory, one)) remove_entry(memory, one.what.name);
  }
  return has_room();
}

// Removes other entries of the wanted name from memory, once they are on disk.
bool preparation::free_name(const shelf& own, int memory, const version& wanted) {
  for (const entry& one : complete_entries(list_files(memory))) {
    if (one.what.name != wanted.name || one.what == wanted) continue;
    if (!is_safe(own, memory, one)) return false;
    remove_entry(memory, one.what.name);
  }
  return true;
}

bool preparation::fetch(const round_place& here, const shelf& own, int memory, const agreed& found,
                        const std::function<bool()>& goes_on, std::string& problem) {
  const common_part& part = found.choice.parts.at(here.group_rank);
  const version& wanted = part.what;
  problem = "no node gives it";
  std::vector<std::uint32_t> holders = part.holders;
  // This node may have the entry under an earlier group rank: then it need not cross the network.
  std::stable_partition(holders.begin(), holders.end(),
                        [&](std::uint32_t holder) { return holder == here.group_rank; });
  for (const std::uint32_t holder : holders) {
    const bool is_here = holder == here.group_rank;
    const std::string where = is_here ? "this node" : "node " + std::to_string(holder);
    const auto other = is_here ? peer_here() : peer_of(here, found, holder);
    // A node may hold an entry without serving copies (no port, or no address).
    if (!other) continue;
    origin from;
    restoring told(desk_, wanted.name, where);
    const outcome done = get_entry(
        *other, part.of, wanted, memory,
        [&](std::uint64_t bytes) {
          told.begin(bytes);
          return make_room(own, memory, wanted, bytes);
        },
        from,
        [&](std::uint64_t bytes) {
          told.add(bytes);
          desk_.note_moved(bytes);
          return goes_on();
        });
    if (done.is_done()) {
      note_origin({here.group_rank, wanted}, from);
      desk_.tell(note_level::info, wanted.name + " is put back from the copy on " + where);
      return true;
    }
    problem = where + ": " + done.problem;
    if (done.is_abandoned) return false;
  }
  return false;
}

// Restores this node's part from its own disk, or else from another node. Newer entries are not
// hidden yet, because another node may fail to get its part.
bool preparation::bring(const round_place& here, const shelf& own, int memory, const agreed& found,
                        const std::function<bool()>& goes_on) {
  const auto part = found.choice.parts.find(here.group_rank);
  if (part == found.choice.parts.end()) return true;
  const version& wanted = part->second.what;
  const auto has_it = [&] {
    const std::vector<entry> now = complete(own.group_rank, memory);
    return std::any_of(now.begin(), now.end(),
                       [&](const entry& one) { return one.what == wanted; });
  };
  if (has_it()) return true;
  std::string problem = "another of its name is in memory, and cannot be copied to disk";
  if (free_name(own, memory, wanted)) {
    const auto kept =
        own.disk.empty() ? std::nullopt : read_manifest(own.disk + "/" + folder_of(wanted));
    if (kept && kept->what == wanted) {
      std::uint64_t size = 0;
      for (const kept_file& one : kept->files)
        size += one.size;
      make_room(own, memory, wanted, size);
      put_one_back(own, memory, folder_of(wanted));
    }
    if (has_it() || (fetch(here, own, memory, found, goes_on, problem) && has_it())) return true;
  }
  if (!goes_on()) return false;
  const bool is_needed = found.choice.savers.contains(here.group_rank);
  desk_.tell(note_level::warning,
             wanted.name + " cannot be put back (" + problem + ")" +
                 (is_needed ? ": the one before it is taken"
                            : ": this node, which has saved nothing yet, starts without one"));
  return !is_needed;
}

// Workers of this node start without an entry, so no node may take one of which this node saved a
// part.
bool preparation::can_do_without(const round_place& here, const agreed& found) {
  if (!found.choice.savers.contains(here.group_rank) ||
      !found.choice.parts.contains(here.group_rank))
    return true;
  desk_.tell_once("without", found.choice.key.name +
                                 " cannot be put back, as this node has no vault in memory: no "
                                 "node takes it");
  return false;
}

// Set-aside entries are included, because one may have come back from another node.
std::vector<entry> preparation::unmark_newer_than(std::uint32_t of, int memory,
                                                  std::int64_t order) {
  std::vector<entry> hidden;
  for (entry& one : complete_entries(list_files(memory))) {
    if (one.what.order <= order) continue;
    {
      const std::lock_guard lock(desk_.mutex);
      desk_.set_aside.insert({of, one.what});
    }
    if (unmark_entry(memory, one)) one.files.back().path += unmarked_suffix;
    hidden.push_back(std::move(one));
  }
  return hidden;
}

void preparation::clear_away(const shelf& own, int memory, const std::vector<entry>& hidden) {
  for (const entry& one : hidden) {
    const std::string& marker = one.files.back().path;
    if (is_safe(own, memory, one)) {
      remove_below(memory, marker);
      remove_entry(memory, one.what.name);
    } else {
      desk_.tell(note_level::warning,
                 one.what.name +
                     ", which not every node has, cannot be copied to disk: it stays in memory "
                     "without its marker (" +
                     marker + ")");
    }
  }
}

// Sets aside what another node has set aside: a copy of it here would bring it back.
void preparation::take_asides(const shelf& own, const agreed& found) {
  const std::set<owned_version> aside = aside_of(found.words);
  {
    const std::lock_guard lock(desk_.mutex);
    desk_.set_aside.insert(aside.begin(), aside.end());
  }
  const auto put_aside = [&](std::uint32_t of, const std::string& disk) {
    for (const owned_version& one : aside) {
      if (one.of == of) set_aside_on_disk(disk, one.what);
    }
  };
  if (!own.disk.empty()) put_aside(own.group_rank, own.disk);
  for (const foreign_folder& one : foreign_folders(desk_.wanted.disk, own.group_rank))
    put_aside(one.of, one.path);
}

// Hides what is newer here than the common entry: a later entry of the same name must not be mixed
// with it.
void preparation::hide(const round_place& here, const shelf& own, int memory, const agreed& found) {
  const auto order_of = [&](std::uint32_t node) {
    const auto part = found.choice.parts.find(node);
    return part == found.choice.parts.end() ? std::int64_t{-1} : part->second.what.order;
  };
  const std::int64_t own_order = order_of(here.group_rank);
  // The markers go before any disk is used: if the disk hangs, the workers start nonetheless.
  const std::vector<entry> hidden = unmark_newer_than(here.group_rank, memory, own_order);
  take_asides(own, found);
  clear_away(own, memory, hidden);
  if (!own.disk.empty()) hide_newer(own.disk, own_order);
  for (const foreign_folder& one : foreign_folders(desk_.wanted.disk, here.group_rank)) {
    if (one.of < here.nodes) hide_newer(one.path, order_of(one.of));
  }
  // One node reports it for all.
  if (here.group_rank != 0 || !found.choice.is_any_newer) return;
  if (found.choice.parts.empty()) {
    desk_.tell(note_level::warning, "no entry is on every node that has saved one (nodes " +
                                        numbers_of(found.choice.savers) +
                                        "): the workers start without one");
  } else {
    desk_.tell(note_level::info, "not every node has the newest entry: all go on from " +
                                     found.choice.parts.begin()->second.what.name);
  }
}

void preparation::go_without_memory(const round_place& here) {
  if (!here.is_together || here.nodes == 1 || here.store_port == 0) return;
  if (!on_disk_ || on_disk_->group_rank != here.group_rank) {
    on_disk_.reset();  // another node may need its lock
    auto made = std::make_unique<shelf>();
    made->group_rank = here.group_rank;
    enter_disk(*made);
    on_disk_ = std::move(made);
  }
  take_common(here, *on_disk_, -1);
}

}  // namespace ddprun::launcher::vault
