#include "launcher/evidence/rank_watch.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::chrono::milliseconds look_pause_max{2000};
constexpr std::chrono::milliseconds look_pause_min{100};
constexpr int looks_within_limit = 10;
// Between two looks at stacks.
constexpr std::chrono::milliseconds pause_between_stacks{1000};
// The limit of a gathering for a hang if --evidence is off.
constexpr std::chrono::milliseconds limit_for_hangs{500};
// Of the limit: for what a gathering does beside its waiting.
constexpr std::chrono::milliseconds gathering_slack_max{250};
constexpr int slack_share = 4;
// A gap between two looks counts as at most so many pauses: the rest was not watched.
constexpr int pauses_seen_max = 3;
// NCCL is asked when all ranks have been still for this fraction (one in so many) of the limit.
constexpr int nccl_share = 4;
constexpr std::chrono::milliseconds nccl_limit{2000};
// If NCCL does not answer, it is not asked again for so long.
constexpr std::chrono::seconds nccl_pause{60};

std::chrono::milliseconds pause_of(const watch_options& options) {
  if (!options.names_hangs || !options.hang_limit) return look_pause_max;
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(*options.hang_limit);
  return std::clamp(limit / looks_within_limit, look_pause_min, look_pause_max);
}

ras_place nccl_of(const watch_options& options) {
  const std::string* const given = find_variable(options.environment, std::string(ras_variable));
  return given == nullptr || !options.names_hangs ? ras_place() : ras_place_of(*given);
}

}  // namespace

rank_watch::rank_watch(boost::asio::any_io_executor executor, watch_options options, outside with)
    : options_(options),
      outside_(std::move(with)),
      pause_(pause_of(options)),
      nccl_(nccl_of(options)),
      timer_(executor),
      again_(executor),
      late_(executor),
      looking_(executor),
      asking_(executor),
      gathering_(executor) {}

void rank_watch::begin(bool sees_all) {
  end();
  gathering_.cancel();
  late_.cancel();
  waiting_.clear();
  gathered_.reset();
  is_on_ = true;
  sees_all_ = sees_all;
  is_told_ = false;
  last_ = {};
  said_.clear();
  const std::set<pid_t> asked_before = std::exchange(answerers_, {});
  for (const watched_rank& one : outside_.living()) {  // a survivor keeps its server
    if (asked_before.contains(one.known.pid)) answerers_.insert(one.known.pid);
  }
  is_look_overtaken_ = false;
  steps_.clear();
  calls_ = std::make_shared<call_watch>();
  asked_.clear();
  spinning_.clear();
  counts_.clear();
  nccl_again_ = {};
  looked_at_ = watched_ = std::chrono::steady_clock::now();
  still_.begin();
  look_later();
}

void rank_watch::end() {
  is_on_ = false;
  is_comparing_ = false;
  stood_.reset();
  timer_.cancel();
  again_.cancel();
  looking_.cancel();
  asking_.cancel();
}

std::vector<std::uint32_t> rank_watch::ranks() const {
  std::vector<std::uint32_t> all;
  for (const watched_rank& one : outside_.living())
    all.push_back(one.known.rank);
  return all;
}

bool rank_watch::is_any_still() const {
  if (!is_on_) return false;
  const auto all = outside_.living();
  return std::any_of(all.begin(), all.end(), [this](const watched_rank& one) {
    // A rank that spins may be healthy; only NCCL could tell whether it waits.
    return !spinning_.contains(one.known.pid) &&
           still_.still_for(one.known.rank, watched_) >= options_.still_after;
  });
}

void rank_watch::look_later() {
  timer_.expires_after(pause_);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) look();
  });
}

