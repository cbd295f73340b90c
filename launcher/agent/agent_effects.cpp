// Carries out the effects of the machine.
#include "launcher/agent/agent.hpp"
#include "launcher/agent/descriptor_needs.hpp"
#include "launcher/agent/leftover_words.hpp"
#include "launcher/agent/round_commands.hpp"
#include "launcher/agent/worker_cause.hpp"
#include "launcher/agent/worker_environment.hpp"
#include "launcher/evidence/evidence_keeper.hpp"
#include "launcher/process/oom_kills.hpp"
#include "launcher/report/error_file.hpp"
#include "launcher/report/failure_words.hpp"
#include "launcher/survivors/spawner_chain.hpp"
#include "launcher/vault/leader_mark.hpp"
#include "launcher/vault/node_vault.hpp"
#include "rendezvous/protocol/agent_protocol.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <unistd.h>
#include <utility>
#include <vector>

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

// True if it has waited for another rank that has not come.
bool has_waited_in_vain(const cause& why) {
  const failure_words words = read_failure(why);
  return words.known != nullptr && words.known->from == follows::silence;
}

}  // namespace

void agent::apply(const core::connect_daemon& effect) {
  if (!effect.may_host) {
    const daemon_place& place = finder_->place();
    return session_.connect(place.host, place.port, effect.delay);
  }
  finder_->find_again(effect.delay, effect.job, round_needs_, [this](const daemon_place& place) {
    if (exit_code_) return;
    service_->make_room(finder_->embedded().connections_max());
    session_.connect(place.host, place.port);
  });
}

void agent::apply(const core::send_to_daemon& effect) {
  oom_kills_.notice(std::chrono::steady_clock::now());  // at least with each heartbeat
  session_.send(effect.message);
}

void agent::apply(const core::disconnect_daemon&) {
  finder_->stop();
  session_.disconnect();
}

void agent::apply(const core::open_service& effect) {
  if (nccl_) nccl_->make(effect);
  round_needs_ = needed_connections(effect);
  service_->open(effect, finder_->embedded().connections_max());
}

void agent::apply(const core::close_service& effect) {
  round_needs_ = 0;
  service_->close(effect.round);
  if (nccl_) nccl_->drop();
}

// In the static rendezvous the user gave each node the leader's address. The node uses that one, as
// torchrun does, because the first node may have been given "localhost".
std::string agent::as_seen_here(const std::string& master_address) const {
  return options_.is_static ? options_.endpoint.host : master_address;
}

void agent::apply(const core::dial_tether& effect) {
  service_->let_go_of_port();
  tether_round_ = effect.round;
  tether_.dial(as_seen_here(effect.address), effect.port, effect.delay, effect.hello);
}

void agent::apply(const core::send_tether_beat& effect) {
  tether_.beat(effect.beat);
}

void agent::apply(const core::drop_tether&) {
  tether_.drop();
}

void agent::apply(const core::ack_member& effect) {
  service_->answer(effect.tether, effect.seq);
}

void agent::apply(const core::refuse_member& effect) {
  service_->refuse(effect.tether, effect.text);
}

void agent::apply(const core::drop_members&) {
  service_->drop_members();
}

void agent::apply(const core::start_workers& effect) {
  vault_->prepare(effect, as_seen_here(effect.assignment.master_address), [this, effect] {
    if (!exit_code_) begin_workers(effect);
  });
}

// No worker of that round has been started, and none will be.
bool agent::stops_preparing(round_number round) {
  if (!vault_->stop_preparing(round)) return false;
  boost::asio::post(context_, [this, round] {
    for (std::uint32_t local_rank = 0; local_rank < identity_.worker_count; ++local_rank)
      worker_never_started(round, local_rank);
  });
  return true;
}

