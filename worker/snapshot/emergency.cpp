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

// Of the time that is left, for the others to come: more than one rank may be dead. Who talks to a
// dead rank loses it at once. The others wait in a collective for those that wait here, and may be
// a step ahead: they come as soon as these let go of them (process_group::let_go), or have ended.
constexpr int settling_part = 4;
constexpr std::chrono::milliseconds settling_max{1500};

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

// Those that have finished the greatest step, and where that ends an epoch, its end: the lowest
// rank first.
std::vector<finished> farthest(std::vector<finished> all) {
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
    if (auto error = tell()) return lost(error);
    const auto said = store_.get(said_key, until_);
    if (!said) return lost(said.error());
    const auto closed = store_.compare_set(closed_key, "", *said, until_);
    if (!closed) return lost(closed.error());
    const auto chosen = farthest(finished_in(*closed));
    if (chosen.empty()) return failure{errc::malformed_message, what() + "nothing was said", true};
    if (chosen.front().rank != here_.rank) return hear(chosen.front().rank);
    auto outcome = agree(chosen);
    if (!outcome) outcome = write_or_tell();
    if (outcome) outcome->text.insert(0, what());
    here_.on_message(outcome ? outcome->text
                             : "snapshot " + place() + " was saved by the ranks that are left (" +
                                   text_of(finished_in(*closed)) + ")");
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

  std::string checksum_of_tensors() const {
    checksum sum;
    std::string buffer;
    for (const auto& tensor : here_.replicated.tensors) {
      if (!is_compared(tensor.name)) continue;
      sum.add(to_text(static_cast<const tensor_description&>(tensor)));
      if (!tensor.copy) {
        sum.add(tensor.bytes);
        continue;
      }
      buffer.resize(bytes_of(tensor).value_or(0));
      tensor.copy(buffer.data());
      sum.add(buffer);
    }
    return checksum_text(sum.value());
  }

  // What this rank has, and waits for the others.
  error_code tell() {
    const std::string closed = closed_key;
    const auto is_closed = store_.check(store_client::key_list(&closed, 1), until_);
    if (!is_closed) return is_closed.error();
    if (*is_closed) return {};  // those before have settled it
    const std::string word = std::to_string(here_.rank) + " " + std::to_string(here_.info.step) +
                             " " + std::to_string(here_.info.epoch) + " " + checksum_of_tensors() +
                             " " + checksum_of_values() + "\n";
    if (auto error = store_.append(said_key, word, until_)) return error;
    const auto count = store_.add(count_key, 1, until_);
    if (!count) return count.error();
    if (*count + 1 >= static_cast<std::int64_t>(here_.world_size)) {
      return store_.set(complete_key, "", until_);
    }
    const auto error =
        store_.wait(complete_key, std::min<duration>(until_.left() / settling_part, settling_max));
    return error == errc::timed_out && store_.is_connected() ? error_code() : error;
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
};

}  // namespace

std::optional<failure> save_emergency(const emergency& here, store_client& store,
                                      const deadline& until) {
  try {
    return survivors(here, store, until).save();
  } catch (const std::exception& caught) {  // of a tensor's copy
    return final_failure(caught);
  }
}

}  // namespace ddprun::worker
