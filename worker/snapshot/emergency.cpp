#include "worker/snapshot/emergency.hpp"

#include "rendezvous/base/rank_text.hpp"
#include "worker/snapshot/checksum.hpp"

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>
#include <vector>

namespace ddprun::worker {
namespace {

constexpr const char* said_key = "emergency/said";          // a line of each: finished
constexpr const char* count_key = "emergency/count";        // of them
constexpr const char* complete_key = "emergency/complete";  // there, once all but one have come
constexpr const char* closed_key = "emergency/closed";      // what counts of what was said
constexpr const char* outcome_key = "emergency/outcome";
constexpr const char* late_key = "emergency/late";        // whether a rank has said that it is
constexpr const char* aborted_key = "emergency/aborted";  // a line of each: aborted

// Of the time that is left, for the others to come: more than one rank may be dead. Who talks to a
// dead rank loses it at once. The others wait in a collective for those that wait here, and may be
// a step ahead: they come as soon as these let go of them (process_group::let_go), or have ended.
constexpr int settling_part = 4;
constexpr std::chrono::milliseconds settling_max{1500};
// Of the time that is left, for those that abort, if only they can write: an abort takes a while.
constexpr int abort_part = 2;
constexpr std::chrono::milliseconds between_readings{50};
// Of the time that is left, for the checksums; and how long before a rank is killed they must be
// there, for the writer to begin.
constexpr int checksum_part = 2;
constexpr std::chrono::milliseconds to_begin_writing{500};
constexpr std::size_t checksum_piece = std::size_t{64} << 20;

struct finished {
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::string of_tensors, of_values;  // checksums
};

std::vector<finished> finished_in(const std::string& said) {
  std::vector<finished> all;
  std::istringstream words(said);
  for (finished each;
       words >> each.rank >> each.step >> each.epoch >> each.of_tensors >> each.of_values;)
    all.push_back(each);
  return all;
}

// A rank has aborted its collectives in that step.
struct abort_word {
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
};

std::vector<abort_word> aborted_in(const std::string& said) {
  std::vector<abort_word> all;
  std::istringstream words(said);
  for (abort_word each; words >> each.rank >> each.step;)
    all.push_back(each);
  return all;
}

// What counts of what the ranks have said, as all of them know it: the first line has the least
// step in which a rank has aborted, and that rank, or "-".
struct settlement {
  std::optional<abort_word> first;
  std::vector<finished> all;
};

std::string settled_text(const std::string& said, const std::vector<abort_word>& aborts) {
  const auto first = std::min_element(
      aborts.begin(), aborts.end(), [](const abort_word& one, const abort_word& other) {
        return std::pair(one.step, one.rank) < std::pair(other.step, other.rank);
      });
  const bool is_none = first == aborts.end();
  return (is_none ? "-" : std::to_string(first->rank) + " " + std::to_string(first->step)) + "\n" +
         said;
}

settlement settled_in(const std::string& text) {
  const auto end = std::min(text.find('\n'), text.size());
  settlement found;
  const auto aborts = aborted_in(text.substr(0, end));
  if (!aborts.empty()) found.first = aborts.front();
  found.all = finished_in(text.substr(end));
  return found;
}

// Those that have finished the greatest step that counts, and where that ends an epoch, its end:
// the lowest rank first.
std::vector<finished> farthest(const settlement& of) {
  std::vector<finished> all = of.all;
  if (of.first) {
    std::erase_if(all, [&](const finished& each) { return each.step >= of.first->step; });
  }
  std::pair<std::uint64_t, std::uint64_t> most{0, 0};
  for (const auto& each : all)
    most = std::max(most, std::pair(each.step, each.epoch));
  std::erase_if(all,
                [&](const finished& each) { return std::pair(each.step, each.epoch) != most; });
  std::sort(all.begin(), all.end(),
            [](const finished& one, const finished& other) { return one.rank < other.rank; });
  return all;
}

failure final_failure(const std::exception& of_copy) {
  failure told = has_thrown("fetch the state", of_copy);
  told.is_final = true;
  return told;
}

class survivors {
 public:
  survivors(const emergency& here, store_client& store, const deadline& until)
      : here_(here), store_(store), until_(until) {}

  std::optional<failure> save() {
    if (auto failed = tell()) return failed;
    const auto said = what_is_said();
    if (!said) return lost(said.error());
    const auto closed = store_.compare_set(closed_key, "", *said, until_);
    if (!closed) return lost(closed.error());
    const auto agreed = settled_in(*closed);
    const auto chosen = farthest(agreed);
    if (chosen.empty()) return nobody_can(agreed);
    if (chosen.front().rank != here_.rank) return hear(chosen.front().rank);
    auto outcome = agree(chosen);
    if (!outcome) outcome = write_or_tell();
    if (outcome) outcome->text.insert(0, what());
    here_.on_message(outcome ? outcome->text
                             : "snapshot " + place() + " was saved by the ranks that are left (" +
                                   text_of(agreed.all) + ")");
    if (auto error = store_.set(outcome_key, to_text(outcome), until_); error && !outcome) {
      return lost(error);
    }
    return outcome;
  }

