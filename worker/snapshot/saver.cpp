#include "worker/snapshot/saver.hpp"

#include "rendezvous/base/rank_text.hpp"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

namespace ddprun::worker {
namespace {

std::string topic_of(std::uint64_t count) {
  return "save/" + std::to_string(count);
}

}  // namespace

saver::saver(saver_options options, rank_exchange ranks, std::optional<snapshot_history> history,
             std::optional<snapshot_order> resumed)
    : options_(std::move(options)),
      ranks_(std::move(ranks)),
      history_(std::move(history)),
      resumed_(resumed),
      thread_([this] { run(); }) {}

saver::~saver() {
  cancel();
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void saver::cancel() {
  is_cancelled_ = true;
  ranks_.cancel();
  settle_copy(failure{errc::timed_out, "given up before it was known that the copy is whole"});
}

bool saver::give_up(const deadline& until) {
  cancel();
  return wait_until(until);
}

void saver::begin(job next) {
  const std::lock_guard lock(mutex_);
  DDPRUN_ASSERT(!next_);
  const auto* const written = std::get_if<files>(&next.file);
  const bool will_be_made = !(failure_ && failure_->is_final);
  is_copied_ = !will_be_made || written == nullptr || written->late.empty();
  is_settled_ = !will_be_made || written == nullptr || !next.is_to_settle;
  wrong_copy_.reset();
  next_.emplace(std::move(next));
  changed_.notify_all();
}

bool saver::wait_until_copied() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_copied_; });
  return !is_settled_;
}

void saver::settle_copy(const outcome_word& wrong) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_settled_, true)) return;
  wrong_copy_ = wrong;
  changed_.notify_all();
}

outcome_word saver::wait_until_settled() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_settled_; });
  return wrong_copy_;
}

void saver::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !next_ && !is_to_trust_; });
}

bool saver::wait_until(const deadline& until) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, until.at(), [this] { return is_copied_; })) return false;
  is_settled_ = true;
  changed_.notify_all();
  return changed_.wait_until(lock, until.at(), [this] { return !next_ && !is_to_trust_; });
}

std::optional<failure> saver::take_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_ && failure_->is_final) return failure_;
  return std::exchange(failure_, std::nullopt);
}

std::optional<snapshot_order> saver::saved() const {
  const std::lock_guard lock(mutex_);
  return saved_;
}

std::optional<snapshot_order> saver::saved_in_vault() const {
  const std::lock_guard lock(mutex_);
  return saved_in_vault_;
}

void saver::trust_resumed() {
  const std::lock_guard lock(mutex_);
  is_to_trust_ = true;
  changed_.notify_all();
}

void saver::trust() {
  if (history_ && resumed_) history_->trust(*resumed_);
  if (options_.vault != nullptr && resumed_) options_.vault->note_resumed(std::nullopt);
  resumed_.reset();
}

void saver::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || next_ || is_to_trust_; });
    if (is_over_) return;
    if (next_ && !is_copied_) {
      // Before all else, for training waits for it. begin() puts no other one there meanwhile.
      lock.unlock();
      bring_late(*next_);
      lock.lock();
      is_copied_ = true;
    } else if (is_to_trust_) {
      lock.unlock();
      trust();
      lock.lock();
      is_to_trust_ = false;
    } else {
      // begin() puts no other one there before this one is over.
      const job& next = *next_;
      auto failed = failure_ && failure_->is_final ? failure_ : std::nullopt;
      if (!failed) {
        lock.unlock();
        failed = make(next);
        lock.lock();
      }
      if (!failed && !next.is_for_vault)
        saved_ = snapshot_order{next.info.generation, next.info.step};
      if (failed) failure_ = std::move(failed);
      next_.reset();
    }
    changed_.notify_all();
  }
}

// The other ranks must hear of what goes wrong here: it is the reason why this one has no file.
void saver::bring_late(job& next) const try {
  for (auto& bring : std::get<files>(next.file).late) {
    if (is_cancelled_) {
      next.file = failure{errc::timed_out, "given up before the state was copied"};
      return;
    }
    std::exchange(bring, nullptr)();  // what it holds need not wait for the disk
  }
} catch (const std::exception& error) {  // of a tensor's copy
  next.file = has_thrown("fetch the state", error);
}

