#include "worker/snapshot/resume.hpp"

#include "worker/snapshot/listing.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>
#include <vector>

namespace ddprun::worker {
namespace {

std::string choice_topic(std::size_t attempt) {
  return "resume/" + std::to_string(attempt);
}
std::string verdict_topic(std::size_t attempt) {
  return "verdict/" + std::to_string(attempt);
}

// Keeps the last line of a function that tells its reason to a handler, and hands it on.
class last_line {
 public:
  explicit last_line(message_handler next) : next_(std::move(next)) {}
  message_handler handler() {
    return [this](const std::string& line) {
      if (!line_.empty()) next_(line_);
      line_ = line;
    };
  }
  // What was said last is not the reason of a failure.
  void hand_on() {
    if (!line_.empty()) next_(std::exchange(line_, ""));
  }
  std::string take() { return std::exchange(line_, ""); }

 private:
  message_handler next_;
  std::string line_;
};

class meeting {
 public:
  meeting(const resuming& here, rank_exchange& ranks) : here_(here), ranks_(ranks) {}

  std::variant<agreement, failure> lead() {
    last_line said(here_.on_message);
    const auto generation = claim_folder(here_.files, here_.folder, here_.who, said.handler());
    if (!generation) return stop_all(0, {generation.error(), said.take()});
    agreed_.generation = *generation;
    said.hand_on();
    snapshot_history history(here_.files, here_.folder, here_.who, *generation, here_.history,
                             said.handler());
    history.remove_leftovers();
    for (std::size_t attempt = 0;; ++attempt) {
      const auto newest = history.newest();
      if (!newest) return stop_all(attempt, {newest.error(), said.take()});
      said.hand_on();
      choice made{agreed_.generation, std::nullopt};
      if (*newest) made.from = (*newest)->order();
      if (auto lost = announce(choice_topic(attempt), to_text(choice_word(made)))) return *lost;
      if (!made.from) break;
      const auto wrong = everybody_reads(attempt, *made.from);
      const bool is_damaged = wrong && wrong->code == errc::damaged;
      if (wrong && !is_damaged) return stop_reading(attempt, cannot_be_read(*made.from, *wrong));
      if (!wrong) {
        // Before any rank goes on from it: one that crashes at once takes this one with it.
        (void)history.mark_resumed((*newest)->info);
        said.hand_on();
      }
      if (auto lost = announce(verdict_topic(attempt), to_text(outcome_word(wrong)))) return *lost;
      if (!wrong) break;
      history.skip(*made.from, wrong->text);
      said.hand_on();
    }
    // What it says from now on is said at once.
    agreed_.history.emplace(std::move(history));
    agreed_.history->set_message_handler(here_.on_message);
    return std::move(agreed_);
  }

  std::variant<agreement, failure> follow() {
    for (std::size_t attempt = 0;; ++attempt) {
      const auto text = ranks_.announcement(choice_topic(attempt));
      if (!text)
        return failure{text.error(),
                       "rank 0 has not said from which snapshot to go on: " + ranks_.problem()};
      const auto word = parse_choice(*text);
      if (const auto* told = std::get_if<failure>(&word)) return of_rank_0(*told);
      const auto& made = std::get<choice>(word);
      agreed_.generation = made.generation;
      if (!made.from) return std::move(agreed_);
      if (auto lost = report(attempt, read(*made.from))) return *lost;
      const auto verdict = ranks_.announcement(verdict_topic(attempt));
      if (!verdict) {
        return failure{verdict.error(),
                       "rank 0 has not said whether all ranks could read their part of " +
                           path(*made.from) + ": " + ranks_.problem()};
      }
      const auto wrong = parse_outcome(*verdict);
      if (!wrong) return std::move(agreed_);
      if (wrong->code != errc::damaged) return of_rank_0(*wrong);
      agreed_.from.reset();
    }
  }

 private:
  std::string path(snapshot_order order) const { return here_.folder + "/" + snapshot_name(order); }

  // A folder that is not shared does not become so by itself.
  failure cannot_be_read(snapshot_order order, failure reason) const {
    if (reason.code == errc::not_found) return reason;
    reason.text = "snapshot " + path(order) + " cannot be read: " + reason.text +
                  "; start again when it can be, or move it away to go on from the one before it";
    return reason;
  }
  static failure of_rank_0(const failure& told) { return {told.code, "rank 0: " + told.text}; }

  std::optional<failure> announce(const std::string& topic, const std::string& text) {
    const auto error = ranks_.announce(topic, text);
    if (!error) return std::nullopt;
    return failure{error,
                   "cannot tell the other ranks from which snapshot to go on: " + ranks_.problem()};
  }
  // The others' text is best effort: the launcher tells them anyway.
  failure stop_all(std::size_t attempt, failure reason) {
    (void)announce(choice_topic(attempt), to_text(choice_word(reason)));
    return reason;
  }
  failure stop_reading(std::size_t attempt, failure reason) {
    (void)announce(verdict_topic(attempt), to_text(outcome_word(reason)));
    return reason;
  }

  std::optional<failure> report(std::size_t attempt, const outcome_word& read) {
    const auto error = ranks_.report(choice_topic(attempt), to_text(read));
    if (!error) return std::nullopt;
    return failure{error, "cannot tell rank 0 of the snapshot: " + ranks_.problem()};
  }

