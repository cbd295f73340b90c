// What is found out of ranks that stand still, before they are ended, and which of them hangs.
//
// Gathering goes on beside --failure-grace: it begins when a worker here says that it has waited in
// vain. A stop waits for it only where a rank stands still; a kill never does.
#include "launcher/agent/agent.hpp"
#include "launcher/evidence/evidence_folder.hpp"
#include "launcher/evidence/progress_files.hpp"
#include "launcher/evidence/ras_status.hpp"
#include "launcher/evidence/stack_spawner.hpp"
#include "launcher/network/free_port.hpp"
#include "launcher/report/failure_words.hpp"
#include "launcher/warm/warm_spawner.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/base/utf8.hpp"

#include <csignal>
#include <filesystem>
#include <sys/prctl.h>
#include <system_error>
#include <utility>

namespace ddprun::launcher {
namespace {

// A disk that hangs holds up nobody's end for longer.
constexpr auto keep_limit_at_end = std::chrono::seconds(2);
constexpr std::size_t hang_text_bytes_max = 600;

}  // namespace

void agent::start_evidence() {
  const bool is_gathered = options_.evidence_limit > duration::zero();
  if (!is_gathered && !options_.hang.limit) return;
  name_ras_port();
  const bool is_python = !options_.no_python || options_.run_path;
  // Else workers could not open what this process holds for them.
  const bool is_open = ::prctl(PR_GET_DUMPABLE) == 1;
  if (is_python && is_open) stacks_ = std::make_unique<evidence::stack_spawner>(spawner_);
  if (is_open) progress_ = std::make_unique<evidence::progress_files>(identity_.worker_count);
  evidence::watch_options values;
  values.limit = std::chrono::duration_cast<std::chrono::milliseconds>(options_.evidence_limit);
  values.names_hangs = options_.hang.is_named;
  values.hang_limit = options_.hang.limit;
  values.environment = environment_;
  evidence::rank_watch::outside given;
  given.living = [this] { return living_ranks(); };
  given.add_words = [this](evidence::rank_evidence& known) {
    worker_group::words words = workers_->words_of(known.rank);
    known.output_tail = std::move(words.output);
    known.errors_tail = std::move(words.errors);
  };
  given.memory_files = [this] { return memory_files(); };
  given.hangs = [this](const evidence::hang_verdict& verdict, duration still_for) {
    hear_hang(verdict, still_for);
  };
  given.stands = [this](const std::string& sentence, duration still_for) {
    hear_stand(sentence, still_for);
  };
  given.stalls = [this](std::optional<stall> seen) {
    feed(core::ranks_stalled{workers_round_, std::move(seen)});
  };
  watch_ =
      std::make_unique<evidence::rank_watch>(context_.get_executor(), values, std::move(given));
}

// NCCL listens at one port for all jobs of a user, unless it is told another.
void agent::name_ras_port() {
  if (identity_.visible_gpus == 0) return;
  if (find_variable(environment_, std::string(evidence::ras_variable)) != nullptr) return;
  const std::uint16_t port = unused_kernel_ports(1).front();
  if (port != 0)
    environment_[std::string(evidence::ras_variable)] = "localhost:" + std::to_string(port);
}

spawner& agent::plain_spawner() {
  if (stacks_) return *stacks_;
  return spawner_;
}

std::vector<evidence::watched_rank> agent::living_ranks() const {
  std::vector<evidence::watched_rank> ranks;
  if (!workers_) return ranks;
  for (const worker_group::live_worker& one : workers_->live()) {
    if (one.pid <= 0) continue;
    evidence::watched_rank next;
    next.known.rank = one.rank;
    next.known.local_rank = one.local_rank;
    next.known.pid = one.pid;
    next.said_bytes = one.said_bytes;
    if (progress_) next.known.step = progress_->step_of(one.local_rank);
    ranks.push_back(std::move(next));
  }
  return ranks;
}

// By local rank, for the workers of a round that begins.
std::vector<std::string> agent::empty_progress_files() {
  if (!progress_) return {};
  progress_->empty();
  return progress_->paths();
}

// Of a round that was stopped before all had begun nothing is asked: its stop does not wait.
void agent::watch_ranks() {
  hung_.clear();
  if (watch_ && stopped_round_ != workers_round_) watch_->begin(sees_all_ranks_);
}

// One that has waited in vain for another says so long before the others are stopped.
void agent::notice_failure(const core::worker_ended& event) {
  const bool is_off = !watch_ || options_.evidence_limit == duration::zero();
  if (is_off || event.success || stopped_round_ == event.round || living_ranks().empty()) return;
  const failure_words words = read_failure(event.cause);
  const bool has_waited = words.known != nullptr && words.known->from == follows::silence;
  if (has_waited || watch_->is_any_still()) gather_evidence({});
}

void agent::gather_evidence(std::function<void()> then) {
  gathers_for_ = workers_round_;
  watch_->gather([this, round = workers_round_, then = std::move(then)] {
    take_evidence(round);
    gathers_for_.reset();
    if (then) then();
    const bool is_over = stopped_round_ == round || !workers_;
    if (is_over && workers_round_ == round) take_facts(round);
  });
}

// False: nothing is waited for.
bool agent::waits_for_evidence(const core::stop_workers& effect) {
  if (!watch_) return false;
  const bool is_wanted = options_.evidence_limit > duration::zero() && !was_signalled_ &&
                         effect.signal != SIGKILL && evidence_.round != effect.round;
  const bool is_needed = is_wanted && (watch_->is_gathering() || watch_->is_any_still());
  watch_->end();
  if (!is_needed) return false;
  held_stop_ = effect;
  gather_evidence([this] {
    const auto held = std::exchange(held_stop_, std::nullopt);
    if (held && workers_ && workers_round_ == held->round) workers_->signal(held->signal);
  });
  return true;
}

void agent::take_evidence(round_number round) {
  const auto& found = watch_->gathered();
  if (!found || evidence_.round == round || round != workers_round_) return;
  evidence_ = {round, evidence::sentence_of(*found), evidence_folder()};
  if (evidence_.folder.empty()) return;
  evidence::node_evidence seen = *found;
  add_facts(seen);
  write_evidence(std::move(seen), note_level::info, "where ranks stood before they were ended");
}

// Into the folder of `evidence_`.
void agent::write_evidence(evidence::node_evidence seen, note_level level,
                           const std::string& words) {
  evidence_writer_.start(
      [folder = evidence_.folder, seen = std::move(seen), files = memory_files()]() mutable {
        if (seen.memory.empty()) seen.memory = evidence::memory_counts(files);
        // Another thread is to make it, for the log files, and may be late.
        std::error_code ignored;
        std::filesystem::create_directory(std::filesystem::path(folder).parent_path(), ignored);
        return evidence::write_evidence(folder, seen);
      },
      [this, level, words](std::optional<std::string> problem) {
        if (!problem) problem = "cannot save the evidence: the system has no thread left";
        if (problem->empty()) {
          say(level, words + ": " + evidence_.folder);
        } else {
          evidence_.folder.clear();
          say(note_level::warning, *problem);
        }
        if (const auto then = std::exchange(evidence_kept_, nullptr)) then();
      });
}

// Empty: nothing of this run is kept in files.
std::string agent::evidence_folder() const {
  if (!log_folder_.attempt().empty()) return log_folder_.attempt() + "/evidence";
  const std::string& report = options_.output.report_file;
  if (report.empty() || report.starts_with("/dev/")) return {};
  std::string node = identity_.node;
  for (char& c : node) {
    if (c == '/') c = '_';
  }
  return report + ".round_" + std::to_string(workers_round_) + "." + node + ".evidence";
}

void agent::when_evidence_is_kept(std::function<void()> then) {
  if (!evidence_writer_.under_way()) return then();
  evidence_kept_ = std::move(then);
  progress_timer_.expires_after(keep_limit_at_end);
  progress_timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    if (const auto late = std::exchange(evidence_kept_, nullptr)) late();
  });
}