void agent::begin_workers(const core::start_workers& effect) {
  worker_round facts{effect.instance, effect.round, effect.assignment};
  facts.assignment.master_address = as_seen_here(effect.assignment.master_address);
  facts.restarts_used = effect.restarts_used;
  facts.worker_count = identity_.worker_count;
  facts.node = identity_.node;
  facts.run_id = options_.run_id;
  vault::take_mark(facts.assignment.leader_data);
  const std::string problem = read_nccl_ids(facts.assignment.leader_data, facts.nccl);
  if (!problem.empty()) say(note_level::warning, problem);
  facts.mark = identity_.mark;
  facts.vault = vault_->folder();
  facts.progress_files = evidence_->empty_progress_files();
  facts.survivors = survivors_address(options_, identity_.mark);
  const std::string mark = std::string(session_variable) + "=" + facts.mark;
  guardian_.take_strike();  // drop a strike after the last round's workers had ended
  guardian_.mark(mark);
  reaper_.mark(mark);
  log_folder_.begin_round(effect.round, effect.restarts_used);
  const auto folders = log_folder_.worker_folders(facts.worker_count);
  if (!folders.empty()) log_files_.make_folders(folders);
  facts.gloo_interface = choose_gloo_interface(facts.assignment);
  forget_error_files();
  spawners_->begin_round();
  timers_->begin_round();
  facts.error_files = error_files_ = log_folder_.error_files(facts.worker_count);
  std::vector<worker_command> commands =
      commands_of_round(options_, facts, environment_, log_folder_, identity_.processors);
  if (uses_terminal(commands)) terminal_.lend();
  tell_round(effect, commands);
  workers_round_ = effect.round;
  if (node_health_) node_health_->rest();
  oom_kills_.notice(std::chrono::steady_clock::now());
  evidence_->begin_round(effect.round, effect.assignment.group_world_size == 1);
  // Kill strays of a round that succeeded here but failed on another node.
  if (!options_.children_grace) reaper_.kill_strays();
  workers_ =
      std::make_unique<worker_group>(context_.get_executor(), spawners_->front(), mux_, &guardian_,
                                     &reaper_, group_options(options_.children_grace));
  workers_->start(std::move(commands), worker_events(effect.round));
}

void agent::resize_terminals() {
  using log::output_stream;
  if (!workers_) return;
  workers_->resize_terminals(own_terminal::size_of(output_stream::output),
                             own_terminal::size_of(output_stream::errors));
}

std::string agent::choose_gloo_interface(const assignment& assigned) {
  if (assigned.group_world_size == 1) return {};
  // The user's choice takes precedence.
  if (find_variable(environment_, gloo_interface_variable) != nullptr) return {};
  std::vector<std::string> own = {options_.local_address, own_address_, assigned.master_address};
  // On the daemon's host own_address_ is a loopback address, which the other nodes cannot use.
  if (const auto leader = net::numeric_address(assigned.master_address)) {
    if (const auto from = own_address_towards(*leader)) own.push_back(from->to_string());
  }
  const auto choice = gloo_.choose(own);
  if (!choice) return {};
  if (workers_round_ == 0) say(note_level::info, choice->why);
  return choice->name;
}

worker_group::events agent::worker_events(round_number round) {
  worker_group::events events;
  events.all_started = [this, round] {
    spawners_->all_started();
    evidence_->all_started();
    reporter_->all_started(round, workers_->live());
    feed(core::workers_started{round});
  };
  events.start_failed = [this, round](std::uint32_t local_rank, const start_failure& failure) {
    worker_not_started(round, local_rank, failure);
  };
  events.short_of = [this](const start_failure& why) {
    say(note_level::warning,
        why.describe() + "; trying again for " + to_text(worker_group::options{}.shortage_limit));
  };
  events.ended = [this, round](const worker_end& end) { worker_is_over(round, end); };
  events.not_started = [this, round](std::uint32_t local_rank) {
    worker_never_started(round, local_rank);
  };
  events.children_stay = [this](const worker_group::left_behind& left) { name_children(left); };
  events.strays_stay = [this](const std::vector<pid_t>& strays) { name_strays(strays); };
  // Frees the workers' output and environments once all have ended, except that possible evidence
  // keeps their last output until the next round.
  events.all_ended = [this, round] {
    terminal_.take_back();
    vault_->save_now();
    evidence_->all_ended(round);
    if (workers_round_ == round) workers_.reset();
  };
  return events;
}

// A worker that failed by itself may have written its exception to its error file, which is read
// before the failure is reported.
void agent::worker_is_over(round_number round, const worker_end& end) {
  notice_strike();
  if (!end.lost.none()) {
    say(note_level::warning, end.lost.is_lost("rank " + std::to_string(end.rank) + "'s output") +
                                 ": ddprun's own output was not read in time");
  }
  const bool was_stopped = stopped_round_ == round;
  evidence_->note_end(round, end);
  if (!end.status.success()) vault_->save_now();
  if (end.status.success() || was_stopped || end.local_rank >= error_files_.size()) {
    return tell_end(round, end, {});
  }
  file_reader_.read(
      {error_files_[end.local_rank], error_file_bytes_max, log_folder_.path().empty()},
      [this, round, end](const std::string& content) {
        reporter_->keep_error_file(end.pid, content);
        tell_end(round, end, text_of_error_file(content));
      });
}