 private:
  std::string place() const {
    return here_.folder + "/" + snapshot_name({here_.info.generation, here_.info.step});
  }
  std::string what() const { return "cannot save the emergency snapshot " + place() + ": "; }
  failure lost(const error_code& error) const {
    return {error, what() + store_.problem(), true, true};
  }

  static std::string text_of(const std::vector<finished>& all) {
    std::vector<std::uint32_t> ranks;
    for (const auto& each : all)
      ranks.push_back(each.rank);
    std::sort(ranks.begin(), ranks.end());
    return text_of_ranks(ranks);
  }

  bool is_compared(const std::string& name) const {
    return !here_.is_compared || here_.is_compared(name);
  }

  std::string checksum_of_values() const {
    checksum sum;
    for (const auto& [name, value] : here_.replicated.values) {
      if (!is_compared(name)) continue;
      // Each with its length: what ends one does not begin the next.
      for (const auto* const text : {&name, &value})
        sum.add(std::to_string(text->size()) + " " + *text);
    }
    return checksum_text(sum.value());
  }

  // None: it would take too long.
  std::optional<std::string> checksum_of_tensors() const {
    const deadline last = until_.left() / checksum_part;
    const auto is_late = [&] {
      const auto killed_at = here_.killed_at ? here_.killed_at() : std::nullopt;
      return last.passed() ||
             (killed_at && *killed_at - std::chrono::steady_clock::now() < to_begin_writing);
    };
    checksum sum;
    std::string buffer;
    for (const auto& tensor : here_.replicated.tensors) {
      if (!is_compared(tensor.name)) continue;
      sum.add(to_text(static_cast<const tensor_description&>(tensor)));
      std::string_view rest = tensor.bytes;
      if (tensor.copy) {
        if (is_late()) return std::nullopt;
        buffer.resize(bytes_of(tensor).value_or(0));
        tensor.copy(buffer.data());
        rest = buffer;
      }
      while (!rest.empty()) {
        if (is_late()) return std::nullopt;
        sum.add(rest.substr(0, checksum_piece));
        rest.remove_prefix(std::min(rest.size(), checksum_piece));
      }
    }
    return checksum_text(sum.value());
  }

  // What this rank has, and waits for the others.
  std::optional<failure> tell() {
    const std::string closed = closed_key;
    const auto is_closed = store_.check(store_client::key_list(&closed, 1), until_);
    if (!is_closed) return lost(is_closed.error());
    if (*is_closed) return std::nullopt;  // those before have settled it
    const auto of_tensors = checksum_of_tensors();
    if (!of_tensors) return too_large();
    const std::string word = std::to_string(here_.rank) + " " + std::to_string(here_.info.step) +
                             " " + std::to_string(here_.info.epoch) + " " + *of_tensors + " " +
                             checksum_of_values() + "\n";
    if (auto error = store_.append(said_key, word, until_)) return lost(error);
    const auto count = store_.add(count_key, 1, until_);
    if (!count) return lost(count.error());
    const auto error = *count + 1 >= static_cast<std::int64_t>(here_.world_size)
                           ? store_.set(complete_key, "", until_)
                           : wait_for_others();
    return error ? std::optional(lost(error)) : std::nullopt;
  }

  // The first one tells it.
  failure too_large() {
    failure told{errc::timed_out,
                 what() +
                     "its checksum takes too long for the time that is left: give more with "
                     "emergency_grace, and with ddprun's --rdzv-conf stop_grace=",
                 true};
    const auto count = store_.add(late_key, 1, until_);
    if (count && *count == 1) here_.on_message(told.text);
    return told;
  }

  error_code wait_for_others() {
    const auto error =
        store_.wait(complete_key, std::min<duration>(until_.left() / settling_part, settling_max));
    if (error != errc::timed_out || !store_.is_connected()) return error;
    return wait_for_those_that_abort();
  }

  error_code wait_for_those_that_abort() {
    const deadline last = until_.left() / abort_part;
    while (!last.passed()) {
      const auto said = what_is_said();
      if (!said) return said.error();
      if (!farthest(settled_in(*said)).empty() || !is_one_awaited(settled_in(*said).all)) break;
      const auto error =
          store_.wait(complete_key, std::min<duration>(between_readings, last.left()));
      if (!error) break;
      if (error != errc::timed_out || !store_.is_connected()) return error;
    }
    return {};
  }

  // Whether a rank has said that it aborts, and not yet what it has finished.
  bool is_one_awaited(const std::vector<finished>& all) const {
    return std::any_of(aborts_.begin(), aborts_.end(), [&](const abort_word& each) {
      return std::none_of(all.begin(), all.end(),
                          [&](const finished& other) { return other.rank == each.rank; });
    });
  }