void agent::hear_hang(const evidence::hang_verdict& verdict, duration still_for) {
  std::string text = "no rank of this node has moved for " + to_text(still_for);
  if (!verdict.words.empty()) text += ": " + verdict.words;
  end_hung(verdict.rank, std::string(first_of(text, hang_text_bytes_max)));
}

// What the nodes of the round have said together; one of our ranks may have moved since.
void agent::apply(const core::name_hung& effect) {
  if (effect.round == workers_round_ && watch_ && watch_->is_stalled())
    end_hung(effect.who.rank, effect.who.text);
}

void agent::end_hung(std::uint32_t rank, const std::string& text) {
  if (!options_.hang.limit) {
    return say(note_level::warning, text + "; --hang-timeout SECONDS ends a rank that hangs");
  }
  for (const worker_group::live_worker& one : workers_->live()) {
    if (one.rank != rank) continue;
    hung_[one.pid] = text;
    take_evidence(workers_round_);
    watch_->end();
    say(note_level::warning, "rank " + std::to_string(one.rank) + " hangs and is ended: " + text);
    return worker_spawner().signal_group(one.pid, SIGKILL);
  }
}

void agent::hear_stand(const std::string& sentence, duration still_for) {
  std::string text = "no rank of this node has moved for " + to_text(still_for);
  text += sentence.empty() ? ", and none can say where it stands"
                           : ": " + sentence + "; this node cannot see whom they wait for";
  say(note_level::warning, text + "; none is ended");
}

void agent::name_hang(const worker_end& end, cause& why) const {
  const auto found = hung_.find(end.pid);
  if (found == hung_.end() || end.status.signal != SIGKILL) return;
  why.kind = cause_class::hung;
  why.code = 0;
  why.text = found->second;
}

}  // namespace ddprun::launcher
