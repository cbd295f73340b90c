#include "worker/snapshot/resume.hpp"

#include "worker/snapshot/handing_on.hpp"
#include "worker/snapshot/reading.hpp"
#include "worker/snapshot/sharded_tensors.hpp"
#include "worker/snapshot/vault_tier.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::worker {
namespace {

// The topic of a choice, or of a further turn in which ranks read for others; `turn` counts from 0.
std::string turn_topic(const std::string& what, std::size_t attempt, std::size_t turn) {
  const std::string topic = what + "/" + std::to_string(attempt);
  return turn == 0 ? topic : topic + "/" + std::to_string(turn);
}
std::string choice_topic(std::size_t attempt, std::size_t turn = 0) {
  return turn_topic("resume", attempt, turn);
}
std::string verdict_topic(std::size_t attempt, std::size_t turn) {
  return turn_topic("verdict", attempt, turn);
}
std::string handed_topic(std::size_t attempt) {
  return turn_topic("handed", attempt, 0);
}

// Holds the last line of a function that reports to a handler, so that it can become the reason.
class last_line {
 public:
  explicit last_line(message_handler next) : next_(std::move(next)) {}
  message_handler handler() {
    return [this](const std::string& line) {
      if (!line_.empty()) next_(line_);
      line_ = line;
    };
  }
  // Passes the last line on as a message: it was not the reason of a failure.
  void hand_on() {
    if (!line_.empty()) next_(std::exchange(line_, ""));
  }
  std::string take() { return std::exchange(line_, ""); }

 private:
  message_handler next_;
  std::string line_;
};

// What one rank reads of a snapshot: with a broadcast its share of the files, otherwise all that it
// needs, whose bytes the ranks of a node check together.
class part_of_snapshot {
 public:
  part_of_snapshot(const resuming& here, std::string path)
      : here_(here), reading_(here.files, std::move(path)) {}

  // `for_others` is empty in the first turn. Returns the files that another rank may be able to
  // read.
  reading_word read(snapshot_order order, const std::vector<std::uint32_t>& for_others) {
    if (!is_open_) {
      if (auto wrong = reading_.open(order)) return {wrong, {}};
      is_open_ = true;
    }
    for (const std::uint32_t file : for_others)
      ++tries_[file];
    reading_word word;
    for (const std::uint32_t rank : files_here(for_others)) {
      auto file = reading_.file(rank, is_checked_here(rank));
      if (auto* read = std::get_if<rank_file>(&file)) {
        read_.insert_or_assign(rank, std::move(*read));
        continue;
      }
      const auto& wrong = std::get<failure>(file);
      // Ranks read pieces directly, so no other rank can do that for this one.
      const bool may_be_handed_on = hands_on() && !wants_pieces();
      if (!may_be_handed_on || wrong.code == errc::damaged) return {wrong, {}};
      word.outcome = wrong;
      word.files.push_back(rank);
    }
    if (!word.outcome && for_others.empty()) {
      word.outcome = wants_pieces() ? open_pieces() : check_lengths();
    }
    return word;
  }

  // True if finish() distributes what one rank has read.
  bool hands_on() const { return static_cast<bool>(here_.broadcast); }

  // Call it when all ranks have read their parts. It can only fail if ranks distribute what they
  // have read; it throws what the broadcast throws.
  std::variant<resumed_snapshot, failure> finish() {
    auto found = reading_.begin();
    if (has_own()) found.own.emplace();
    found.sharded = pieces_;
    if (hands_on()) return handed_on(std::move(found));
    return read_here(std::move(found));
  }

 private:
  const manifest& content() const { return reading_.content(); }
  // An emergency snapshot has no rank's own state. If the number of ranks has changed, only the
  // program can decide how to distribute it.
  bool has_own() const {
    return here_.takes_own && !content().info.is_emergency &&
           content().files.size() == here_.world_size;
  }
  bool wants_pieces() const { return content().has_pieces && !has_own(); }
  // The current rank that reads a file of the saved ranks. Each retry moves on to the next rank.
  std::uint32_t reader_of(std::uint32_t file) const {
    const auto tries = tries_.find(file);
    return (file + (tries == tries_.end() ? 0 : tries->second)) % here_.world_size;
  }

