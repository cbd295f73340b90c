#include "worker/snapshot/claim.hpp"

#include "worker/snapshot/names.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <vector>

namespace ddprun::worker {
namespace {

constexpr std::size_t claim_bytes_max = 4096;
constexpr int attempts_max = 100;  // retries against processes that claim at the same time

// A claim that was torn by a power cut counts as empty: its writer is dead.
claimant parse_claim(std::string_view text) {
  claimant found;
  const char* const end = text.data() + text.size();
  const auto instance = std::from_chars(text.data(), end, found.instance);
  if (instance.ec != std::errc{} || instance.ptr == end || *instance.ptr != ' ') return {0, 0, 0};
  const auto round = std::from_chars(instance.ptr + 1, end, found.round);
  if (round.ec != std::errc{} || round.ptr == end || *round.ptr != '\n') return {0, 0, 0};
  return found;
}

std::string folder_above(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A new folder survives a power cut only after its parent is synced.
error_code make_folders(file_system& files, const std::string& folder) {
  for (std::size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    const std::string part = folder.substr(0, slash);
    bool made = false;
    if (auto error = files.make_folder(part, made)) return error;
    const bool is_last = slash == std::string::npos;
    if (made || is_last) {
      const auto error = files.sync_folder(folder_above(part));
      // An existing folder may have been created by a process that was killed before this sync.
      if (error && made) return error;
    }
    if (is_last) return {};
  }
}

struct claiming {
  file_system& files;
  const std::string& folder;
  const claimant& who;
  const message_handler& on_message;
  std::uint64_t elsewhere;

  std::string path(const std::string& name) const { return folder + "/" + name; }

  error_code say(error_code error, const std::string& what) const {
    on_message(what + ": " + error.message());
    return error;
  }

  // Refuses if the greatest claim belongs to a newer round of our instance.
  error_code check_holder(std::uint64_t claim) const {
    if (claim == 0 || who.instance == 0) return {};
    const auto text = files.read(path(claim_name(claim)), claim_bytes_max);
    if (!text) {
      // If it is gone, another process has claimed after it, and our own claim will collide.
      // Anything but a file is not a claim.
      return has_vanished(text.error()) || text.error() == errc::not_found
                 ? error_code{}
                 : say(text.error(), "cannot read " + path(claim_name(claim)));
    }
    const claimant holder = parse_claim(*text);
    if (holder.instance != who.instance || holder.round <= who.round) return {};
    on_message("snapshot folder " + folder + ": round " + std::to_string(holder.round) +
               " has taken it over; this is round " + std::to_string(who.round) +
               ", which is over");
    return errc::refused;
  }

  // One attempt. EEXIST: another process was faster.
  result<std::uint64_t> draw() const {
    const auto names = files.list(folder);
    if (!names) return say(names.error(), "cannot read the snapshot folder " + folder);
    std::uint64_t claim_max = 0;
    std::uint64_t generation_max = 0;
    for (const auto& name : *names) {
      claim_max = std::max(claim_max, parse_claim_name(name).value_or(0));
      if (const auto order = parse_snapshot_name(name)) {
        generation_max = std::max(generation_max, order->generation);
      }
    }
    generation_max = std::max({generation_max, claim_max, elsewhere});
    if (auto error = check_holder(claim_max)) return error;
    if (generation_max == generation_limit) {
      return say(errc::limit_reached, "snapshot folder " + folder +
                                          ": a name in it has the number " +
                                          std::to_string(generation_max) + ", move that away");
    }
    const std::string claim = path(claim_name(generation_max + 1));
    auto error = write_whole(files, claim,
                             std::to_string(who.instance) + " " + std::to_string(who.round) + "\n");
    if (is_system_error(error, EEXIST)) return error;
    if (!error) error = files.sync_folder(folder);
    if (error) {
      (void)files.remove(claim);
      return say(error, "cannot write in the snapshot folder " + folder);
    }
    // This process may have slept since the listing, while others came and went: look again.
    const auto after = files.list(folder);
    if (!after) return say(after.error(), "cannot read the snapshot folder " + folder);
    for (const auto& name : *after) {
      const auto order = parse_snapshot_name(name);
      const std::uint64_t generation =
          order ? order->generation : parse_claim_name(name).value_or(0);
      const bool is_ours = !order && generation == generation_max + 1;
      if (generation <= generation_max || is_ours) continue;
      (void)files.remove(claim);
      return system_error(EEXIST);
    }
    for (const auto& name : *names) {  // a claim that cannot be removed does no harm
      if (parse_claim_name(name)) (void)files.remove(path(name));
    }
    return generation_max + 1;
  }
};

}  // namespace

void write_to_stderr(const std::string& line) {
  std::fprintf(stderr, "%s\n", line.c_str());
}

bool has_vanished(const error_code& error) {
  return is_system_error(error, ENOENT) || is_system_error(error, ESTALE);
}

result<std::uint64_t> claim_folder(file_system& files, const std::string& folder,
                                   const claimant& who, const message_handler& on_message,
                                   std::uint64_t elsewhere) {
  const claiming attempt{files, folder, who, on_message, elsewhere};
  if (auto error = make_folders(files, folder)) {
    return attempt.say(error, "cannot make the snapshot folder " + folder);
  }
  for (int count = 0; count < attempts_max; ++count) {
    const auto generation = attempt.draw();
    if (generation || !is_system_error(generation.error(), EEXIST)) return generation;
    // A cached listing may lack the claim that collided: wait for a newer one.
    if (files.names_kept(folder) > std::chrono::milliseconds::zero()) {
      files.pause(std::chrono::seconds(1));
    }
  }
  return attempt.say(errc::timed_out, "cannot claim the snapshot folder " + folder);
}

error_code check_claim(file_system& files, const std::string& folder, std::uint64_t generation,
                       const message_handler& on_message) {
  const auto names = files.list(folder);
  if (!names) {
    on_message("cannot read the snapshot folder " + folder + ": " + names.error().message());
    return names.error();
  }
  for (const auto& name : *names) {
    const auto order = parse_snapshot_name(name);
    if ((order ? order->generation : parse_claim_name(name).value_or(0)) <= generation) continue;
    on_message("snapshot folder " + folder + ": a newer round has taken it over (" + name +
               "); this one is over");
    return errc::refused;
  }
  return {};
}

}  // namespace ddprun::worker
