// Wires the agent to its parts, which do not depend on it: each gets the few calls that it needs.
#include "launcher/agent/agent.hpp"
#include "launcher/agent/rank_variables.hpp"
#include "launcher/agent/ras_port.hpp"
#include "launcher/agent/worker_environment.hpp"
#include "launcher/evidence/evidence_keeper.hpp"
#include "launcher/hosts/doctor/limits.hpp"
#include "launcher/nccl/round_ids.hpp"
#include "launcher/survivors/spawner_chain.hpp"
#include "launcher/vault/node_vault.hpp"

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

// Names have the last eight digits of the mark, like generated node names.
constexpr std::size_t mark_kept = 24;

// For a look at the node's memory; looks at other limits, which are not needed here, may hang
// longer.
constexpr auto look_limit = std::chrono::seconds(1);

}  // namespace

void agent::start_listeners() {
  std::unique_ptr<hook_runner> command;
  if (!options_.on_event.empty())
    command = make_hook("on-event", options_.on_event, hook_options().limit);
  std::unique_ptr<kubernetes::trainer_status> trainer;
  if (auto server = kubernetes::find_trainer_server(environment_)) {
    kubernetes::trainer_status::outside given;
    given.newest_output = [this] { return workers_->words_of(0).errors; };
    given.failed = [this](const std::string& problem) { say(note_level::warning, problem); };
    trainer = std::make_unique<kubernetes::trainer_status>(context_.get_executor(),
                                                           std::move(*server), std::move(given));
  }
  listeners_ = std::make_unique<event_listeners>(options_.run_id, identity_.node,
                                                 std::move(command), std::move(trainer));
}

// `name` is the option without its dashes.
std::unique_ptr<hook_runner> agent::make_hook(const std::string& name, const std::string& command,
                                              duration limit) {
  reaper_.expect_strangers();  // processes that a hook leaves in their own session are the user's
  hook_options values;
  values.name = "--" + name;
  values.command = command;
  values.environment = to_entries(environment_);
  values.prefix = "[" + identity_.node + ":" + name + "] ";
  values.limit = limit;
  return std::make_unique<hook_runner>(
      context_.get_executor(), spawner_, mux_, &guardian_, std::move(values),
      [this](const std::string& line) { say(note_level::warning, line); });
}

void agent::start_reporter() {
  run_reporter::options values;
  values.node = identity_.node;
  values.least = options_.log.least;
  values.restarts_max = options_.settings.restarts_max;
  values.error_file = own_error_file::wanted(environment_, identity_.mark);
  run_reporter::outside given;
  const std::string& reports = options_.output.report_file;
  if (const auto file = reports.empty() ? 0 : log_files_.open(reports); file != 0) {
    given.save = [this, file](const std::string& line) { log_files_.push(file, line); };
  }
  given.tell = [this](const run_event& event) { listeners_->tell(event); };
  reporter_ = std::make_unique<run_reporter>(context_.get_executor(), console_, std::move(values),
                                             std::move(given));
}

void agent::answer_probes() {
  if (options_.health_port == 0) return;
  const error_code error = health_.open(options_.health_port);
  if (error) {
    say(note_level::error, "no probe can be answered on port " +
                               std::to_string(options_.health_port) +
                               " (--health-port): " + error.message() + "; this agent goes on");
  }
}

void agent::start_health() {
  if (!options_.checks_node && options_.health.command.empty()) return;
  std::unique_ptr<hook_runner> command;
  if (!options_.health.command.empty())
    command = make_hook("health-check", options_.health.command, options_.health.limit);
  node_health_ = std::make_unique<node_health>(
      context_.get_executor(), options_.health, std::move(command),
      options_.checks_node ? identity_.look_at_health : nullptr,
      [this](round_number round, const std::string& unhealthy) {
        feed(core::node_checked{round, unhealthy});
      },
      [this](note_level level, const std::string& text) { say(level, text); },
      node_health::times());
}