  std::set<std::uint32_t> files_here(const std::vector<std::uint32_t>& for_others) const {
    std::set<std::uint32_t> files(for_others.begin(), for_others.end());
    if (for_others.empty()) {
      files.insert(content().replicated.begin(), content().replicated.end());
      if (has_own()) files.insert(here_.rank);
      for (std::size_t file = here_.rank; wants_pieces() && file < content().files.size();
           file += here_.world_size) {
        files.insert(static_cast<std::uint32_t>(file));
      }
    }
    if (hands_on())
      std::erase_if(files, [&](std::uint32_t file) { return reader_of(file) != here_.rank; });
    return files;
  }
  // Without the number of ranks on a node, each rank checks all that it reads.
  bool is_checked_here(std::uint32_t rank) const {
    const bool is_mine = (has_own() || wants_pieces()) && reader_of(rank) == here_.rank;
    if (hands_on() || is_mine || here_.local_world_size <= 1) return true;
    const auto& shares = content().replicated;
    const auto at = std::find(shares.begin(), shares.end(), rank) - shares.begin();
    return static_cast<std::uint32_t>(at) % here_.local_world_size == here_.local_rank;
  }
  // Checks the length of files that no rank reads, because the number of ranks has changed.
  std::optional<failure> check_lengths() const {
    if (content().files.size() == here_.world_size) return std::nullopt;
    for (std::size_t rank = here_.rank; rank < content().files.size(); rank += here_.world_size) {
      if (auto wrong = reading_.check_length(static_cast<std::uint32_t>(rank))) return wrong;
    }
    return std::nullopt;
  }

  // The bytes of each file are looked at by one rank, which has it open. The others open it when
  // they want a region that it has: most likely those whose ranks had the place of this one.
  std::optional<failure> open_pieces() {
    const std::uint64_t files = content().files.size();
    const auto pieces =
        reading_.pieces(static_cast<std::uint32_t>(here_.rank * files / here_.world_size), false);
    for (const auto& [rank, file] : read_) {
      std::string problem;
      if (auto error = pieces->add(rank, file.own, file.mapping, problem)) {
        return failure{error, file_name_in(content().info, rank) + ": " + problem};
      }
    }
    pieces_ = pieces;
    return std::nullopt;
  }

  resumed_snapshot read_here(resumed_snapshot found) {
    for (const std::uint32_t rank : content().replicated)
      add_share(found.replicated, std::move(read_.at(rank).replicated));
    if (found.own) *found.own = std::move(read_.at(here_.rank).own);
    for (const auto& [rank, file] : read_)
      found.bytes.push_back(file.mapping);
    return found;
  }

  std::shared_ptr<const mapped_file> mapping_of(std::uint32_t rank) const {
    const auto file = read_.find(rank);
    return file == read_.end() ? nullptr : file->second.mapping;
  }
  // A rank that finds an error continues to the end, because the others wait for it in each
  // broadcast.
  std::variant<resumed_snapshot, failure> handed_on(resumed_snapshot found) {
    const handing_on hands(here_.broadcast, here_.rank);
    std::optional<failure> first_wrong;
    std::string problem;
    const auto keep_wrong = [&](std::uint32_t rank, const error_code& error) {
      if (first_wrong) return;
      first_wrong = failure{error, file_name_in(content().info, rank) +
                                       ", as received from another rank: " + problem};
    };
    for (const std::uint32_t rank : content().replicated) {
      auto share = hands.share(reader_of(rank), mapping_of(rank), problem);
      if (share) {
        add_share(found.replicated, std::move(*share));
      } else {
        keep_wrong(rank, share.error());
      }
    }
    for (std::uint32_t rank = 0; found.own && rank < content().files.size(); ++rank) {
      if (reader_of(rank) == rank) continue;
      // Its own rank could not read it, but another one could.
      auto file = hands.whole(reader_of(rank), rank, content().files[rank].bytes, mapping_of(rank));
      if (!file) continue;
      auto parts = parts_of(std::move(file), problem);
      if (parts) {
        read_.insert_or_assign(rank, std::move(*parts));
      } else {
        keep_wrong(rank, parts.error());
      }
    }
    if (first_wrong) return *std::move(first_wrong);
    if (!found.own) return found;
    auto& mine = read_.at(here_.rank);
    *found.own = std::move(mine.own);
    found.bytes.push_back(mine.mapping);
    return found;
  }
  static result<rank_file> parts_of(std::shared_ptr<const mapped_file> file, std::string& problem) {
    auto tensors = read_safetensors(file->bytes(), problem);
    if (!tensors) return tensors.error();
    auto parts = split_by_owner(std::move(*tensors), problem);
    if (parts) parts->mapping = std::move(file);
    return parts;
  }

