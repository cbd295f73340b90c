#include "worker/snapshot/history.hpp"

#include "worker/snapshot/names.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <functional>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

namespace ddprun::worker {
namespace {

std::vector<snapshot_order> newest_first(const std::vector<std::string>& names) {
  std::vector<snapshot_order> orders;
  for (const auto& name : names) {
    if (const auto order = parse_snapshot_name(name)) orders.push_back(*order);
  }
  std::sort(orders.begin(), orders.end(), std::greater<>());
  return orders;
}

// Each rank checks the length and content of its own file.
std::optional<std::string> missing_file(const manifest& content, const name_set& names) {
  for (std::uint32_t rank = 0; rank < content.files.size(); ++rank) {
    std::string name = file_name_in(content.info, rank);
    if (!names.contains(name)) return name;
  }
  return std::nullopt;
}

constexpr std::size_t mark_bytes_max = 4096;

constexpr const char* unknown_outcome = "whether an earlier attempt has saved it is not known: ";

// "instance restarts" of a job that has resumed from it. A torn mark counts for no job.
std::optional<claimant> parse_mark(std::string_view text) {
  claimant who;
  const char* const end = text.data() + text.size();
  const auto instance = std::from_chars(text.data(), end, who.instance);
  if (instance.ec != std::errc{} || instance.ptr == end) return std::nullopt;
  const auto restarts = std::from_chars(instance.ptr + 1, end, who.restart_count);
  return restarts.ec == std::errc{} ? std::optional(who) : std::nullopt;
}

}  // namespace

void snapshot_history::consider_vault(std::string folder, std::set<snapshot_order> held) {
  vault_ = std::move(folder);
  in_vault_ = std::move(held);
}

std::string snapshot_history::place_of(snapshot_order order) const {
  return (is_in_vault(order) ? vault_ : folder_) + "/" + snapshot_name(order);
}

// Lists a folder whatever this machine has cached of it: creating a name there makes a network file
// system ask its server. If that fails, or this is a reader, it waits for as long as a listing may
// be outdated.
result<name_set> snapshot_history::list_anew(
    const std::string& place, const std::function<bool(const name_set&)>& is_complete) const {
  if (files_->names_kept(place) <= std::chrono::milliseconds::zero()) {
    return list_names(*files_, place);
  }
  if (options_.is_reader) return list_until(*files_, place, is_complete);
  const std::string mark = place + "/" + resumed_name(generation_);
  (void)files_->remove(mark);
  const auto error = write_whole(*files_, mark, "");
  (void)files_->remove(mark);
  return error ? list_until(*files_, place, is_complete) : list_names(*files_, place);
}

result<manifest> snapshot_history::look_at(snapshot_order order, std::string& why) const {
  const std::string place = place_of(order);
  const auto none = [&](const error_code& error) {
    why = error.message();
    const bool is_none = is_system_error(error, ENOENT) || is_system_error(error, ENOTDIR);
    return is_none ? make_error_code(errc::not_found) : error;
  };
  auto names = list_names(*files_, place);
  if (!names) return none(names.error());
  if (!names->contains(manifest_name)) return none(system_error(ENOENT));
  const auto text = files_->read(place + "/" + std::string(manifest_name), manifest_bytes_max);
  if (!text) return none(text.error());
  auto content = parse_manifest(*text);
  if (!content) {
    why = content.error() == errc::version_mismatch
              ? "it has a newer format than this program can read"
              : std::string(manifest_name) + ": " + content.error().message();
    return content.error();
  }
  if (content->order() != order) {
    why = std::string(manifest_name) + " is that of " + snapshot_name(content->order());
    return errc::damaged;
  }
  auto missing = missing_file(*content, *names);
  if (missing) {
    names = list_anew(place, [&](const name_set& found) { return !missing_file(*content, found); });
    if (!names) return none(names.error());
    missing = missing_file(*content, *names);
  }
  if (!missing) return content;
  why = *missing + ": " + system_error(ENOENT).message();
  return errc::damaged;
}

// Counts the failures of this run, each at another restart count. A new run counts restarts from 0,
// which separates the marks of two runs if the launcher has no instances. If the folder cannot be
// listed, the snapshot is not distrusted.
std::size_t snapshot_history::failures_after(const snapshot_info& info) const {
  if (!options_.distrust || !info.tells_progress) return 0;
  const std::string place = place_of({info.generation, info.step});
  const auto names = files_->list(place);
  if (!names) return 0;
  std::map<std::uint64_t, claimant, std::greater<>> jobs;  // by generation, newest first
  for (const auto& name : *names) {
    const auto generation = parse_resumed_name(name);
    if (!generation || *generation >= generation_) continue;
    const auto text = files_->read(place + "/" + name, mark_bytes_max);
    const auto who = parse_mark(text ? *text : "");
    if (who) jobs[*generation] = *who;
  }
  std::size_t failed = 0;
  std::uint32_t restarts = who_.restart_count;
  for (const auto& [generation, who] : jobs) {
    if (who.instance != who_.instance || who.restart_count > restarts) break;
    if (who.restart_count < restarts) ++failed;
    restarts = who.restart_count;
  }
  return failed;
}

std::string snapshot_history::text_of_failures(std::size_t count) const {
  return (count == 1 ? "a job has" : std::to_string(count) + " jobs have") +
         " resumed from it and failed within " + std::to_string(options_.trusted_after_steps) +
         " steps";
}

void snapshot_history::tell_of_older_rounds(const manifest& taken,
                                            const std::vector<snapshot_order>& all) const {
  for (const auto other : all) {
    if (other.generation < taken.info.generation && other.step > taken.info.step) {
      on_message_("snapshot " + path(snapshot_name(other)) +
                  " skipped: an older round left it; the newest is " + place_of(taken.order()));
    }
  }
}

void snapshot_history::tell_of_distrust(const snapshot_info& distrusted, std::size_t failures,
                                        const snapshot_info& taken) const {
  const auto name_of = [&](const snapshot_info& info) {
    return place_of({info.generation, info.step});
  };
  std::string text = "snapshot " + name_of(distrusted) + " is distrusted, because " +
                     text_of_failures(failures) + ": resuming from " + name_of(taken);
  if (taken.step < distrusted.step) {
    text += ", " + std::to_string(distrusted.step - taken.step) + " steps before it";
  }
  on_message_(text);
}

// errc::not_found: it is none, or is skipped.
result<manifest> snapshot_history::candidate(snapshot_order order) {
  std::string why;
  if (is_in_vault(order)) {
    auto found = look_at(order, why);
    if (found) return found;
    skip(order, why);  // the folder may have it, too
  }
  if (skipped_.contains(order)) return errc::not_found;
  auto found = look_at(order, why);
  if (found) {
    known_.insert(order);
  } else if (found.error() == errc::damaged) {
    skip(order, why);
    return errc::not_found;
  } else if (found.error() != errc::not_found) {
    on_message_("snapshot " + place_of(order) + " cannot be read: " + why +
                "; start again when it can be, or move it away to resume from the one before it");
  }
  return found;
}

result<std::optional<manifest>> snapshot_history::newest() {
  const auto names = files_->list(folder_);
  if (!names) {
    on_message_("cannot read the snapshot folder " + folder_ + ": " + names.error().message());
    return names.error();
  }
  const auto orders = newest_first(*names);
  std::set<snapshot_order, std::greater<>> candidates(orders.begin(), orders.end());
  candidates.insert(in_vault_.begin(), in_vault_.end());
  std::optional<std::pair<manifest, std::size_t>> distrusted;  // the newest, and its failures
  for (const auto order : candidates) {
    auto found = candidate(order);
    if (!found && found.error() == errc::not_found) continue;
    if (!found) return found.error();
    const std::string place = place_of(order);
    const std::size_t failures = failures_after(found->info);
    if (failures >= distrusted_after) {
      known_.erase(order);
      if (!distrusted) distrusted = {std::move(*found), failures};
      continue;
    }
    if (distrusted) tell_of_distrust(distrusted->first.info, distrusted->second, found->info);
    if (!distrusted && failures != 0) {
      on_message_("snapshot " + place + ": " + text_of_failures(failures) +
                  "; if this one does too, the one before it is taken");
    }
    if (found->info.is_emergency) {
      on_message_("snapshot " + place + " was saved by the ranks that were left when others had " +
                  "died: what is each rank's own is not in it");
    }
    tell_of_older_rounds(*found, orders);
    return std::optional<manifest>(std::move(*found));
  }
  if (distrusted) {
    const auto order = distrusted->first.order();
    if (!is_in_vault(order)) known_.insert(order);
    on_message_("snapshot " + place_of(order) + " is taken again, though " +
                text_of_failures(distrusted->second) + ": there is no other");
    return std::optional<manifest>(std::move(distrusted->first));
  }
  if (!skipped_.empty()) {
    on_message_("no snapshot in " + folder_ +
                " can be read; to begin from the start, move the damaged ones away");
    return make_error_code(errc::damaged);
  }
  const auto old = std::find_if(names->begin(), names->end(), is_name_of_old_format);
  if (old != names->end()) {
    on_message_("snapshot " + path(*old) +
                " is of ddprun 0.1, which this program cannot read; to begin from the start, move "
                "such files away");
    return make_error_code(errc::version_mismatch);
  }
  return std::optional<manifest>();
}

void snapshot_history::skip(snapshot_order order, const std::string& why) {
  on_message_("snapshot " + place_of(order) + " skipped: " + why);
  if (in_vault_.erase(order) != 0) return;
  skipped_.insert(order);
  if (known_.erase(order) != 0) bad_.insert(order);
}

error_code snapshot_history::mark_resumed(const snapshot_info& info) {
  if (!options_.distrust || !info.tells_progress) return {};
  const std::string place = place_of({info.generation, info.step});
  const std::string mark = place + "/" + resumed_name(generation_);
  auto error =
      write_whole(*files_, mark,
                  std::to_string(who_.instance) + " " + std::to_string(who_.restart_count) + "\n");
  if (!error) error = files_->sync_folder(place);
  if (error) on_message_("cannot write " + mark + ": " + error.message());
  return error;
}

// A mark that cannot be removed only means that the snapshot may be distrusted too early.
void snapshot_history::trust(snapshot_order order) {
  const std::string place = place_of(order);
  const auto names = files_->list(place);
  if (!names) return;
  for (const auto& name : *names) {
    if (parse_resumed_name(name)) (void)files_->remove(place + "/" + name);
  }
}

// Checks that no newer round has the folder, and that all files of the manifest exist.
std::optional<failure> snapshot_history::check_it_is_ours(const manifest& content) const {
  std::string problem;
  const auto keep_problem = [&](const std::string& line) { problem = line; };
  if (auto error = check_claim(*files_, folder_, generation_, keep_problem)) {
    return failure{error, problem, error == errc::refused};
  }
  const std::string place = path(snapshot_name(content.order()));
  const auto names = list_until(*files_, place, [&](const name_set& found) {
    return !missing_file(content, found).has_value();
  });
  if (!names) return failure{names.error(), place + ": " + names.error().message()};
  if (const auto missing = missing_file(content, *names)) {
    return failure{errc::damaged, *missing + ": " + system_error(ENOENT).message() + " (" +
                                      std::string(shared_folder_hint) + ")"};
  }
  return std::nullopt;
}

std::optional<failure> snapshot_history::commit(const manifest& content) {
  if (auto wrong = check_it_is_ours(content)) return wrong;
  const std::string place = path(snapshot_name(content.order()));
  const std::string final_path = place + "/" + std::string(manifest_name);
  const bool is_emergency = content.info.is_emergency;
  const std::string temporary =
      final_path + std::string(is_emergency ? survivors_temporary_suffix : temporary_suffix);
  const auto because = [](const error_code& error) {
    return failure{error, "cannot write " + std::string(manifest_name) + ": " + error.message()};
  };
  (void)files_->remove(temporary);
  // Sync the folder's own name first: once the manifest exists, all of the snapshot must.
  auto error = files_->sync_folder(folder_);
  if (!error) error = write_whole(*files_, temporary, to_text(content));
  if (error) {
    (void)files_->remove(temporary);
    return because(error);
  }
  error = files_->rename_to_new(temporary, final_path);
  if (is_system_error(error, EEXIST)) {
    (void)files_->remove(temporary);
    return failure{errc::refused, "it is there already, made by another", true, true};
  }
  if (!error) error = files_->sync_folder(place);
  // A newer round that came while we wrote has seen an unfinished snapshot, and removed its files.
  // One that comes later sees it complete.
  auto wrong = check_it_is_ours(content);
  if (error && !(wrong && wrong->is_final)) wrong = because(error);
  if (!wrong) {
    known_.insert(content.order());
    return std::nullopt;
  }
  (void)files_->remove(temporary);
  const auto removed = files_->remove(final_path);
  const bool is_gone = !removed || is_system_error(removed, ENOENT);
  if (!is_gone || files_->sync_folder(place)) {
    wrong->may_be_there = true;
    bad_.insert(content.order());  // removed when it is old, unless settle() finds it complete
  }
  return wrong;
}

std::optional<failure> snapshot_history::settle(snapshot_order order) {
  const std::string place = path(snapshot_name(order));
  std::string problem;
  const auto keep_problem = [&](const std::string& line) { problem = line; };
  if (auto error = check_claim(*files_, folder_, generation_, keep_problem)) {
    return failure{error, problem, error == errc::refused, true};
  }
  // What is not found is removed: an outdated listing must not cost a snapshot.
  if (const auto names =
          list_anew(place, [](const name_set& listed) { return listed.contains(manifest_name); });
      !names && !has_vanished(names.error())) {
    return failure{names.error(), unknown_outcome + names.error().message(), false, true};
  }
  const auto found = look_at(order, problem);
  const bool is_whole = found.has_value();
  auto error = is_whole ? error_code() : found.error();
  // The manifest is incomplete or absent. Remove it, so that it never becomes a snapshot.
  if (error == errc::not_found || error == errc::damaged) {
    error = files_->remove(place + "/" + std::string(manifest_name));
    if (is_system_error(error, ENOENT)) error = {};
  }
  if (!error) error = files_->sync_folder(folder_);
  if (!error) error = files_->sync_folder(place);
  if (error) {
    return failure{error, unknown_outcome + error.message(), false, true};
  }
  bad_.erase(order);
  if (!is_whole) return failure{errc::not_found, "an earlier attempt has left nothing"};
  known_.insert(order);
  return std::nullopt;
}

// NFS renames a file that is removed while it is mapped, and keeps it until it is unmapped.
bool snapshot_history::is_still_mapped(snapshot_order order) const {
  const auto names = list_names(*files_, path(snapshot_name(order)));
  return names && std::all_of(names->begin(), names->end(),
                              [](const std::string& name) { return name.starts_with(".nfs"); });
}

void snapshot_history::tell_that_it_stays(snapshot_order order, const error_code& error) const {
  on_message_("cannot remove the old snapshot " + path(snapshot_name(order)) + ": " +
              error.message());
}

// Removes what this rank had not removed before the next save.
void snapshot_history::remove_what_was_left(const std::vector<std::string>& names) {
  for (const auto order : std::exchange(going_, {})) {
    if (std::find(names.begin(), names.end(), snapshot_name(order)) == names.end()) continue;
    const auto error = remove_files(order, true);
    if (!error || has_vanished(error)) continue;
    if (is_system_error(error, ENOTEMPTY) && is_still_mapped(order)) {
      going_.insert(order);
    } else {
      tell_that_it_stays(order, error);  // a foreign file: the snapshot itself is gone
    }
  }
}

// Removes the manifest. True: it is no longer a snapshot.
bool snapshot_history::end(snapshot_order order) const {
  const auto error = end_for_good(order);
  if (!error || has_vanished(error)) return true;
  tell_that_it_stays(order, error);
  return false;
}

std::vector<snapshot_order> snapshot_history::end_beyond_keep() {
  std::vector<snapshot_order> going;
  // Snapshots that another process has removed do not count among those to keep.
  if (const auto names = files_->list(folder_)) {
    for (auto* const set : {&known_, &bad_}) {
      std::erase_if(*set, [&](snapshot_order order) {
        return std::find(names->begin(), names->end(), snapshot_name(order)) == names->end();
      });
    }
    remove_what_was_left(*names);
  }
  const std::vector<snapshot_order> oldest_first(known_.begin(), known_.end());
  if (oldest_first.empty()) return going;
  const std::size_t beyond = oldest_first.size() - std::min(oldest_first.size(), options_.keep);
  const auto go = [&](snapshot_order order, std::set<snapshot_order>& from) {
    if (!end(order)) return;
    from.erase(order);
    going_.insert(order);
    going.push_back(order);
  };
  for (const auto order : std::vector(bad_.begin(), bad_.end())) {
    if (order < oldest_first[beyond]) go(order, bad_);
  }
  for (std::size_t at = 0; at < beyond; ++at)
    go(oldest_first[at], known_);
  return going;
}

// Removes the manifest durably: after a power cut the rest is an unfinished snapshot. One that is
// gone already may have been removed by a process, or an earlier try, that did not sync the folder.
error_code snapshot_history::end_for_good(snapshot_order order) const {
  const std::string place = path(snapshot_name(order));
  const auto error = files_->remove(place + "/" + std::string(manifest_name));
  if (error && !has_vanished(error)) return error;
  return files_->sync_folder(place);
}

error_code snapshot_history::remove_files(snapshot_order order, bool is_of_all) const {
  const std::string place = path(snapshot_name(order));
  const auto names = files_->list(place);
  if (!names) return names.error();
  name_set of_others;
  for (std::uint32_t rank = 1; !is_of_all && rank < options_.world_size; ++rank)
    of_others.insert(rank_file_name(rank));
  for (const auto& name : *names) {
    if (is_name_in_snapshot(name) && !of_others.contains(name)) {
      (void)files_->remove(place + "/" + name);
    }
  }
  return files_->remove_folder(place);
}

void snapshot_history::remove_rest(const std::vector<snapshot_order>& going) {
  for (const auto order : going)
    (void)remove_files(order, false);  // other ranks may have theirs there yet
  if (options_.world_size > 1 || going_.empty()) return;
  if (const auto names = files_->list(folder_)) remove_what_was_left(*names);
}

void remove_own_file(file_system& files, const std::string& folder, snapshot_order order,
                     std::uint32_t rank) {
  const std::string place = folder + "/" + snapshot_name(order);
  (void)files.remove(place + "/" + rank_file_name(rank));
  (void)files.remove_folder(place);  // the last one of the ranks can
}

std::vector<snapshot_order> snapshot_history::leftovers() {
  std::vector<snapshot_order> found_none;
  const auto names = files_->list(folder_);
  if (!names) return found_none;
  for (const auto order : newest_first(*names)) {
    if (order.generation >= generation_) continue;
    std::string why;
    const auto found = look_at(order, why);
    if (found) known_.insert(order);
    if (found || found.error() != errc::not_found) continue;
    if (is_unfinished(order)) found_none.push_back(order);
  }
  return found_none;
}

// Called before the files are removed, because an outdated listing must not cost a snapshot.
// Creating a name in a folder makes a network file system refresh its listing.
bool snapshot_history::is_unfinished(snapshot_order order) const {
  const std::string place = path(snapshot_name(order));
  const std::string mark = place + "/" + resumed_name(generation_);
  const bool may_be_old = files_->names_kept(place) > std::chrono::milliseconds::zero();
  if (may_be_old && write_whole(*files_, mark, "")) return false;
  const auto names = list_names(*files_, place);
  const bool is_sure = names && !names->contains(manifest_name);
  if (may_be_old && !is_sure) (void)files_->remove(mark);
  // A job that was killed while it removed this snapshot may not have synced the folder: its
  // manifest would come back with a power cut, without its files.
  return is_sure && !files_->sync_folder(place);
}

}  // namespace ddprun::worker