void rank_watch::look() {
  if (!is_on_) return;
  movement_question asked;
  // The ranks that are asked whether they are in one call, if they still spin at this look.
  const auto spun = std::make_shared<std::map<pid_t, unique_fd>>();
  asked.asked = asked_;
  asked.answerers = answerers_;
  asked.asks_who_spins = nccl_.port != 0 && watched_ >= nccl_again_;
  for (const watched_rank& one : outside_.living()) {
    const pid_t pid = one.known.pid;
    asked.leaders.push_back(pid);
    if (asked.asks_who_spins && last_.spins.contains(pid)) spun->emplace(pid, open_process(pid));
    const auto said = steps_.find(one.known.pid);
    const bool is_told = said != steps_.end() && said->second.is_rhythm;
    if (is_told && one.known.step == said_step{said->second.last, false})
      asked.by_steps.insert(pid);
  }
  if (asked.leaders.empty()) return look_later();
  looking_.start(
      [asked, spun, calls = calls_, before = last_] {
        look_result found{look_for_moves(asked, before), {}};
        std::erase_if(*spun,
                      [&found](const auto& one) { return !found.seen.spins.contains(one.first); });
        found.calls = calls->look(*spun);
        return found;
      },
      [this](std::optional<look_result> found) {
        look_later();
        if (!found) return;
        // It may have counted a part of an answer as a move, or will have at the next look.
        if (std::exchange(is_look_overtaken_, false))
          return asked_.insert(found->calls.asked.begin(), found->calls.asked.end());
        take_look(*found);
      });
}

void rank_watch::take_look(const look_result& found) {
  const movement& seen = found.seen;
  const auto now = std::chrono::steady_clock::now();
  watched_ += std::min<duration>(now - std::exchange(looked_at_, now), pauses_seen_max * pause_);
  const auto living = outside_.living();
  // The rank that has ended may be the one that the others waited for, so all start anew.
  const bool has_one_ended =
      std::erase_if(said_, [&living](const auto& known) {
        return std::none_of(living.begin(), living.end(), [&known](const watched_rank& one) {
          return one.known.pid == known.first;
        });
      }) != 0;
  for (const watched_rank& one : living) {
    const auto said = said_.find(one.known.pid);
    const bool has_said = said == said_.end() || said->second != one.said_bytes;
    said_[one.known.pid] = one.said_bytes;
    const bool is_held = found.calls.held.contains(one.known.pid);
    const bool has_moved = has_stepped(one) || has_said || has_one_ended ||
                           (seen.moved.contains(one.known.pid) && !is_held);
    if (has_moved) spinning_.erase(one.known.pid);
    if (is_held && !has_moved) spinning_.insert(one.known.pid);
    still_.see(one.known.rank, has_moved, watched_);
  }
  last_ = seen;
  asked_ = found.calls.asked;
  if (options_.names_hangs) consider_hang();
}

// A reported step is a move like any other.
bool rank_watch::has_stepped(const watched_rank& one) {
  if (!one.known.step) return false;
  const auto [found, is_first] = steps_.try_emplace(one.known.pid);
  steps_said& said = found->second;
  const bool is_new = is_first || said.last != one.known.step->number;
  said.is_rhythm = said.is_rhythm || (is_new && !is_first);
  said.last = one.known.step->number;
  return is_new;
}

void rank_watch::gather(std::function<void()> done) {
  waiting_.push_back(std::move(done));
  if (gathering_.under_way()) return;
  const auto asked = std::make_shared<question>();
  for (watched_rank& one : outside_.living()) {
    outside_.add_output(one.known);
    if (!options_.server_folder.empty() && answerers_.insert(one.known.pid).second)
      is_look_overtaken_ = looking_.under_way();
    unique_fd process = open_process(one.known.pid);
    asked->ranks.push_back({std::move(one.known), std::move(process)});
  }
  asked->memory_files = outside_.memory_files();
  asked->environment = options_.environment;
  asked->server_folder = options_.server_folder;
  const bool has_limit = options_.limit > std::chrono::milliseconds::zero();
  const std::chrono::milliseconds limit = has_limit ? options_.limit : limit_for_hangs;
  asked->limit = limit - std::min(gathering_slack_max, limit / slack_share);
  late_.expires_after(limit);
  late_.async_wait([this](boost::system::error_code error) {
    // The timer may have expired just as the answer came and armed it again.
    if (error || late_.expiry() > std::chrono::steady_clock::now()) return;
    gathering_.cancel();
    finish_gathering(std::nullopt);
  });
  gathering_.start([asked, ask = options_.ask] { return ask(asked); },
                   [this](std::optional<node_evidence> found) {
                     late_.cancel();
                     finish_gathering(std::move(found));
                   });
}

