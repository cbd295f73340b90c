#include "launcher/agent/round_workers.hpp"

#include "launcher/agent/leftover_text.hpp"
#include "launcher/agent/worker_cause.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/report/error_file.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {
namespace {

// Processes that end by themselves within this time, because their parent has ended, are not
// killed: with --children-grace=0, only the others are reported.
constexpr auto least_children_grace = std::chrono::milliseconds(200);

worker_group::options group_options(std::optional<duration> children_grace) {
  worker_group::options values;
  values.children_grace = children_grace;
  if (children_grace)
    values.children_grace = std::max<duration>(*children_grace, least_children_grace);
  return values;
}

std::vector<pid_t> pids_of(const std::vector<worker_group::live_worker>& workers) {
  std::vector<pid_t> pids;
  for (const worker_group::live_worker& one : workers)
    pids.push_back(one.pid);
  return pids;
}

}  // namespace

round_workers::round_workers(boost::asio::any_io_executor executor, const system& with,
                             options values, outside told)
    : executor_(executor),
      system_(with),
      options_(std::move(values)),
      outside_(std::move(told)),
      file_reader_(executor),
      busy_watch_(
          executor, [this] { return pids_of(live()); }, [this] { outside_.busy(stopped_round_); }) {
}

round_workers::~round_workers() {
  group_.reset();
  remove_error_files();
}

void round_workers::begin(round_number round, std::vector<worker_command> commands,
                          std::vector<std::string> error_files) {
  remove_error_files();
  error_files_ = std::move(error_files);
  round_ = round;
  system_.oom_kills.notice(std::chrono::steady_clock::now());
  // Kill strays of a round that succeeded here but failed on another node.
  if (!options_.children_grace && system_.strays != nullptr) system_.strays->kill_strays();
  group_ = std::make_unique<worker_group>(executor_, system_.spawn, system_.mux, system_.guard,
                                          system_.strays, group_options(options_.children_grace));
  group_->start(std::move(commands), events_of(round));
}

void round_workers::never_start(round_number round) {
  boost::asio::post(executor_, while_alive(alive_.watch(), [this, round] {
                      for (std::uint32_t rank = 0; rank < options_.worker_count; ++rank)
                        outside_.not_started(event_of(round, {rank, 0, not_tried()}, {}));
                    }));
}

void round_workers::expect_end(round_number round) {
  stopped_round_ = round;
  busy_watch_.stop();
}

std::vector<worker_group::live_worker> round_workers::live() const {
  return group_ ? group_->live() : std::vector<worker_group::live_worker>();
}

worker_group::words round_workers::words_of(std::uint32_t rank) const {
  return group_ ? group_->words_of(rank) : worker_group::words();
}

worker_group::events round_workers::events_of(round_number round) {
  worker_group::events events;
  events.all_started = [this, round] { outside_.all_started(round); };
  events.short_of = [this](const start_failure& why) {
    outside_.say(note_level::warning, why.describe() + "; trying again for " +
                                          to_text(worker_group::options{}.shortage_limit));
  };
  events.ended = [this, round](const worker_end& end) { is_over(round, end); };
  events.children_stay = [this](const worker_group::left_behind& left) {
    const leftover_line line = children_line(left, options_.children_grace);
    outside_.say(line.level, line.text);
  };
  events.strays_stay = [this](const std::vector<pid_t>& strays) { name_strays(strays); };
  // Frees the workers' output and environments once all have ended, except that possible evidence
  // keeps their last output until the next round.
  events.all_ended = [this, round] {
    outside_.all_ended(round);
    if (round_ == round) group_.reset();
  };
  return events;
}

void round_workers::is_over(round_number round, const worker_end& end) {
  if (!end.was_started()) return outside_.not_started(event_of(round, end, {}));
  outside_.ended(round, end);
  if (!end.lost.none()) {
    outside_.say(note_level::warning,
                 end.lost.is_lost("rank " + std::to_string(end.rank) + "'s output") +
                     ": ddprun's own output was not read in time");
  }
  const bool was_stopped = stopped_round_ == round;
  if (end.success() || was_stopped || end.local_rank >= error_files_.size()) {
    return explain(round, end, {});
  }
  file_reader_.read(
      {error_files_[end.local_rank], error_file_bytes_max, options_.removes_error_files},
      [this, round, end](const std::string& content) { explain(round, end, content); });
}

core::worker_ended round_workers::event_of(round_number round, const worker_end& end,
                                           const std::string& recorded) const {
  core::worker_ended event;
  event.round = round;
  event.local_rank = end.local_rank;
  event.success = end.success();
  event.cause = cause_of(end, recorded);
  event.cause.round = round;
  event.cause.node = options_.node;
  return event;
}

void round_workers::explain(round_number round, const worker_end& end,
                            const std::string& error_file) {
  core::worker_ended event = event_of(round, end, text_of_error_file(error_file));
  if (end.status().signal == SIGKILL) {
    if (std::string reason = system_.oom_kills.reason(end.pid); !reason.empty()) {
      event.cause.text = std::move(reason);
    }
  }
  outside_.explained(std::move(event), end, error_file);
}

void round_workers::name_strays(const std::vector<pid_t>& strays) {
  std::vector<std::string> names;
  for (const pid_t pid : strays)
    names.push_back(process_name(pid) + " (" + std::to_string(pid) + ")");
  const leftover_line line = strays_line(names);
  outside_.say(line.level, line.text);
}

// Without a log folder they are files in $TMPDIR that nothing else removes.
void round_workers::remove_error_files() {
  if (!options_.removes_error_files) return;
  for (const std::string& file : std::exchange(error_files_, {}))
    ::unlink(file.c_str());
}

}  // namespace ddprun::launcher