void agent::start_evidence() {
  evidence::keeper_options values;
  values.gathering_limit = options_.evidence_limit;
  values.asks_collectives = options_.asks_collectives;
  values.names_hangs = options_.hang.is_named;
  values.hang_limit = options_.hang.limit;
  give_ras_port(environment_, values, identity_.visible_gpus, identity_.mark);
  values.environment = environment_;
  values.worker_count = identity_.worker_count;
  values.is_python = !options_.no_python || options_.run_path;
  values.report_file = options_.output.report_file;
  // A restarted job has the same names and report file, but another mark.
  const std::string mark = "-" + identity_.mark.substr(mark_kept);
  values.node = identity_.node + (identity_.node.ends_with(mark) ? "" : mark);
  evidence::evidence_keeper::outside given;
  given.say = [this](note_level level, const std::string& text) { say(level, text); };
  given.living = [this] { return workers_->live(); };
  given.words_of = [this](std::uint32_t rank) { return workers_->words_of(rank); };
  given.signal_workers = [this](int signal) {
    if (worker_group* const group = workers_->group()) group->signal(signal);
  };
  given.kill = [this](pid_t worker) { spawners_->front().signal_group(worker, SIGKILL); };
  given.stalls = [this](std::optional<stall> seen) {
    feed(core::ranks_stalled{workers_->round(), std::move(seen)});
  };
  given.hangs = [this](const std::optional<hung_rank>& who) { reporter_->hear_hang(who); };
  given.memory_files = [this] {
    std::vector<std::string> files = own_oom_counters();
    const std::string folder = reaper_.cgroup_path();
    if (!folder.empty()) files.push_back(folder + "/memory.events");
    return files;
  };
  given.attempt_folder = [this] { return log_folder_.attempt(); };
  evidence_ = std::make_unique<evidence::evidence_keeper>(context_.get_executor(), spawner_,
                                                          std::move(values), std::move(given));
}

// The options for --warm, if possible; none: workers are always started cold.
std::optional<warm::warm_options> agent::warm_spares() {
  if (options_.warm_spares == 0u) return std::nullopt;
  if (options_.no_python && !options_.run_path) {
    say(note_level::info, "--warm is for Python scripts; programs are started cold");
    return std::nullopt;
  }
  // Workers open our memory files through our /proc, which is closed to them if we are not
  // dumpable.
  if (::prctl(PR_GET_DUMPABLE) != 1) {
    say(note_level::warning,
        "warm workers are off: the file of this program cannot be read (chmod +r)");
    return std::nullopt;
  }
  warm::warm_options values;
  values.spares = options_.warm_spares.value_or(identity_.worker_count);
  values.rank_names = rank_variables(options_, identity_.worker_count, environment_);
  values.prefix = "[" + identity_.node + ":warm] ";
  values.stack_site = evidence_->stack_site();
  values.answers = values.comparison.answers = evidence_->answers();
  values.memory.read = [gauge = memory_gauge()] { return gauge.read(); };
  values.cgroup = [this] { return reaper_.cgroup_fd(); };
  values.killed = [this] { oom_kills_.discount(); };
  return values;
}

void agent::start_spawners() {
  survivors::spawner_chain::wiring given;
  given.warm = warm_spares();
  given.address = survivors_address(options_, identity_.mark);
  if (given.warm) {
    worker_round next = round_of_number(10, identity_.worker_count);
    next.node = identity_.node;
    next.run_id = options_.run_id;
    next.mark = identity_.mark;
    next.survivors = given.address;
    given.like.argv = worker_command_line(options_, next, 0);
    given.like.environment = to_entries(worker_environment(options_, next, 0, environment_));
    given.warm->learnt = warm::learnt_imports::of(given.like.argv, given.like.environment);
  }
  given.worker_count = identity_.worker_count;
  given.say = [this](note_level level, const std::string& text) { say(level, text); };
  given.hangs = [this](pid_t worker, const std::string& why) {
    evidence_->count_as_hung(worker, why);
  };
  if (options_.keeps_survivors)
    reaper_.spare_descendants(
        [this](pid_t leader) { return spawners_ && spawners_->waits(leader); });
  spawners_ = std::make_unique<survivors::spawner_chain>(
      context_.get_executor(), evidence_->asking_spawner(), guardian_, mux_, std::move(given));
}

