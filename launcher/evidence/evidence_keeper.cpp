#include "launcher/evidence/evidence_keeper.hpp"

#include "rendezvous/base/time.hpp"
#include "rendezvous/base/utf8.hpp"

#include <chrono>
#include <csignal>
#include <sys/prctl.h>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::size_t hang_text_bytes_max = 600;

}  // namespace

evidence_keeper::evidence_keeper(boost::asio::any_io_executor executor, spawner& inner,
                                 keeper_options options, outside with)
    : inner_(inner),
      options_(std::move(options)),
      outside_(std::move(with)),
      writer_(executor, {outside_.say, outside_.memory_files}),
      failed_(writer_) {
  if (options_.gathering_limit == duration::zero() && !options_.hang_limit) return;
  // Workers open our memory files through our /proc, which is closed to them if we are not
  // dumpable.
  const bool is_open = ::prctl(PR_GET_DUMPABLE) == 1;
  if (options_.is_python && is_open) {
    if (options_.asks_collectives) servers_ = std::make_unique<server_folder>(options_.environment);
    stacks_ = std::make_unique<stack_spawner>(inner_, servers_ ? servers_->path() : "");
  }
  if (is_open) progress_ = std::make_unique<progress_files>(options_.worker_count);
  watch_options values;
  values.limit = std::chrono::duration_cast<std::chrono::milliseconds>(options_.gathering_limit);
  values.names_hangs = options_.names_hangs;
  values.hang_limit = options_.hang_limit;
  values.environment = options_.environment;
  if (servers_) values.server_folder = servers_->path();
  values.ask = options_.ask;
  rank_watch::outside given;
  given.living = [this] { return living_ranks(); };
  given.add_output = [this](rank_evidence& known) { add_output(known); };
  given.memory_files = outside_.memory_files;
  given.hangs = [this](const hang_verdict& verdict, duration still_for) {
    hear_hang(verdict, still_for);
  };
  given.stands = [this](const std::string& sentence, duration still_for) {
    hear_stand(sentence, still_for);
  };
  given.stalls = [this](std::optional<stall> seen) {
    if (!seen) outside_.hangs(std::nullopt);
    outside_.stalls(std::move(seen));
  };
  watch_ = std::make_unique<rank_watch>(executor, values, std::move(given));
}

evidence_keeper::~evidence_keeper() = default;

spawner& evidence_keeper::asking_spawner() {
  if (stacks_) return *stacks_;
  return inner_;
}

std::string evidence_keeper::stack_site() const {
  return stacks_ && stacks_->is_on() ? stacks_->path() : std::string();
}

warm::answer_options evidence_keeper::answers() const {
  return stack_site().empty() ? warm::answer_options() : stacks_->answers();
}

std::vector<watched_rank> evidence_keeper::living_ranks() const {
  std::vector<watched_rank> ranks;
  for (const worker_group::live_worker& one : outside_.living()) {
    if (one.pid <= 0) continue;
    watched_rank next;
    next.known.rank = one.rank;
    next.known.local_rank = one.local_rank;
    next.known.pid = one.pid;
    next.said_bytes = one.said_bytes;
    if (progress_) next.known.step = progress_->step_of(one.local_rank);
    ranks.push_back(std::move(next));
  }
  return ranks;
}

void evidence_keeper::add_output(rank_evidence& known) const {
  worker_group::words words = outside_.words_of(known.rank);
  known.output_tail = std::move(words.output);
  known.errors_tail = std::move(words.errors);
}

std::vector<std::string> evidence_keeper::empty_progress_files() {
  if (!progress_) return {};
  progress_->empty();
  return progress_->paths();
}

std::string evidence_keeper::reached() const {
  return progress_ ? progress_->reached() : std::string();
}

void evidence_keeper::begin_round(round_number round, bool sees_all) {
  // The answers of its ranks would come too late for the round that ends here.
  if (std::exchange(gathers_for_, std::nullopt)) take_facts(round_);
  round_ = round;
  folder_ = folder_of(round);
  sees_all_ = sees_all;
  failed_.begin();
}