std::string saver::path(const snapshot_info& info) const {
  return options_.folder + "/" + snapshot_name({info.generation, info.step});
}

written_word saver::write(const job& next) const try {
  if (const auto* told = std::get_if<failure>(&next.file)) return *told;
  const auto& mine = std::get<files>(next.file);
  const auto& header = mine.layout.header;
  const std::string place = path(next.info);
  bool made = false;
  if (auto error = options_.files->make_folder(place, made)) {
    return failure{error, "cannot make the folder: " + error.message()};
  }
  const std::string name = rank_file_name(options_.rank);
  // Never into one that is there, whoever has made it. The folder is listed, for a network file
  // system remembers of a name that was asked for too early that it is not there.
  const auto names = options_.files->list(place);
  if (!names) return failure{names.error(), "cannot read the folder: " + names.error().message()};
  if (std::find(names->begin(), names->end(), manifest_name) != names->end()) {
    return failure{errc::refused, "it is there already, made by another", true, true};
  }
  const auto record = write_rank_file(*options_.files, place + "/" + name, mine.layout,
                                      [this] { return is_cancelled_.load(); });
  auto error = record ? error_code() : record.error();
  if (!error && !mine.index.empty()) {
    if (const auto wrong = write_index(place, mine.index)) {
      return failure{wrong, "cannot write " + std::string(index_name) + ": " + wrong.message()};
    }
  }
  if (!error) error = options_.files->sync_folder(place);
  if (!error) return written_file{*record, mine.deal, mine.layout.has_pieces};
  return failure{error, "cannot write " + name + " (" +
                            std::to_string(header.bytes.size() + header.data_bytes) +
                            " bytes): " + error.message()};
} catch (const std::exception& error) {  // of a tensor's copy
  return has_thrown("fetch the state", error);
}

error_code saver::write_index(const std::string& place, const std::string& text) const {
  const std::string path = place + "/" + std::string(index_name);
  (void)options_.files->remove(path);
  const auto error = write_whole(*options_.files, path, text);
  if (error) (void)options_.files->remove(path);
  return error;
}

// The ranks have lost each other: whether there is a snapshot is not known here.
failure saver::lost(const std::string& what) const {
  return failure{errc::connection_closed, what + ranks_.problem(), true, true};
}

// Rank 0: once all have written.
std::optional<failure> saver::commit(const job& next, const std::string& topic) {
  const auto texts = ranks_.reports(topic);
  // No rank makes it a snapshot but this one.
  if (!texts) return failure{texts.error(), ranks_.problem(), true};
  manifest content{next.info, {}};
  const auto* const mine = std::get_if<files>(&next.file);
  if (mine != nullptr) content.replicated = mine->replicated;
  std::vector<outcome_word> wrong;
  std::vector<std::uint32_t> others;  // ranks with other tensors, if rank 0 writes all of its own
  for (const std::string& text : *texts) {
    const auto word = parse_written(text);
    const auto* const told = std::get_if<failure>(&word);
    wrong.push_back(told != nullptr ? outcome_word(*told) : std::nullopt);
    if (told != nullptr) continue;
    const auto& written = std::get<written_file>(word);
    content.files.push_back(written.record);
    content.has_pieces = content.has_pieces || written.has_pieces;
    if (mine == nullptr || written.deal == mine->deal) continue;
    if (mine->replicated.size() == 1) {
      others.push_back(static_cast<std::uint32_t>(wrong.size() - 1));
    } else {
      wrong.back() =
          failure{errc::invalid_argument,
                  "its replicated tensors have other names, types or shapes than rank 0's, or "
                  "other ranks write them; " +
                      std::string(what_to_do_about_a_difference)};
    }
  }
  if (auto worst = worst_of(wrong)) return worst;
  auto failed = history_->commit(content);
  if (!failed && !others.empty()) tell_of_difference(next, others);
  return failed;
}

