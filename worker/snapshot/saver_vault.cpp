// The saver's part for the vault: each rank writes its file there, each node makes its files a
// snapshot, and all nodes keep it, or none.
#include "worker/snapshot/saver.hpp"

#include <exception>
#include <utility>

namespace ddprun::worker {

// What this rank says becomes what all say: none, or the failure of one of them.
outcome_word saver::of_all_ranks(const std::string& topic, const outcome_word& mine) {
  if (ranks_.report(topic, to_text(mine))) return lost("cannot tell rank 0: ");
  if (options_.rank != 0) {
    const auto text = ranks_.announcement(topic);
    return text ? parse_outcome(*text) : lost("no word from rank 0: ");
  }
  outcome_word outcome;
  if (const auto texts = ranks_.reports(topic)) {
    std::vector<outcome_word> told;
    for (const auto& text : *texts)
      told.push_back(parse_outcome(text));
    outcome = worst_of(told);
  } else {
    outcome = failure{texts.error(), ranks_.problem(), true};
  }
  if (ranks_.announce(topic, to_text(outcome))) return lost("cannot tell the other ranks: ");
  return outcome;
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
  outcome_word mine = write_in_vault(next);
  if (!mine) mine = wait_until_settled();
  outcome_word outcome = of_all_ranks(topic, mine);
  if (!outcome) {
    // All have written their files.
    const auto& files_here = std::get<files>(next.file);
    const vault_write what{next.info, files_here.layout, files_here.replicated, files_here.deal,
                           files_here.rank_0s};
    outcome = of_all_ranks(topic + whole_topic, options_.vault->complete(what));
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