void agent::start_round_workers() {
  round_workers::options values;
  values.node = identity_.node;
  values.worker_count = identity_.worker_count;
  values.children_grace = options_.children_grace;
  values.removes_error_files = log_folder_.path().empty();
  round_workers::outside given;
  given.say = [this](note_level level, const std::string& text) { say(level, text); };
  given.all_started = [this](round_number round) { workers_run(round); };
  given.ended = [this](round_number round, const worker_end& end) { worker_is_over(round, end); };
  given.explained = [this](core::worker_ended event, const worker_end& end,
                           const std::string& error_file) {
    worker_is_explained(std::move(event), end, error_file);
  };
  given.not_started = [this](const core::worker_ended& event) { feed(event); };
  given.all_ended = [this](round_number round) { workers_are_over(round); };
  given.busy = [this](round_number round) { feed(core::workers_busy{round}); };
  workers_ = std::make_unique<round_workers>(
      context_.get_executor(),
      round_workers::system{spawners_->front(), mux_, &guardian_, &reaper_, oom_kills_},
      std::move(values), std::move(given));
}

void agent::start_vault() {
  vault::node_vault::wiring given;
  given.wanted = options_.vault;
  given.mark = identity_.mark;
  given.has_other_nodes = options_.settings.nodes_max > 1;
  given.store = options_.settings.store;
  given.memory_left = [environment = environment_] {
    return doctor::read_limits("/", environment, look_limit).memory_left;
  };
  given.say = [this](note_level level, const std::string& text) { say(level, text); };
  given.restoring = [this](round_number round, std::uint64_t bytes) {
    feed(core::workers_restoring{round, bytes});
  };
  given.own_address = [this](const std::string& store_address) {
    return addresses_.own_for(store_address);
  };
  vault_ = std::make_unique<vault::node_vault>(context_.get_executor(), std::move(given));
}

void agent::start_timers() {
  timer_watch::outside given;
  given.say = [this](const std::string& line) { say(note_level::warning, line); };
  given.holder_of = [this](pid_t process) {
    const worker_group* const group = workers_->group();
    return group != nullptr ? group->holder_of(process) : std::nullopt;
  };
  given.is_ending = [this] { return workers_->are_ending(); };
  timers_ = std::make_unique<timer_watch>(context_.get_executor(), environment_, identity_.mark,
                                          std::move(given));
}

void agent::start_signals() {
  signal_watch::outside given;
  given.say = [this](note_level level, const std::string& text) { say(level, text); };
  given.asked_to_end = [this](int signal) { hear_end_signal(signal); };
  given.has_left = [this] { return exit_code_.has_value(); };
  given.has_guardian = [this] { return guardian_.started(); };
  given.guardian_got = [this](int signal, time_point heard) {
    return guardian_.take_signal(signal, heard);
  };
  given.living = [this] { return workers_->live(); };
  given.pass_on = [this](pid_t worker, int signal) {
    const worker_group* const group = workers_->group();
    return group != nullptr && group->pass_on(worker, signal);
  };
  signals_ = std::make_unique<signal_watch>(context_.get_executor(), std::move(given));
  signals_->start();
}

void agent::start_nccl() {
  auto helper = wanted_nccl_helper(options_, identity_.node, identity_.visible_gpus, environment_);
  if (!helper) return;
  nccl_opening::outside given;
  given.say = [this](note_level level, const std::string& text) { say(level, text); };
  given.tell = [this](const core::agent_event& event) { hear_service(event); };
  given.put = [this](std::string ids) { service_->put(std::string(nccl_ids_key), std::move(ids)); };
  given.close = [this](round_number round) { service_->close(round); };
  nccl_ = std::make_unique<nccl_opening>(context_.get_executor(), spawner_, mux_,
                                         *std::move(helper), options_.nccl_ids == nccl_id_mode::on,
                                         options_.settings.store, environment_, std::move(given));
}

}  // namespace ddprun::launcher