// A job with a small state hears of it once, because with a larger one it would have no snapshots.
void saver::tell_of_difference(const job& next, const std::vector<std::uint32_t>& ranks) {
  if (std::exchange(has_told_of_difference_, true)) return;
  options_.on_message("snapshot " + path(next.info) +
                      " has rank 0's replicated tensors; those of " + text_of_ranks(ranks) +
                      " have other names, types or shapes, and a save of 128 MiB or more, which "
                      "several ranks write, would fail: " +
                      std::string(what_to_do_about_a_difference));
}

// What is left of a snapshot that none is: a full disk wants it back.
void saver::take_back(const snapshot_info& info) const {
  (void)options_.files->remove(path(info) + "/" + rank_file_name(options_.rank));
  if (options_.rank == 0) (void)options_.files->remove(path(info) + "/" + std::string(index_name));
  (void)options_.files->remove_folder(path(info));  // the last one of the ranks can
}

// An earlier attempt failed when the manifest may have been there: none, all is well with it;
// errc::not_found, it is gone for good.
outcome_word saver::settle(snapshot_order order, const std::string& topic,
                           const std::string& what) {
  if (options_.rank != 0) {
    const auto text = ranks_.announcement(topic);
    return text ? parse_outcome(*text) : lost(what + "no word from rank 0: ");
  }
  auto settled = history_->settle(order);
  if (settled) settled->text.insert(0, what);
  if (settled && settled->code != errc::not_found) options_.on_message(settled->text);
  if (ranks_.announce(topic, to_text(settled))) return lost(what + "cannot tell the other ranks: ");
  return settled;
}

// Rank 0: a rank that has reported to this save has heard of the one before.
void saver::forget_before() {
  if (count_ > 1) ranks_.forget(topic_of(count_ - 1));
  if (count_ > 1 && was_for_vault_) ranks_.forget(topic_of(count_ - 1) + whole_topic);
  was_for_vault_ = false;
}

std::optional<failure> saver::make(const job& next) {
  const std::string topic = topic_of(++count_);
  if (next.is_for_vault) return make_in_vault(next, topic);
  const std::string what = "cannot save snapshot " + path(next.info) + ": ";
  const snapshot_order order{next.info.generation, next.info.step};
  if (unsettled_.contains(order)) {
    auto settled = settle(order, topic + "/settled", what);
    if (settled && settled->code != errc::not_found) return settled;
    unsettled_.erase(order);
    if (!settled) return std::nullopt;
  }
  written_word mine = write(next);
  // Written beside the passes that may still change what was copied: only now it is known.
  if (std::holds_alternative<written_file>(mine)) {
    if (const auto wrong = wait_until_settled()) mine = *wrong;
  }
  if (ranks_.report(topic, to_text(mine))) return lost(what + "cannot tell rank 0: ");
  outcome_word outcome;
  if (options_.rank == 0) {
    outcome = commit(next, topic);
    if (outcome) outcome->text.insert(0, what);
    if (!outcome) trust();
    if (outcome) options_.on_message(outcome->text);
    committed_word word{outcome, {}};
    if (!outcome) word.going = history_->end_beyond_keep();
    if (ranks_.announce(topic, to_text(word)) && !outcome) {
      return lost(what + "it is there, but the other ranks cannot be told: ");
    }
    history_->remove_rest(word.going);
    if (!(outcome && outcome->is_final)) forget_before();
  } else {
    const auto text = ranks_.announcement(topic);
    if (!text) return lost(what + "no word from rank 0: ");
    const auto word = parse_committed(*text);
    for (const auto old : word.going)
      remove_own_file(*options_.files, options_.folder, old, options_.rank);
    outcome = word.outcome;
    if (!outcome) trust();
  }
  if (outcome && !outcome->may_be_there) take_back(next.info);
  if (outcome && outcome->may_be_there) unsettled_.insert(order);
  return outcome;
}

}  // namespace ddprun::worker