  const resuming& here_;
  snapshot_reading reading_;
  bool is_open_ = false;
  std::shared_ptr<const sharded_tensors> pieces_;  // of all files; none: not needed
  std::map<std::uint32_t, rank_file> read_;        // by the rank that has written it
  std::map<std::uint32_t, std::uint32_t> tries_;   // of a file that its first reader cannot read
};

class meeting {
 public:
  meeting(const resuming& here, rank_exchange& ranks) : here_(here), ranks_(ranks) {}

  std::variant<agreement, failure> lead() {
    last_line said(here_.on_message);
    if (auto lost = meet_in_vault()) return stop_all(0, *lost);
    const auto generation =
        claim_folder(here_.files, here_.folder, here_.who, said.handler(),
                     here_.vault == nullptr ? 0 : here_.vault->generation_max());
    if (!generation) return stop_all(0, {generation.error(), said.take()});
    agreed_.generation = *generation;
    said.hand_on();
    snapshot_history history(here_.files, here_.folder, here_.who, *generation, here_.history,
                             said.handler());
    auto leftovers = history.leftovers();
    if (uses_vault()) history.consider_vault(here_.vault->folder(), held_in_vault());
    for (std::size_t attempt = 0;; ++attempt) {
      const auto newest = history.newest();
      if (!newest) return stop_all(attempt, {newest.error(), said.take()});
      said.hand_on();
      choice made{agreed_.generation, std::nullopt, std::exchange(leftovers, {})};
      if (*newest) made.from = (*newest)->order();
      made.is_in_vault = made.from && history.is_in_vault(*made.from);
      if (auto lost = announce(choice_topic(attempt), to_text(choice_word(made)))) return *lost;
      history.remove_rest(made.going);
      if (!made.from) break;
      choose(made);
      part_of_snapshot part(*place_, path(*made.from));
      std::string topic;
      const auto wrong = everybody_takes(attempt, *made.from, part, topic);
      if (wrong && wrong->code != errc::damaged) return stop_reading(topic, *wrong);
      if (!wrong) {
        // Mark it before any rank resumes, because a rank that crashes at once takes this one with
        // it.
        (void)history.mark_resumed((*newest)->info);
        said.hand_on();
      }
      if (auto lost = announce(topic, to_text(reading_word{wrong, {}}))) return *lost;
      if (!wrong) break;
      give_up(*made.from);
      history.skip(*made.from, wrong->text);
      said.hand_on();
    }
    // From now on its messages are passed on immediately.
    agreed_.history.emplace(std::move(history));
    agreed_.history->set_message_handler(here_.on_message);
    return std::move(agreed_);
  }

  std::variant<agreement, failure> follow() {
    if (auto lost = meet_in_vault()) return *std::move(lost);
    for (std::size_t attempt = 0;; ++attempt) {
      const auto text = ranks_.announcement(choice_topic(attempt));
      if (!text)
        return failure{text.error(),
                       "rank 0 has not said from which snapshot to resume: " + ranks_.problem()};
      const auto word = parse_choice(*text);
      if (const auto* told = std::get_if<failure>(&word)) return of_rank_0(*told);
      const auto& made = std::get<choice>(word);
      agreed_.generation = made.generation;
      for (const auto order : made.going)
        remove_own_file(here_.files, here_.folder, order, here_.rank);
      if (!made.from) return std::move(agreed_);
      choose(made);
      part_of_snapshot part(*place_, path(*made.from));
      auto wrong = read_with_others(attempt, *made.from, part);
      if (!wrong) wrong = finish_with_others(attempt, *made.from, part);
      if (!wrong) return std::move(agreed_);
      if (wrong->code != errc::damaged) return *std::move(wrong);
      give_up(*made.from);
    }
  }

 private:
  std::string path(snapshot_order order) const {
    return place_->folder + "/" + snapshot_name(order);
  }