void evidence_keeper::all_started() {
  hung_.clear();
  if (!watch_ || stopped_round_ == round_) return;
  // `begin` cancels a gathering in progress: a rank may have failed before the last one was
  // started. No stop may wait for that gathering.
  gathers_for_.reset();
  watch_->begin(sees_all_);
}

void evidence_keeper::note_end(round_number round, const worker_end& end) {
  const bool was_stopped = stopped_round_ == round;
  if (!was_stopped && !end.success()) failed_.has_failed(round);
  if (keeps_evidence()) failed_.note_end(end, was_stopped);
}

void evidence_keeper::hear_failure(round_number round, bool has_waited) {
  const bool is_off = !watch_ || options_.gathering_limit == duration::zero();
  if (is_off || stopped_round_ == round || living_ranks().empty()) return;
  // Otherwise no rank has anything to add, and the restart is as quick as without evidence.
  if (has_waited || watch_->is_any_still()) gather({});
}

void evidence_keeper::all_ended(round_number round) {
  if (watch_) watch_->end();
  if (failed_.is_failed(round)) take_facts(round);
  if (servers_) servers_->empty();
  ended_round_ = round;
}

void evidence_keeper::gather(std::function<void()> then) {
  gathers_for_ = round_;
  watch_->gather([this, round = round_, then = std::move(then)] {
    take_evidence(round);
    if (gathers_for_ == round) gathers_for_.reset();
    if (then) then();
    // take_facts was skipped while the ranks were being asked, so do it now.
    const bool is_over = stopped_round_ == round || ended_round_ == round;
    if (is_over && round_ == round) take_facts(round);
    if (auto kept = std::exchange(kept_, nullptr)) when_kept(std::move(kept));
  });
}

void evidence_keeper::stop(const core::stop_workers& order, bool is_asked_for) {
  held_stop_.reset();
  if (holds(order, is_asked_for)) return;
  outside_.signal_workers(order.signal);
  take_facts(order.round);
}

bool evidence_keeper::holds(const core::stop_workers& order, bool is_asked_for) {
  if (!watch_) return false;
  const bool is_wanted = options_.gathering_limit > duration::zero() && !is_asked_for &&
                         order.signal != SIGKILL && writer_.newest().round != order.round;
  // If nothing stands still, no rank has anything to add, and the stop must not wait.
  const bool is_needed = is_wanted && (watch_->is_gathering() || watch_->is_any_still());
  watch_->end();
  if (!is_needed) return false;
  held_stop_ = order;
  gather([this] {
    const auto held = std::exchange(held_stop_, std::nullopt);
    // A newer round must not get the signal of an old one.
    if (held && round_ == held->round) outside_.signal_workers(held->signal);
  });
  return true;
}

void evidence_keeper::take_evidence(round_number round) {
  const auto& found = watch_->gathered();
  if (!found || writer_.newest().round == round || round != round_) return;
  saved_evidence what{round, sentence_of(*found), folder_};
  node_evidence seen = *found;
  if (!what.folder.empty()) failed_.add_to(seen);
  writer_.keep(std::move(what), std::move(seen), note_level::info,
               "where ranks stood before they were ended");
}

bool evidence_keeper::keeps_evidence() const {
  return options_.gathering_limit > duration::zero() && !folder_.empty();
}

std::string evidence_keeper::folder_of(round_number round) const {
  const std::string attempt = outside_.attempt_folder();
  if (!attempt.empty()) return attempt + "/evidence";
  const std::string& report = options_.report_file;
  if (report.empty() || report.starts_with("/dev/")) return {};
  std::string node = options_.node;
  for (char& c : node) {
    if (c == '/') c = '_';
  }
  return report + ".round_" + std::to_string(round) + "." + node + ".evidence";
}

