#include "worker/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <functional>
#include <utility>

namespace ddprun::worker {
namespace {

constexpr std::size_t claim_bytes_max = 4096;
constexpr int attempts_max = 100;  // against others that claim or remove at the same moment
constexpr std::string_view temporary_suffix = ".tmp";

bool is(const error_code& error, int number) {
  return error == error_code(number, boost::system::system_category());
}

struct owner {
  instance_id instance = 0;
  round_number round = 0;
};

// A claim that a power cut has torn says nothing: whoever wrote it is dead.
owner parse_claim(std::string_view text) {
  owner result;
  const char* const end = text.data() + text.size();
  const auto instance = std::from_chars(text.data(), end, result.instance);
  if (instance.ec != std::errc{} || instance.ptr == end || *instance.ptr != ' ') return {};
  const auto round = std::from_chars(instance.ptr + 1, end, result.round);
  if (round.ec != std::errc{} || round.ptr == end || *round.ptr != '\n') return {};
  return result;
}

std::vector<snapshot_order> newest_first(const std::vector<std::string>& names) {
  std::vector<snapshot_order> orders;
  for (const auto& name : names) {
    if (const auto order = parse_snapshot_name(name)) orders.push_back(*order);
  }
  std::sort(orders.begin(), orders.end(), std::greater<>());
  return orders;
}

// For a person who looks at the file.
std::string why(const error_code& error) {
  if (error == errc::version_mismatch) return "it has a newer format than this program can read";
  if (error == errc::limit_reached) {
    return "it is longer than " + std::to_string(snapshot_bytes_max) + " bytes";
  }
  if (error == errc::not_found) return "it is no file";
  return error.message();
}

bool may_be_skipped(const error_code& error) {
  return error == errc::damaged || error == errc::not_found;
}

std::string folder_above(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Removed by its writer while we looked; on NFS that has a name of its own.
bool has_vanished(const error_code& error) {
  return is(error, ENOENT) || is(error, ESTALE);
}

// A file under another one's name is damaged: its place in the order is unknown.
error_code check_name(const result<snapshot_info>& info, snapshot_order order) {
  if (!info) return info.error();
  const bool is_named_so = info->tenure == order.tenure && info->step == order.step;
  return is_named_so ? error_code() : make_error_code(errc::damaged);
}

// What is wrong with a file, or nothing when `candidate` is filled.
error_code load(file_system& files, snapshot_order order, snapshot& candidate) {
  auto bytes = files.read(candidate.path, snapshot_bytes_max);
  if (!bytes) return bytes.error();
  const auto info = check_snapshot(*bytes);
  if (const error_code error = check_name(info, order)) return error;
  candidate.info = *info;
  candidate.file = std::move(*bytes);
  return {};
}

}  // namespace

void write_to_stderr(const std::string& line) {
  std::fprintf(stderr, "%s\n", line.c_str());
}

result<std::optional<snapshot>> newest_snapshot(file_system& files, const std::string& folder,
                                                const message_handler& on_message) {
  std::string vanished;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    const auto names = files.list(folder);
    if (!names && is(names.error(), ENOENT)) return std::optional<snapshot>();
    if (!names) {
      on_message("cannot read the snapshot folder " + folder + ": " + names.error().message());
      return names.error();
    }
    const auto orders = newest_first(*names);
    std::size_t damaged = 0;
    vanished.clear();
    for (const auto order : orders) {
      snapshot candidate;
      candidate.path = folder + "/" + snapshot_name(order);
      const error_code error = load(files, order, candidate);
      if (has_vanished(error)) {  // for a newer one
        vanished = candidate.path + ": " + error.message();
        break;
      }
      if (!error) {
        for (const auto other : orders) {
          if (other.tenure < order.tenure && other.step > order.step) {
            on_message("snapshot " + folder + "/" + snapshot_name(other) +
                       " skipped: an older round left it; the newest is " + candidate.path);
          }
        }
        return std::optional<snapshot>(std::move(candidate));
      }
      if (!may_be_skipped(error)) {
        on_message("snapshot " + candidate.path + " cannot be read: " + why(error) +
                   "; start again when it can be, or move it away to go on from the one before it");
        return error;
      }
      on_message("snapshot " + candidate.path + " skipped: " + why(error));
      if (error == errc::damaged) ++damaged;
    }
    if (!vanished.empty()) continue;
    if (damaged != 0) {
      on_message("no snapshot in " + folder +
                 " can be read; to begin from the start, move the damaged ones away");
      return make_error_code(errc::damaged);
    }
    return std::optional<snapshot>();
  }
  on_message("cannot read the snapshot folder " + folder + ": its files go all the time, last " +
             vanished);
  return make_error_code(errc::timed_out);
}

error_code snapshot_writer::say(error_code error, const std::string& what) const {
  options_.on_message(what + ": " + error.message());
  return error;
}

result<snapshot_writer> snapshot_writer::open(file_system& files, snapshot_options options) {
  DDPRUN_ASSERT(options.keep >= 1);
  snapshot_writer writer(files, std::move(options));
  if (auto error = writer.make_folders()) {
    return writer.say(error, "cannot make the snapshot folder " + writer.options_.folder);
  }
  if (auto error = writer.claim()) return error;
  return writer;
}

// A folder that was made survives a power cut once the one above it is synced.
error_code snapshot_writer::make_folders() const {
  const std::string& folder = options_.folder;
  for (std::size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    const std::string part = folder.substr(0, slash);
    bool made = false;
    if (auto error = files_->make_folder(part, made)) return error;
    const bool is_last = slash == std::string::npos;
    if (made || is_last) {
      const auto error = files_->sync_folder(folder_above(part));
      // One that is there may have been made by somebody who was killed before this.
      if (error && made) return error;
    }
    if (is_last) return {};
  }
}

// Finds the highest tenure in the folder; refuses when its owner is a newer round of our instance.
error_code snapshot_writer::check_claim(const std::vector<std::string>& names,
                                        std::uint64_t& tenure_max) const {
  std::uint64_t claim_max = 0;
  tenure_max = 0;
  for (const auto& name : names) {
    claim_max = std::max(claim_max, parse_claim_name(name).value_or(0));
    if (const auto order = parse_snapshot_name(name)) {
      tenure_max = std::max(tenure_max, order->tenure);
    }
  }
  tenure_max = std::max(tenure_max, claim_max);
  if (claim_max == 0 || options_.instance == 0) return {};
  const auto text = files_->read(path(claim_name(claim_max)), claim_bytes_max);
  if (!text) {
    // Gone already: somebody has claimed after it, and the caller's own claim will collide. What is
    // no file is no claim.
    return has_vanished(text.error()) || text.error() == errc::not_found
               ? error_code{}
               : say(text.error(), "cannot read " + path(claim_name(claim_max)));
  }
  const owner holder = parse_claim(*text);
  if (holder.instance == options_.instance && holder.round > options_.round) {
    options_.on_message("snapshot folder " + options_.folder + ": round " +
                        std::to_string(holder.round) + " has it, this is round " +
                        std::to_string(options_.round) + ", which is over");
    return errc::refused;
  }
  return {};
}

error_code snapshot_writer::claim() {
  const std::string& folder = options_.folder;
  const std::string text =
      std::to_string(options_.instance) + " " + std::to_string(options_.round) + "\n";
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    const auto names = files_->list(folder);
    if (!names) return say(names.error(), "cannot read the snapshot folder " + folder);
    std::uint64_t tenure_max = 0;
    if (auto error = check_claim(*names, tenure_max)) return error;
    if (tenure_max == tenure_limit) {
      return say(errc::limit_reached, "snapshot folder " + folder +
                                          ": a name in it has the number " +
                                          std::to_string(tenure_max) + ", move that away");
    }
    tenure_ = tenure_max + 1;
    const std::string claim = path(claim_name(tenure_));
    auto error = files_->write_new(claim, {text});
    if (is(error, EEXIST)) continue;
    if (!error) error = files_->sync_folder(folder);
    if (error) {
      (void)files_->remove(claim);
      return say(error, "cannot write in the snapshot folder " + folder);
    }
    remove_leftovers(*names);
    verify(*names);
    return {};
  }
  return say(errc::timed_out, "cannot claim the snapshot folder " + folder);
}