  std::optional<failure> meet_in_vault() {
    return here_.vault == nullptr ? std::nullopt : here_.vault->meet(ranks_);
  }
  bool uses_vault() const { return here_.vault != nullptr && here_.vault->is_used(); }
  std::set<snapshot_order> held_in_vault() const {
    std::set<snapshot_order> held;
    for (const auto& [order, found] : here_.vault->held())
      held.insert(order);
    return held;
  }
  // In the vault a node's ranks have a snapshot of their own, as if there were no others.
  void choose(const choice& made) {
    place_.emplace(here_);
    is_in_vault_ = made.is_in_vault && uses_vault();
    if (!is_in_vault_) return;
    place_->folder = here_.vault->folder();
    place_->rank = here_.local_rank;
    place_->world_size = here_.local_world_size;
    place_->broadcast = nullptr;
    const auto held = here_.vault->held().find(*made.from);
    const bool is_held = held != here_.vault->held().end();
    place_->takes_own = is_held && held->second.has_own;
    holder_ = is_held ? held->second.has_rank_0s.value_or(0) : 0;
  }
  // Each node has read all of it but what rank 0 had saved, which one rank hands out.
  bool joins_nodes() const {
    return is_in_vault_ && here_.broadcast && here_.local_world_size != here_.world_size;
  }
  bool hands_on(const part_of_snapshot& part) const { return part.hands_on() || joins_nodes(); }
  void give_up(snapshot_order order) {
    agreed_.from.reset();
    if (is_in_vault_) here_.vault->forget(order);
  }
  // Whatever is wrong with it there, the next one is tried: a vault never stops a job.
  reading_word read(part_of_snapshot& part, snapshot_order order,
                    const std::vector<std::uint32_t>& for_others) {
    auto word = part.read(order, for_others);
    if (!is_in_vault_) return word;
    if (!word.outcome) {
      saved_ = here_.vault->ranks_of(order);
      if (!saved_) word.outcome = failure{errc::damaged, "it has lost its ranks.json"};
    }
    if (!word.outcome) return word;
    word.outcome->code = errc::damaged;
    word.files.clear();
    return word;
  }

  // A folder that is not shared will not become readable later, and if ranks have lost each other
  // or the job store is garbled, that is not the snapshot's fault: nobody should move it away then.
  failure cannot_be_read(snapshot_order order, failure reason) const {
    if (reason.code == errc::not_found || reason.code == errc::malformed_message) return reason;
    if (reason.is_final) return reason;
    reason.text = "snapshot " + path(order) + " cannot be read: " + reason.text +
                  "; start again when it can be, or move it away to resume from the one before it";
    return reason;
  }
  static failure of_rank_0(const failure& told) { return {told.code, "rank 0: " + told.text}; }

  std::optional<failure> announce(const std::string& topic, const std::string& text) {
    const auto error = ranks_.announce(topic, text);
    if (!error) return std::nullopt;
    return failure{error,
                   "cannot tell the other ranks from which snapshot to resume: " + ranks_.problem(),
                   true};
  }
  // The announcement is best effort: the launcher stops the other ranks anyway.
  failure stop_all(std::size_t attempt, failure reason) {
    (void)announce(choice_topic(attempt), to_text(choice_word(reason)));
    return reason;
  }
  failure stop_reading(const std::string& topic, failure reason) {
    (void)announce(topic, to_text(reading_word{reason, {}}));
    return reason;
  }

  std::optional<failure> report(const std::string& topic, const reading_word& read) {
    const auto error = ranks_.report(topic, to_text(read));
    if (!error) return std::nullopt;
    return failure{error, "cannot tell rank 0 of the snapshot: " + ranks_.problem(), true};
  }

  // Rank 0: returns any rank's failure. The ranks then wait for the verdict on `topic`.
  std::optional<failure> everybody_takes(std::size_t attempt, snapshot_order order,
                                         part_of_snapshot& part, std::string& topic) {
    std::size_t turn = 0;
    const auto wrong = everybody_reads(attempt, turn, order, part);
    topic = verdict_topic(attempt, turn);
    if (wrong) return wrong->code == errc::damaged ? *wrong : cannot_be_read(order, *wrong);
    if (!hands_on(part)) return finish(part);
    if (auto lost = announce(topic, to_text(reading_word{}))) return lost;
    topic = handed_topic(attempt);
    return everybody_has(topic, part);
  }

  // Rank 0: returns any rank's failure. A file that one rank cannot read is tried by another one,
  // until all have tried.
  std::optional<failure> everybody_reads(std::size_t attempt, std::size_t& turn,
                                         snapshot_order order, part_of_snapshot& part) {
    std::vector<std::uint32_t> again;
    for (;; ++turn) {
      if (auto lost = report(choice_topic(attempt, turn), read(part, order, again))) return lost;
      const auto texts = ranks_.reports(choice_topic(attempt, turn));
      if (!texts) {
        return failure{texts.error(),
                       "not all ranks have read their part of snapshot " + path(order) + ": " +
                           ranks_.problem(),
                       true};
      }
      std::vector<outcome_word> told;
      bool has_others = turn + 1 < here_.world_size;
      again.clear();
      for (const std::string& text : *texts) {
        const auto word = parse_reading(text);
        has_others = has_others && (!word.outcome || !word.files.empty());
        again.insert(again.end(), word.files.begin(), word.files.end());
        told.push_back(word.outcome);
      }
      if (!has_others || again.empty()) return worst_of(told);
      if (auto lost =
              announce(verdict_topic(attempt, turn), to_text(reading_word{std::nullopt, again}))) {
        return lost;
      }
    }
  }