  // In this order: an abort that has ended one of the steps was said before the step was.
  result<std::string> what_is_said() {
    const auto said = store_.get(said_key, until_);
    if (!said) return said.error();
    const std::string key = aborted_key;
    const auto is_any = store_.check(store_client::key_list(&key, 1), until_);
    if (!is_any) return is_any.error();
    if (*is_any) {
      const auto aborts = store_.get(key, until_);
      if (!aborts) return aborts.error();
      aborts_ = aborted_in(*aborts);
    }
    return settled_text(*said, aborts_);
  }

  // The lowest of those that have said something tells it.
  failure nobody_can(const settlement& of) const {
    if (of.all.empty() || !of.first) {
      return failure{errc::malformed_message, what() + "nothing was said", true};
    }
    const auto step = std::to_string(of.first->step);
    failure told{errc::damaged,
                 what() + "rank " + std::to_string(of.first->rank) +
                     " has aborted its collectives in step " + step +
                     ", which may have ended that step on the other GPUs with wrong values; and of "
                     "the ranks that are left (" +
                     text_of(of.all) + ") none has stayed before step " + step,
                 true};
    const auto lowest = std::min_element(
        of.all.begin(), of.all.end(),
        [](const finished& one, const finished& other) { return one.rank < other.rank; });
    if (lowest->rank == here_.rank) here_.on_message(told.text);
    return told;
  }

  static std::optional<failure> agree(const std::vector<finished>& chosen) {
    const auto& first = chosen.front();
    std::vector<finished> of_tensors, of_values;
    for (const auto& each : chosen) {
      if (each.of_tensors != first.of_tensors) of_tensors.push_back(each);
      if (each.of_values != first.of_values) of_values.push_back(each);
    }
    if (of_tensors.empty() && of_values.empty()) return std::nullopt;
    const bool is_of_tensors = !of_tensors.empty();
    return failure{errc::damaged,
                   "rank " + std::to_string(first.rank) + " and " +
                       text_of(is_of_tensors ? of_tensors : of_values) + " have different " +
                       (is_of_tensors ? "states" : "values (learning rates, kept texts)") +
                       " after step " + std::to_string(first.step)};
  }

  // The others wait for what comes of it, whatever that is.
  std::optional<failure> write_or_tell() const {
    try {
      return write();
    } catch (const std::exception& caught) {  // of a tensor's copy
      return final_failure(caught);
    }
  }

  std::optional<failure> write() const {
    file_system& files = here_.files;
    const auto wrong = [](const error_code& error) { return failure{error, error.message()}; };
    std::string problem;
    const auto layout = lay_out(here_.replicated, {}, problem);
    if (!layout) return failure{layout.error(), problem};
    bool made = false;
    if (auto error = files.make_folder(place(), made)) return wrong(error);
    const auto names = list_names(files, place());
    if (!names) return wrong(names.error());
    snapshot_history history(files, here_.folder, here_.who, here_.info.generation, {},
                             here_.on_message);
    const snapshot_order order{here_.info.generation, here_.info.step};
    if (names->contains(manifest_name)) {
      // All have saved it before, but rank 0 may have died before its name was on the disk.
      auto failed = history.settle(order);
      if (!failed || failed->code != errc::not_found) return failed;
    }
    // That of a save that was given up speaks of files that are not whole.
    if (names->contains(index_name)) (void)files.remove(place() + "/" + std::string(index_name));
    const auto record = write_rank_file(files, place() + "/" + std::string(survivors_file_name),
                                        *layout, [this] { return until_.passed(); });
    if (!record) return wrong(record.error());
    if (auto error = files.sync_folder(place())) return wrong(error);
    snapshot_info info = here_.info;
    info.is_emergency = true;
    const auto failed = history.commit(manifest{info, {*record}});
    // A rank 0 that was cut off has saved the same step meanwhile, whole.
    const bool is_there = failed && failed->code == errc::refused && failed->may_be_there;
    return is_there ? history.settle(order) : failed;
  }

  std::optional<failure> hear(std::uint32_t writer) {
    if (auto error = store_.wait(outcome_key, until_)) {
      return failure{error,
                     what() + "no word from rank " + std::to_string(writer) +
                         ", which writes it: " + store_.problem(),
                     true, true};
    }
    const auto text = store_.get(outcome_key, until_);
    if (!text) return lost(text.error());
    return parse_outcome(*text);
  }

  const emergency& here_;
  store_client& store_;
  deadline until_;
  std::vector<abort_word> aborts_;
};

}  // namespace

error_code say_abort(store_client& store, std::uint32_t rank, std::uint64_t step,
                     const deadline& until) {
  return store.append(aborted_key, std::to_string(rank) + " " + std::to_string(step) + "\n", until);
}

std::optional<failure> save_emergency(const emergency& here, store_client& store,
                                      const deadline& until) {
  try {
    return survivors(here, store, until).save();
  } catch (const std::exception& caught) {  // of a tensor's copy
    return final_failure(caught);
  }
}

}  // namespace ddprun::worker