  // Rank 0: what is wrong with it for any of them.
  std::optional<failure> everybody_reads(std::size_t attempt, snapshot_order order) {
    if (auto lost = report(attempt, read(order))) return lost;
    const auto texts = ranks_.reports(choice_topic(attempt));
    if (!texts) {
      return failure{texts.error(), "not all ranks have read their part of snapshot " +
                                        path(order) + ": " + ranks_.problem()};
    }
    std::vector<outcome_word> told;
    for (const std::string& text : *texts)
      told.push_back(parse_outcome(text));
    return worst_of(told);
  }

  // Files that nobody reads, for there are fewer or more ranks now: each rank looks at its share.
  std::optional<failure> check_lengths(snapshot_order order, const manifest& content) {
    if (content.files.size() == here_.world_size) return std::nullopt;
    for (std::size_t rank = here_.rank; rank < content.files.size(); rank += here_.world_size) {
      const auto name = file_name_in(content.info, static_cast<std::uint32_t>(rank));
      const auto size = here_.files.size(path(order) + "/" + name);
      if (!size) {
        const bool is_none =
            size.error() == errc::not_found || is_system_error(size.error(), ENOENT);
        return failure{is_none ? make_error_code(errc::damaged) : size.error(),
                       name + ": " + size.error().message()};
      }
      if (*size == content.files[rank].bytes) continue;
      return failure{errc::damaged, name + ": it has " + std::to_string(*size) + " bytes and not " +
                                        std::to_string(content.files[rank].bytes)};
    }
    return std::nullopt;
  }

  // With shares of what all ranks have alike, and this rank's own.
  std::vector<std::uint32_t> files_to_read(std::vector<std::uint32_t> ranks, bool has_own) const {
    const bool is_there = std::find(ranks.begin(), ranks.end(), here_.rank) != ranks.end();
    if (has_own && !is_there) ranks.push_back(here_.rank);
    return ranks;
  }
  // By one rank of each node: where it is not known how many there are, by each.
  bool is_checked_here(const std::vector<std::uint32_t>& shares, std::uint32_t rank) const {
    if (here_.local_world_size <= 1) return true;
    const auto at = std::find(shares.begin(), shares.end(), rank) - shares.begin();
    return static_cast<std::uint32_t>(at) % here_.local_world_size == here_.local_rank;
  }
  static void add_to(snapshot_part& all, snapshot_part share) {
    all.values.merge(share.values);
    std::move(share.tensors.begin(), share.tensors.end(), std::back_inserter(all.tensors));
  }

  // This rank's part, into agreed_.from.
  outcome_word read(snapshot_order order) {
    const std::string place = path(order) + "/";
    const std::string manifest_path = place + std::string(manifest_name);
    const auto names = list_until(here_.files, path(order), [](const name_set& found) {
      return found.contains(manifest_name);
    });
    const bool is_gone =
        names ? !names->contains(manifest_name) : is_system_error(names.error(), ENOENT);
    if (is_gone) {
      return failure{errc::not_found, manifest_path + ": " + system_error(ENOENT).message() + "; " +
                                          std::string(shared_folder_hint)};
    }
    if (!names) return failure{names.error(), path(order) + ": " + names.error().message()};
    const auto text = here_.files.read(manifest_path, manifest_bytes_max);
    if (!text) return failure{text.error(), manifest_path + ": " + text.error().message()};
    const auto content = parse_manifest(*text);
    if (!content) return failure{content.error(), content.error().message()};
    if (content->order() != order) return failure{errc::damaged, "it is another's manifest"};
    resumed_snapshot found;
    found.info = content->info;
    found.world_size = static_cast<std::uint32_t>(content->files.size());
    found.path = path(order);
    std::optional<failure> wrong;
    const auto file_of = [&](std::uint32_t rank, bool is_checked) {
      std::string why;
      const auto name = file_name_in(content->info, rank);
      auto file = read_rank_file(here_.files, place + name, content->files[rank], is_checked, why);
      if (!file) wrong = failure{file.error(), name + ": " + why};
      return file;
    };
    // Nothing is any rank's own in an emergency's.
    const bool has_own = !found.info.is_emergency && found.world_size == here_.world_size;
    if (has_own) found.own.emplace();
    for (const std::uint32_t rank : files_to_read(content->replicated, has_own)) {
      const bool is_own = has_own && rank == here_.rank;
      auto file = file_of(rank, is_own || is_checked_here(content->replicated, rank));
      if (!file) return wrong;
      add_to(found.replicated, std::move(file->replicated));
      if (is_own) *found.own = std::move(file->own);
      found.bytes.push_back(file->mapping);
    }
    if (auto wrong_length = check_lengths(order, *content)) return wrong_length;
    agreed_.from = std::move(found);
    return std::nullopt;
  }

  const resuming& here_;
  rank_exchange& ranks_;
  agreement agreed_;
};

}  // namespace

std::variant<agreement, failure> agree_on_snapshot(const resuming& here, rank_exchange& ranks) {
  meeting all(here, ranks);
  return here.rank == 0 ? all.lead() : all.follow();
}

}  // namespace ddprun::worker