// Claims and temporary files of those before us. What cannot be removed does no harm.
void snapshot_writer::remove_leftovers(const std::vector<std::string>& names) const {
  for (const auto& name : names) {
    const bool temporary = name.starts_with("snapshot-") && name.ends_with(temporary_suffix);
    if (temporary || parse_claim_name(name)) (void)files_->remove(path(name));
  }
}

// Only headers: to read all of them would cost as much as to save them.
void snapshot_writer::verify(const std::vector<std::string>& names) {
  for (const auto order : newest_first(names)) {
    const std::string name = path(snapshot_name(order));
    const auto head = files_->read_head(name, snapshot_header_bytes);
    const error_code error =
        head ? check_name(check_snapshot_head(head->bytes, head->file_bytes), order) : head.error();
    if (!error) {
      verified_.insert(order);
    } else if (!has_vanished(error)) {
      options_.on_message("snapshot " + name + " will not be removed: " + why(error));
    }
  }
}

result<std::string> snapshot_writer::save(std::uint64_t step, std::uint64_t epoch,
                                          std::string_view payload) {
  const auto names = files_->list(options_.folder);
  if (!names) {
    return say(names.error(), "cannot read the snapshot folder " + options_.folder);
  }
  for (const auto& name : *names) {
    const auto order = parse_snapshot_name(name);
    const auto tenure = order ? order->tenure : parse_claim_name(name).value_or(0);
    if (tenure > tenure_) {
      options_.on_message("snapshot folder " + options_.folder + ": a newer round has it (" + name +
                          "), this one is over");
      return make_error_code(errc::refused);
    }
  }
  const snapshot_info info{tenure_, options_.instance, options_.round, step, epoch};
  const std::string final_path = path(snapshot_name({tenure_, step}));
  if (payload.size() > snapshot_bytes_max - snapshot_header_bytes) {
    options_.on_message("cannot save snapshot " + final_path + " (" +
                        std::to_string(payload.size()) + " bytes): " + why(errc::limit_reached));
    return make_error_code(errc::limit_reached);
  }
  const std::string temporary = final_path + std::string(temporary_suffix);
  const std::string header = encode_snapshot_header(info, payload);
  (void)files_->remove(temporary);  // of a save of ours that failed; nobody else has our tenure
  auto error = files_->write_new(temporary, {header, payload});
  if (!error) error = files_->rename(temporary, final_path);
  if (error) {
    (void)files_->remove(temporary);
    return say(error, "cannot save snapshot " + final_path + " (" +
                          std::to_string(header.size() + payload.size()) + " bytes)");
  }
  if (auto unsynced = files_->sync_folder(options_.folder)) {
    return say(unsynced, "cannot sync the snapshot folder " + options_.folder);
  }
  // What somebody else has removed is not one of those that we keep.
  std::erase_if(verified_, [&](snapshot_order order) {
    return std::find(names->begin(), names->end(), snapshot_name(order)) == names->end();
  });
  verified_.insert({tenure_, step});
  remove_beyond_keep();
  return final_path;
}

void snapshot_writer::remove_beyond_keep() {
  const std::vector<snapshot_order> oldest_first(verified_.begin(), verified_.end());
  for (std::size_t at = 0; at + options_.keep < oldest_first.size(); ++at) {
    const std::string old = path(snapshot_name(oldest_first[at]));
    const error_code error = files_->remove(old);
    if (error && !has_vanished(error)) {
      options_.on_message("cannot remove the old snapshot " + old + ": " + error.message());
      continue;
    }
    verified_.erase(oldest_first[at]);
  }
}

}  // namespace ddprun::worker
