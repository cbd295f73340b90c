// The saver's part for the vault: each rank writes its file there, each node makes its files a
// snapshot, and all nodes keep it, or none.
#include "rendezvous/base/rank_text.hpp"
#include "worker/snapshot/saver.hpp"

#include <exception>
#include <utility>
#include <vector>

namespace ddprun::worker {

namespace {

// Rank 0: none, or the failure of a rank. Each node's snapshot is one by itself, so only here the
// tensors of different nodes are compared.
outcome_word outcome_of(const std::vector<std::string>& texts) {
  std::vector<outcome_word> told;
  std::vector<std::uint64_t> descriptions;
  for (const auto& text : texts) {
    const auto word = parse_written(text);
    const auto* const wrong = std::get_if<failure>(&word);
    told.push_back(wrong != nullptr ? outcome_word(*wrong) : std::nullopt);
    descriptions.push_back(wrong != nullptr ? 0 : std::get<written_file>(word).deal);
  }
  if (auto worst = worst_of(told)) return worst;
  std::vector<std::uint32_t> others;
  for (std::uint32_t rank = 0; rank < descriptions.size(); ++rank) {
    if (descriptions[rank] != descriptions[0]) others.push_back(rank);
  }
  if (others.empty()) return std::nullopt;
  return failure{errc::invalid_argument,
                 text_of_ranks(others) + (others.size() == 1 ? " has" : " have") +
                     " replicated tensors with other names, types or shapes than rank 0: " +
                     std::string(what_to_do_about_a_difference)};
}

}  // namespace

// What this rank says becomes what all say: none, or the failure of one of them. `has_rank_0s` is
// rank 0's.
in_vaults_word saver::of_all_ranks(const std::string& topic, const written_word& mine,
                                   bool has_rank_0s) {
  if (ranks_.report(topic, to_text(mine))) return {lost("cannot tell rank 0: ")};
  if (options_.rank != 0) {
    const auto text = ranks_.announcement(topic);
    return text ? parse_in_vaults(*text) : in_vaults_word{lost("no word from rank 0: ")};
  }
  in_vaults_word word{std::nullopt, has_rank_0s};
  if (const auto texts = ranks_.reports(topic)) {
    word.outcome = outcome_of(*texts);
  } else {
    word.outcome = failure{texts.error(), ranks_.problem(), true};
  }
  if (ranks_.announce(topic, to_text(word))) return {lost("cannot tell the other ranks: ")};
  return word;
}

outcome_word saver::write_in_vault(const job& next) try {
  if (const auto* told = std::get_if<failure>(&next.file)) return *told;
  const auto& mine = std::get<files>(next.file);
  return options_.vault->write({next.info, mine.layout, mine.replicated, mine.deal, mine.rank_0s},
                               [this] { return is_cancelled_.load(); });
} catch (const std::exception& error) {  // of a tensor's copy
  return has_thrown("fetch the state", error);
}

// Rank 0. One line for as long as it fails: the folder's snapshots are saved all the same.
void saver::tell_of_vault(const outcome_word& outcome, snapshot_order order) {
  if (options_.rank != 0) return;
  const bool is_told = std::exchange(is_vault_told_, outcome.has_value());
  if (!outcome || outcome->is_final || is_told) return;
  options_.on_message("cannot save snapshot " + options_.vault->path(order) + " in the vault: " +
                      outcome->text + "; going on with those in " + options_.folder);
}

std::optional<failure> saver::make_in_vault(const job& next, const std::string& topic) {
  const snapshot_order order{next.info.generation, next.info.step};
  const auto* const files_here = std::get_if<files>(&next.file);
  const auto word_of = [&](const outcome_word& wrong) -> written_word {
    if (wrong) return *wrong;
    return written_file{{}, files_here->descriptions};
  };
  outcome_word mine = write_in_vault(next);
  if (!mine) mine = wait_until_settled();
  const bool has_rank_0s = files_here != nullptr && !files_here->rank_0s.empty();
  const in_vaults_word written = of_all_ranks(topic, word_of(mine), has_rank_0s);
  outcome_word outcome = written.outcome;
  if (!outcome) {
    // All have written their files.
    const vault_write what{next.info,        files_here->layout,  files_here->replicated,
                           files_here->deal, files_here->rank_0s, written.has_rank_0s};
    outcome =
        of_all_ranks(topic + whole_topic, word_of(options_.vault->complete(what)), false).outcome;
  }
  if (!outcome) {
    options_.vault->keep(order);
  } else if (!outcome->is_final) {
    options_.vault->take_back(order);
  }
  tell_of_vault(outcome, order);
  if (outcome && outcome->is_final) {
    outcome->text.insert(0, "cannot save snapshot " + options_.vault->path(order) + ": ");
    return outcome;
  }
  if (options_.rank == 0) forget_before();
  was_for_vault_ = true;
  if (outcome) return std::nullopt;
  const std::lock_guard lock(mutex_);
  saved_in_vault_ = order;
  return std::nullopt;
}

}  // namespace ddprun::worker