  // The other ranks: after a failure that is damage rank 0 makes another attempt.
  std::optional<failure> read_with_others(std::size_t attempt, snapshot_order order,
                                          part_of_snapshot& part) {
    std::vector<std::uint32_t> again;
    for (std::size_t turn = 0;; ++turn) {
      if (auto lost = report(choice_topic(attempt, turn), read(part, order, again))) return lost;
      const auto verdict = ranks_.announcement(verdict_topic(attempt, turn));
      if (!verdict) {
        return failure{verdict.error(),
                       "rank 0 has not said whether all ranks could read their part of " +
                           path(order) + ": " + ranks_.problem()};
      }
      const auto word = parse_reading(*verdict);
      if (word.outcome) return of_rank_0(*word.outcome);
      if (word.files.empty()) return std::nullopt;
      again = word.files;
    }
  }

  // Rank 0: returns any rank's failure while the read bytes were distributed.
  std::optional<failure> everybody_has(const std::string& topic, part_of_snapshot& part) {
    auto mine = finish(part);
    if (auto lost = report(topic, {mine, {}})) return lost;
    if (has_lost_others(mine)) return mine;
    const auto texts = ranks_.reports(topic);
    if (!texts) {
      return failure{texts.error(),
                     "not all ranks have what was read of the snapshot: " + ranks_.problem()};
    }
    std::vector<outcome_word> told;
    for (const std::string& text : *texts)
      told.push_back(parse_outcome(text));
    return worst_of(told);
  }

  // The other ranks, as in read_with_others.
  std::optional<failure> finish_with_others(std::size_t attempt, snapshot_order order,
                                            part_of_snapshot& part) {
    auto mine = finish(part);
    if (!hands_on(part)) return mine;
    const std::string topic = handed_topic(attempt);
    if (auto lost = report(topic, {mine, {}})) return lost;
    if (has_lost_others(mine)) return mine;
    const auto verdict = ranks_.announcement(topic);
    if (!verdict) {
      return failure{verdict.error(),
                     "rank 0 has not said whether all ranks have what was read of " + path(order) +
                         ": " + ranks_.problem()};
    }
    const auto word = parse_outcome(*verdict);
    return word ? std::optional(of_rank_0(*word)) : std::nullopt;
  }

  // This rank has left a broadcast, so the other ranks' reports, and their timing, are
  // unpredictable.
  static bool has_lost_others(const outcome_word& mine) {
    return mine && mine->code != errc::damaged;
  }

  std::optional<failure> finish(part_of_snapshot& part) try {
    auto found = part.finish();
    if (const auto* wrong = std::get_if<failure>(&found)) return *wrong;
    agreed_.from = std::get<resumed_snapshot>(std::move(found));
    agreed_.from->is_in_vault = is_in_vault_;
    if (is_in_vault_) agreed_.from->world_size = saved_->world_size;
    if (joins_nodes())
      take_what_rank_0_saved(*agreed_.from, *saved_, here_.broadcast, holder_, here_.rank);
    return std::nullopt;
  } catch (const std::exception& lost) {  // from the broadcast
    return failure{
        errc::connection_closed,
        std::string("cannot distribute what ranks have read of the snapshot: ") + lost.what()};
  }

  const resuming& here_;
  rank_exchange& ranks_;
  std::optional<resuming> place_{here_};  // where the chosen snapshot is, and who reads it
  bool is_in_vault_ = false;
  std::optional<ranks_of_node> saved_;  // of the one in the vault
  std::uint32_t holder_ = 0;            // of what rank 0 had saved there
  agreement agreed_;
};

}  // namespace

std::variant<agreement, failure> agree_on_snapshot(const resuming& here, rank_exchange& ranks) {
  meeting all(here, ranks);
  return here.rank == 0 ? all.lead() : all.follow();
}

}  // namespace ddprun::worker
