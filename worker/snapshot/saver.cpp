#include "worker/snapshot/saver.hpp"

#include <cinttypes>
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
  ranks_.cancel();
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void saver::begin(job next) {
  const std::lock_guard lock(mutex_);
  DDPRUN_ASSERT(!next_);
  next_.emplace(std::move(next));
  changed_.notify_all();
}

void saver::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !next_ && !is_to_trust_; });
}

std::optional<failure> saver::take_failure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failure_, std::nullopt);
}

std::optional<snapshot_order> saver::saved() const {
  const std::lock_guard lock(mutex_);
  return saved_;
}

void saver::trust_resumed() {
  const std::lock_guard lock(mutex_);
  is_to_trust_ = true;
  changed_.notify_all();
}

void saver::trust() {
  if (history_ && resumed_) history_->trust(*resumed_);
  resumed_.reset();
}

void saver::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || next_ || is_to_trust_; });
    if (is_to_trust_) {
      lock.unlock();
      trust();
      lock.lock();
      is_to_trust_ = false;
    } else if (next_) {
      // begin() puts no other one there before this one is over.
      const job& next = *next_;
      lock.unlock();
      auto failed = make(next);
      lock.lock();
      if (!failed) saved_ = snapshot_order{next.info.tenure, next.info.step};
      if (failed) failure_ = std::move(failed);
      next_.reset();
    } else {
      return;
    }
    changed_.notify_all();
  }
}

std::string saver::path(const snapshot_info& info) const {
  return options_.folder + "/" + snapshot_name({info.tenure, info.step});
}

written_word saver::write(const job& next) const {
  if (const auto* told = std::get_if<failure>(&next.file)) return *told;
  const auto& layout = std::get<rank_file_layout>(next.file);
  const std::string place = path(next.info);
  bool made = false;
  if (auto error = options_.files->make_folder(place, made)) {
    return failure{error, "cannot make the folder: " + error.message()};
  }
  const std::string name = rank_file_name(options_.rank);
  const auto record = write_rank_file(*options_.files, place + "/" + name, layout);
  auto error = record ? options_.files->sync_folder(place) : record.error();
  if (!error) return *record;
  return failure{error, "cannot write " + name + " (" +
                            std::to_string(layout.header.bytes.size() + layout.header.data_bytes) +
                            " bytes): " + error.message()};
}

// Rank 0: once all have written.
std::optional<failure> saver::commit(const snapshot_info& info, const std::string& topic) {
  const auto texts = ranks_.reports(topic);
  if (!texts) return failure{texts.error(), ranks_.problem()};
  manifest content{info, {}};
  std::vector<outcome_word> wrong;
  for (const std::string& text : *texts) {
    const auto word = parse_written(text);
    const auto* const told = std::get_if<failure>(&word);
    wrong.push_back(told != nullptr ? outcome_word(*told) : std::nullopt);
    if (told == nullptr) content.files.push_back(std::get<file_record>(word));
  }
  if (auto worst = worst_of(wrong)) return worst;
  std::string problem;
  if (auto error = history_->commit(content, problem)) return failure{error, problem};
  return std::nullopt;
}

// What is left of a snapshot that none is: a full disk wants it back.
void saver::take_back(const snapshot_info& info) const {
  (void)options_.files->remove(path(info) + "/" + rank_file_name(options_.rank));
  (void)options_.files->remove_folder(path(info));  // the last one of the ranks can
}

std::optional<failure> saver::make(const job& next) {
  const std::string topic = topic_of(++count_);
  const std::string what = "cannot save snapshot " + path(next.info) + ": ";
  const written_word mine = write(next);
  std::optional<failure> failed;
  if (auto error = ranks_.report(topic, to_text(mine))) {
    failed = failure{error, what + "cannot tell rank 0: " + ranks_.problem()};
  } else if (options_.rank == 0) {
    failed = commit(next.info, topic);
    if (failed) failed->text.insert(0, what);
    if (!failed) trust();
    (void)ranks_.announce(topic, to_text(outcome_word(failed)));
    // Whoever has reported to this one has heard of the one before.
    if (count_ > 1) ranks_.forget(topic_of(count_ - 1));
  } else if (const auto text = ranks_.announcement(topic)) {
    failed = parse_outcome(*text);
  } else {
    failed = failure{text.error(), what + "no word from rank 0: " + ranks_.problem()};
  }
  if (failed) {
    take_back(next.info);
    if (options_.rank == 0) options_.on_message(failed->text);
  }
  return failed;
}

}  // namespace ddprun::worker
