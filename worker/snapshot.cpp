#include "worker/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <functional>
#include <utility>

namespace ddprun::worker {
namespace {

constexpr std::size_t snapshot_bytes_max = std::size_t{1} << 36;  // 64 GiB
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

// What is wrong with a file, or nothing when `candidate` is filled.
error_code load(file_system& files, snapshot_order order, snapshot& candidate) {
  auto bytes = files.read(candidate.path, snapshot_bytes_max);
  if (!bytes) return bytes.error();
  const auto info = check_snapshot(*bytes);
  if (!info) return info.error();
  // A file under another one's name: its place in the order is unknown.
  if (info->tenure != order.tenure || info->step != order.step) return errc::damaged;
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
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    const auto names = files.list(folder);
    if (!names && is(names.error(), ENOENT)) return std::optional<snapshot>();
    if (!names) {
      on_message("cannot read the snapshot folder " + folder + ": " + names.error().message());
      return names.error();
    }
    const auto orders = newest_first(*names);
    bool vanished = false;
    for (const auto order : orders) {
      snapshot candidate;
      candidate.path = folder + "/" + snapshot_name(order);
      const error_code error = load(files, order, candidate);
      if (is(error, ENOENT)) {
        vanished = true;  // its writer has just removed it, for a newer one
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
      const bool file_is_bad = error == errc::damaged || error == errc::version_mismatch ||
                               error == errc::limit_reached || is(error, EIO);
      on_message("snapshot " + candidate.path + (file_is_bad ? " skipped: " : ": ") +
                 error.message());
      if (!file_is_bad) return error;
    }
    if (!vanished) return std::optional<snapshot>();
  }
  on_message("cannot read the snapshot folder " + folder + ": its files change all the time");
  return make_error_code(errc::timed_out);
}

error_code snapshot_writer::say(error_code error, const std::string& what) const {
  options_.on_message(what + ": " + error.message());
  return error;
}

result<snapshot_writer> snapshot_writer::open(file_system& files, snapshot_options options) {
  DDPRUN_ASSERT(options.keep >= 1);
  snapshot_writer writer(files, std::move(options));
  if (auto error = files.make_folder(writer.options_.folder)) {
    return writer.say(error, "cannot make the snapshot folder " + writer.options_.folder);
  }
  if (auto error = writer.claim()) return error;
  return writer;
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
    // Gone already: somebody has claimed after it, and the caller's own claim will collide.
    return is(text.error(), ENOENT)
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
  const std::string name = snapshot_name({tenure_, step});
  const std::string final_path = path(name);
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
  auto all = *names;
  if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  remove_beyond_keep(all);
  return final_path;
}

void snapshot_writer::remove_beyond_keep(const std::vector<std::string>& names) const {
  const auto orders = newest_first(names);
  for (std::size_t at = options_.keep; at < orders.size(); ++at) {
    const std::string old = path(snapshot_name(orders[at]));
    const error_code error = files_->remove(old);
    if (error && !is(error, ENOENT)) {
      options_.on_message("cannot remove the old snapshot " + old + ": " + error.message());
    }
  }
}

}  // namespace ddprun::worker