// Without a log folder they are files in $TMPDIR that nothing else removes.
void agent::forget_error_files() {
  if (!log_folder_.path().empty()) return;
  for (const std::string& file : std::exchange(error_files_, {}))
    ::unlink(file.c_str());
}

void agent::tell_end(round_number round, const worker_end& end, const std::string& recorded) {
  core::worker_ended event;
  event.round = round;
  event.local_rank = end.local_rank;
  event.success = end.status.success();
  event.cause = cause_of(end, recorded);
  event.cause.round = round;
  event.cause.node = identity_.node;
  if (end.status.signal == SIGKILL) {
    if (std::string reason = oom_kills_.reason(end.pid); !reason.empty()) {
      event.cause.text = std::move(reason);
    }
  }
  if (!event.success) evidence_->name_gpu_fault(round, event.cause);
  timers_->name_timer(end, event.cause);
  evidence_->name_hang(end, event.cause);
  if (!event.success) evidence_->hear_failure(round, has_waited_in_vain(event.cause));
  feed(event);
}

core::worker_ended agent::no_start(round_number round, std::uint32_t local_rank) const {
  core::worker_ended event;
  event.round = round;
  event.local_rank = local_rank;
  event.cause.round = round;
  event.cause.node = identity_.node;
  event.cause.local_rank = local_rank;
  event.cause.kind = cause_class::start;
  return event;
}

void agent::worker_not_started(round_number round, std::uint32_t local_rank,
                               const start_failure& failure) {
  core::worker_ended event = no_start(round, local_rank);
  event.cause.code = failure.error;
  event.cause.text = failure.describe();
  feed(event);
}

// Not a failure: another worker could not be started, or the round was stopped first.
void agent::worker_never_started(round_number round, std::uint32_t local_rank) {
  core::worker_ended event = no_start(round, local_rank);
  event.cause.by_our_stop = true;
  event.cause.text = "not started, because the round was over";
  feed(event);
}

void agent::name_strays(const std::vector<pid_t>& strays) {
  std::vector<std::string> names;
  for (const pid_t pid : strays)
    names.push_back(process_name(pid) + " (" + std::to_string(pid) + ")");
  const leftover_line line = strays_line(names);
  say(line.level, line.text);
}

void agent::name_children(const worker_group::left_behind& left) {
  const leftover_line line = children_line(left, options_.children_grace);
  say(line.level, line.text);
}

void agent::apply(const core::stop_workers& effect) {
  stopped_round_ = effect.round;
  evidence_->round_is_stopped(effect.round);
  vault_->save_now();
  if (stops_preparing(effect.round)) return;
  if (!workers_ || workers_round_ != effect.round) return;
  spawners_->prepare_stop(effect);
  evidence_->stop(effect, was_signalled_);
  busy_watch_.start();
}

std::vector<pid_t> agent::living_groups() const {
  std::vector<pid_t> leaders;
  if (!workers_) return leaders;
  for (const worker_group::live_worker& one : workers_->live())
    leaders.push_back(one.pid);
  return leaders;
}

void agent::apply(const core::kill_workers& effect) {
  stopped_round_ = effect.round;
  evidence_->round_is_stopped(effect.round);
  evidence_->forget_stop();
  busy_watch_.stop();
  if (stops_preparing(effect.round)) return;
  if (!workers_ || workers_round_ != effect.round) return;
  workers_->kill();
  if (node_health_) node_health_->look_after(machine_->timing().kill_wait);
  evidence_->take_facts(effect.round);
}

void agent::apply(const core::name_hung& effect) {
  evidence_->name_hung(effect);
}

void agent::apply(const core::check_node& effect) {
  node_health_->check(effect.round, evidence_->suspects_gpu(effect.round));
}

void agent::apply(const core::end_survivors&) {
  spawners_->kill_survivors();
}

void agent::apply(const core::agent_note& effect) {
  reporter_->note(effect.level, effect.text);
}

void agent::apply(const core::leave& effect) {
  leave_in_order(effect);
}

}  // namespace ddprun::launcher
