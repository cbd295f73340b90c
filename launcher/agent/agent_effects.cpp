// Carries out the effects of the machine.
#include "launcher/agent/agent.hpp"
#include "launcher/agent/descriptor_needs.hpp"
#include "launcher/agent/round_commands.hpp"
#include "launcher/agent/worker_environment.hpp"
#include "launcher/evidence/evidence_keeper.hpp"
#include "launcher/report/failure_text.hpp"
#include "launcher/survivors/spawner_chain.hpp"
#include "launcher/vault/leader_mark.hpp"
#include "launcher/vault/node_vault.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

// True if it has waited for another rank that has not come.
bool has_waited_in_vain(const cause& why) {
  const failure_text words = read_failure(why);
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

void agent::apply(const core::dial_tether& effect) {
  service_->let_go_of_port();
  tether_round_ = effect.round;
  tether_.dial(addresses_.of_leader(effect.address), effect.port, effect.delay, effect.hello);
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
  vault_->prepare(effect, addresses_.of_leader(effect.assignment.master_address), [this, effect] {
    if (!exit_code_) begin_workers(effect);
  });
}

// No worker of that round has been started, and none will be.
bool agent::stops_preparing(round_number round) {
  if (!vault_->stop_preparing(round)) return false;
  workers_->never_start(round);
  return true;
}

void agent::begin_workers(const core::start_workers& effect) {
  worker_round facts{effect.instance, effect.round, effect.assignment};
  facts.assignment.master_address = addresses_.of_leader(effect.assignment.master_address);
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
  stop_file_.begin_round();
  facts.stop_file = stop_file_.path();
  facts.survivors = survivors_address(options_, identity_.mark);
  const std::string mark = std::string(session_variable) + "=" + facts.mark;
  guardian_.take_strike();  // drop a strike after the last round's workers had ended
  guardian_.mark(mark);
  reaper_.mark(mark);
  log_folder_.begin_round(effect.round, effect.restarts_used);
  const auto folders = log_folder_.worker_folders(facts.worker_count);
  if (!folders.empty()) log_files_.make_folders(folders);
  if (const auto choice = addresses_.choose_gloo(facts.assignment)) {
    facts.gloo_interface = choice->name;
    if (workers_->round() == 0) say(note_level::info, choice->why);
  }
  spawners_->begin_round();
  timers_->begin_round();
  facts.error_files = log_folder_.error_files(facts.worker_count);
  std::vector<worker_command> commands =
      commands_of_round(options_, facts, environment_, log_folder_, identity_.processors);
  if (uses_terminal(commands)) terminal_.lend();
  tell_round(effect, commands);
  if (node_health_) node_health_->rest();
  evidence_->begin_round(effect.round, effect.assignment.group_world_size == 1);
  workers_->begin(effect.round, std::move(commands), facts.error_files);
}

void agent::resize_terminals() {
  using log::output_stream;
  worker_group* const group = workers_->group();
  if (group == nullptr) return;
  group->resize_terminals(own_terminal::size_of(output_stream::output),
                          own_terminal::size_of(output_stream::errors));
}

void agent::workers_run(round_number round) {
  spawners_->all_started();
  evidence_->all_started();
  reporter_->all_started(round, workers_->live());
  feed(core::workers_started{round});
}

void agent::worker_is_over(round_number round, const worker_end& end) {
  notice_strike();
  evidence_->note_end(round, end);
  if (!end.success()) {
    stop_file_.rank_is_lost();
    vault_->save_now();
  }
}

void agent::worker_is_explained(core::worker_ended event, const worker_end& end,
                                const std::string& error_file) {
  reporter_->keep_error_file(end.pid, error_file);
  if (!event.success) evidence_->name_gpu_fault(event.round, event.cause);
  timers_->name_timer(end, event.cause);
  evidence_->name_hang(end, event.cause);
  if (!event.success) evidence_->hear_failure(event.round, has_waited_in_vain(event.cause));
  feed(event);
}

void agent::workers_are_over(round_number round) {
  terminal_.take_back();
  vault_->save_now();
  evidence_->all_ended(round);
}

void agent::apply(const core::stop_workers& effect) {
  workers_->expect_end(effect.round);
  evidence_->round_is_stopped(effect.round);
  vault_->save_now();
  if (stops_preparing(effect.round)) return;
  if (!workers_->run(effect.round)) return;
  stop_file_.stop(effect.is_ordinary, effect.grace);
  spawners_->prepare_stop(effect);
  workers_->watch_stop();
  evidence_->stop(effect, was_signalled_);
}

void agent::apply(const core::kill_workers& effect) {
  workers_->expect_end(effect.round);
  evidence_->round_is_stopped(effect.round);
  evidence_->forget_stop();
  if (stops_preparing(effect.round)) return;
  if (!workers_->run(effect.round)) return;
  workers_->group()->kill();
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