// Saves it once, and waits for the ranks' answers if they were asked.
void evidence_keeper::take_facts(round_number round) {
  if (!keeps_evidence() || gathers_for_ == round) return;
  std::vector<rank_evidence> living;
  for (watched_rank& one : living_ranks()) {
    add_output(one.known);
    living.push_back(std::move(one.known));
  }
  failed_.take(round, folder_, std::move(living));
}

void evidence_keeper::hear_hang(const hang_verdict& verdict, duration still_for) {
  std::string text = "no rank of this node has moved for " + to_text(still_for);
  if (!verdict.words.empty()) text += ": " + verdict.words;
  end_hung(verdict.rank, std::string(first_of(text, hang_text_bytes_max)));
}

void evidence_keeper::name_hung(const core::name_hung& found) {
  if (found.round != round_ || !watch_ || !watch_->is_stalled()) return;
  if (!found.is_here) return outside_.hangs(found.who);
  end_hung(found.who.rank, found.who.text);
}

bool evidence_keeper::waits_in_kernel(std::uint32_t rank) const {
  const auto& found = watch_->gathered();
  return found &&
         std::any_of(found->ranks.begin(), found->ranks.end(), [rank](const rank_evidence& one) {
           return one.rank == rank && one.waits.has_value();
         });
}

void evidence_keeper::end_hung(std::uint32_t rank, const std::string& text) {
  const std::string who = "rank " + std::to_string(rank) + " hangs";
  // SIGKILL would not end it, and a file server that comes back, or a disk that has flushed, does.
  const bool is_in_kernel = waits_in_kernel(rank);
  if (!options_.hang_limit || is_in_kernel) {
    outside_.hangs(hung_rank{rank, who + ": " + text});
    return outside_.say(note_level::warning,
                        text + (is_in_kernel ? "; a rank that waits in the kernel is not ended"
                                             : "; --hang-timeout SECONDS ends a rank that hangs"));
  }
  for (const worker_group::live_worker& one : outside_.living()) {
    if (one.rank != rank) continue;
    hung_[one.pid] = text;
    take_evidence(round_);
    watch_->end();
    const std::string line = who + " and is ended: " + text;
    outside_.say(note_level::warning, line);
    outside_.hangs(hung_rank{rank, line});
    return outside_.kill(one.pid);
  }
}

void evidence_keeper::hear_stand(const std::string& sentence, duration still_for) {
  std::string text = "no rank of this node has moved for " + to_text(still_for);
  text += sentence.empty() ? ", and none of them gave a stack"
                           : ": " + sentence + "; this node cannot see whom they wait for";
  outside_.say(note_level::warning, text + "; none is ended");
}

void evidence_keeper::name_hang(const worker_end& end, cause& why) const {
  const auto found = hung_.find(end.pid);
  // A worker that ended in another way was faster than our SIGKILL, and has a reason of its own.
  if (found == hung_.end() || end.status().signal != SIGKILL) return;
  why.kind = cause_class::hung;
  why.code = 0;
  why.text = found->second;
}

void evidence_keeper::name_gpu_fault(round_number round, cause& why) {
  // A worker that was healthy until the stop has died of the stop, not of its GPU.
  const bool is_by_stop = stopped_round_ == round && !why.was_failing;
  if (!is_by_stop) failed_.name_gpu_fault(why);
}

// A report that comes before the ranks have answered is remembered until they have.
void evidence_keeper::judge(round_number round, bool is_failure) {
  if (is_failure && gathers_for_ == round) failed_.has_failed(round);
  failed_.judge(round, is_failure);
}

void evidence_keeper::when_kept(std::function<void()> then) {
  if (gathers_for_) return void(kept_ = std::move(then));
  writer_.when_written(std::move(then));
}

saved_evidence evidence_keeper::of(round_number round) const {
  return writer_.newest().round == round ? writer_.newest() : saved_evidence();
}

}  // namespace ddprun::launcher::evidence