void rank_watch::finish_gathering(std::optional<node_evidence> found) {
  if (found && !found->ranks.empty()) gathered_ = std::move(found);
  for (const auto& each : std::exchange(waiting_, {}))
    each();
}

// Asked before the limit, so that there are counts to compare with.
void rank_watch::ask_nccl() {
  if (asking_.under_way() || !counts_.empty()) return;
  asking_.start([where = nccl_] { return ras_counts(ask_ras(where, nccl_limit)); },
                [this](std::optional<std::string> counts) {
                  if (counts) counts_ = std::move(*counts);
                  if (!counts_.empty()) return;
                  nccl_again_ = watched_ + nccl_pause;
                  assume_moves();
                });
}

bool rank_watch::is_spinning_in_vain(const node_evidence& seen) const {
  return spinning_.empty() || do_spin_in_vain(spinning_, counts_, seen);
}

void rank_watch::count_as_moved() {
  spinning_.clear();
  gathered_.reset();
  for (const std::uint32_t rank : ranks())
    still_.see(rank, true, watched_);
}

// NCCL does not tell whether the spinning ranks wait, so they count as moving, as they do without
// NCCL.
void rank_watch::assume_moves() {
  spinning_.clear();
  for (const std::uint32_t rank : ranks())
    still_.assume_moved(rank, watched_);
}

void rank_watch::consider_hang() {
  const duration still_for = still_.all_still_for(ranks(), watched_);
  const duration limit = still_.limit(options_.hang_limit);
  // A rank moved, so the counts for a comparison have to be taken anew.
  if (still_for < limit / nccl_share) {
    asking_.cancel();
    counts_.clear();
  } else if (!spinning_.empty()) {
    ask_nccl();
  }
  if (still_for < limit) {
    stood_.reset();
    if (std::exchange(is_told_, false)) outside_.stalls(std::nullopt);
    return;
  }
  if (is_told_ || is_comparing_) return;
  // The stacks were the same twice, and no rank has moved since.
  if (const auto first = std::exchange(stood_, std::nullopt)) return judge(*first, still_for);
  is_comparing_ = true;
  gathered_.reset();
  gather([this] {
    if (!is_on_ || !gathered_) return void(is_comparing_ = false);
    again_.expires_after(pause_between_stacks);
    again_.async_wait([this, first = *gathered_](boost::system::error_code error) {
      if (error || !is_on_) return;
      gathered_.reset();
      gather([this, first] { compare_stacks(first); });
    });
  });
}

void rank_watch::compare_stacks(const node_evidence& first) {
  is_comparing_ = false;
  if (!is_on_ || !gathered_) return;
  if (have_stood(first, *gathered_) && is_spinning_in_vain(*gathered_)) {
    stood_ = first;  // reported only if no rank has moved by the next look
    return;
  }
  // A rank whose stack has changed has moved, if only a little.
  count_as_moved();
}

void rank_watch::judge(const node_evidence& first, duration still_for) {
  is_told_ = true;
  const stall_scope scope{sees_all_, !options_.hang_limit};
  const stall seen{still_for, scope.needs_waiting, in_short(stalled_ranks_of(*gathered_))};
  if (const auto verdict = judge_hang(first, *gathered_, scope)) {
    outside_.hangs(*verdict, still_for);
  } else if (options_.hang_limit) {
    outside_.stands(sentence_of(*gathered_), still_for);
  }
  if (is_on_) outside_.stalls(seen);
}

}  // namespace ddprun::launcher::evidence
