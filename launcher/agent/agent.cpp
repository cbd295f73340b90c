#include "launcher/agent/agent.hpp"

#include "launcher/agent/own_job.hpp"
#include "launcher/agent/worker_environment.hpp"
#include "launcher/evidence/evidence_keeper.hpp"
#include "launcher/survivors/spawner_chain.hpp"
#include "launcher/vault/node_vault.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/name_text.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/base/version.hpp"
#include "rendezvous/cli/values.hpp"
#include "rendezvous/net/descriptor_limit.hpp"
#include "rendezvous/net/host_name.hpp"
#include "rendezvous/net/resolve.hpp"
#include "rendezvous/protocol/agent_protocol.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <time.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {
namespace {

// How long messages to the daemon that are still queued have to go out after the machine has left.
constexpr auto goodbye_limit = std::chrono::seconds(1);
// Other agents that leave together with this one are gone by then, and need no message.
constexpr auto departure_expected = std::chrono::milliseconds(300);
// When a wait is reported for the first time.
constexpr auto progress_interval = std::chrono::seconds(2);

}  // namespace

agent::agent(launch_options options, agent_identity identity, environment_map environment,
             log_folder logs, guardian_process guard)
    : options_(std::move(options)),
      identity_(std::move(identity)),
      environment_(std::move(environment)),
      log_folder_(std::move(logs)),
      console_(identity_.node, options_.run_id, options_.log,
               [this](const std::string& line) {
                 // The last lines are few, and must not be dropped.
                 exit_code_ ? void(writer_.push(log::output_stream::errors, line))
                            : void(writer_.say(line));
               }),
      mux_(context_.get_executor(), writer_, log_files_),
      terminal_(context_.get_executor(), [this] { resize_terminals(); }),
      spawner_(context_.get_executor()),
      guardian_(context_.get_executor(), spawner_, std::move(guard),
                [this](const std::string& line) { say(note_level::warning, line); }),
      guardian_beat_(context_.get_executor(), guardian_, options_.settings.timing.isolation_limit),
      reaper_(context_.get_executor(), spawner_),
      deadline_(context_.get_executor(), {[this](duration by) {
                                            step(core::agent_loop_was_late{by});
                                            notice_strike();
                                          },
                                          [this] { feed(core::agent_time_passed{}); }}),
      progress_timer_(context_),
      socket_thread_([this](const std::string& text) {
        boost::asio::post(context_, [this, text] { say(note_level::error, "service: " + text); });
      }),
      service_(std::make_unique<round_service>(
          context_.get_executor(), socket_thread_,
          round_service_options{options_.settings.store, options_.master_port,
                                options_.is_static && options_.settings.store == store_mode::agent,
                                identity_.seed, identity_.worker_count,
                                options_.settings.timing.node_timeout, options_.allows_other_users},
          [this](const core::agent_event& event) {
            nccl_ ? nccl_->hear(event) : hear_service(event);
          },
          [this](note_level level, const std::string& text) { say(level, text); })),
      session_(context_.get_executor(),
               {[this](std::string own_address) {
                  brief_guardian();
                  addresses_.seen_by_daemon(own_address);
                  feed(core::daemon_connected{std::move(own_address), finder_->embedded().hosts()});
                },
                [this](std::shared_ptr<const daemon_message> message) { hear(std::move(message)); },
                [this](std::string text) { feed(core::daemon_disconnected{std::move(text)}); }}),
      tether_(context_.get_executor(),
              {[this] { feed(core::tether_connected{tether_round_}); },
               [this](std::uint64_t seq) {
                 feed(core::tether_acked{tether_round_, seq});
               },
               [this](std::string text) {
                 feed(core::tether_disconnected{tether_round_, std::move(text)});
               }}),
      health_(context_.get_executor()),
      addresses_(context_.get_executor(),
                 {options_.local_address, options_.is_static ? options_.endpoint.host : "",
                  find_variable(environment_, gloo_interface_variable) == nullptr}) {
  // The spawner has seen the limit as it was: the workers get that one.
  net::raise_descriptor_limit();
  log_files_.on_word([this](const std::string& text) {
    boost::asio::post(context_, [this, text] { say(note_level::warning, text); });
  });
}

agent::~agent() = default;

int agent::run() {
  if (is_colored(options_.output.color, ::isatty(2) == 1, environment_)) console_.use_color();
  // Reads /etc/localtime now; later, the first line could block the loop.
  ::tzset();
  if (options_.output.writes_files()) say(note_level::info, "log files: " + log_folder_.path());
  for (const std::string& note : options_.notes)
    say(note_level::info, note);
  start_listeners();
  start_reporter();
  start_health();
  start_evidence();
  start_spawners();
  start_round_workers();
  start_vault();
  start_timers();
  start_signals();
  answer_probes();
  if (options_.settings.nodes_max > 1) addresses_.look_up();
  find_daemon();
  // Posted, so that they start while the daemon opens its port.
  boost::asio::post(context_, [this] {
    service_->warm_up();
    start_nccl();
    // With --children-grace=keep, processes that must survive us would be in that cgroup.
    if (options_.children_grace) reaper_.make_cgroup();
    guardian_.cgroup(reaper_.cgroup_path());
    oom_kills_.workers_cgroup(reaper_.cgroup_path());
  });
  context_.run();
  socket_thread_.ask_to_stop();
  workers_->abandon();
  spawners_.reset();
  evidence_.reset();
  vault_.reset();
  nccl_.reset();
  listeners_.reset();
  node_health_.reset();
  timers_.reset();
  workers_.reset();
  const bool are_kept = !options_.children_grace && exit_code_ == 0;
  if (!are_kept) reaper_.kill_strays();  // processes of workers that could not be killed
  terminal_.take_back();
  signals_->stop();  // from here on, Ctrl-C may end the process
  guardian_.farewell([this] {
    // A loss is reported, but does not change the exit code: otherwise a scheduler would repeat a
    // finished job only because the reader of its log hung.
    finish_output();
  });
  return exit_code_.value_or(failed_exit_code);
}

void agent::find_daemon() {
  daemon_search search;
  search.endpoint = options_.endpoint;
  search.more_ports = options_.more_ports;
  search.standalone = options_.standalone;
  search.embed = options_.embed;
  search.nodes_max = options_.settings.nodes_max + options_.settings.spares_max;
  search.own_workers = identity_.worker_count;
  search.allows_other_users = options_.allows_other_users;
  search.is_static = options_.is_static;
  if (options_.is_static) search.round_service = service_->take_in();
  search.opened_by = {options_.run_id, identity_.job};
  finder_ = std::make_unique<daemon_finder>(
      context_.get_executor(), socket_thread_, std::move(search),
      options_.settings.timing.join_timeout,
      [this](note_level level, const std::string& text) { say(level, text); });
  finder_->find([this](const daemon_place& place) {
    if (exit_code_) return;  // a signal has ended us first
    if (!place.problem.empty()) return end_without_daemon(place);
    // Of several ports, that of the daemon counts from now on.
    if (!options_.more_ports.empty()) options_.endpoint.port = place.port;
    start_machine();
  });
}

void agent::end_without_daemon(const daemon_place& where) {
  say(note_level::error, "exit code " + std::to_string(where.exit_code) + ": " + where.problem);
  exit_code_ = where.exit_code;
  why_it_left_ = core::leave_reason::unmet;
  reporter_->tell_end_before_start(where.exit_code, where.problem);
  after_goodbye();
}

void agent::start_machine() {
  core::agent_options values;
  values.greeting = greeting();
  const cli::endpoint_address own{finder_->place().host, finder_->place().port};
  values.endpoints = {to_text(options_.standalone ? own : options_.endpoint)};
  values.seed = identity_.seed;
  values.tether_session = identity_.tether_session;
  values.spares_busy_workers = options_.spares_busy_workers;
  values.checks_node = node_health_ != nullptr;
  values.may_host = finder_->embedded().may_host();
  machine_.emplace(std::move(values));
  core::agent_effects effects;
  machine_->start(std::chrono::steady_clock::now(), effects);
  for (const core::agent_effect& effect : effects)
    std::visit([this](const auto& each) { apply(each); }, effect);
  deadline_.arm(machine_->next_deadline());
  warn_of_node(false);
  report_progress(progress_interval);
}

hello agent::greeting() const {
  hello words;
  words.version = version;
  words.run_id = options_.run_id;
  words.session = identity_.session;
  words.node = identity_.node;
  words.node_is_explicit = !options_.node_id.empty();
  words.host = net::short_host_name();
  words.worker_count = identity_.worker_count;
  words.node_rank = options_.node_rank;
  words.role = options_.role;
  say_job(words, identity_.job);
  words.address = options_.local_address;
  words.settings = options_.settings;
  return words;
}

// The guardian's message proves that our workers are dead, so that the other nodes need not wait
// for our isolation limit. An embedded daemon dies with us: its successor does not know our
// session, but knows which group rank had workers.
void agent::brief_guardian() {
  guardian_word word{options_.run_id, identity_.session};
  if (finder_->embedded().hosts()) {
    // Without workers here, the next daemon does not have to wait for anything.
    if (!told_group_rank_) return void(guardian_.tell({}, 0, {}));
    word.instance = told_group_rank_->instance;
    word.round = told_group_rank_->round;
    word.group_rank = told_group_rank_->group_rank;
    word.node = identity_.node;
    word.rank_first = told_group_rank_->rank_first;
    word.worker_count = identity_.worker_count;
  }
  guardian_.tell(
      session_.peer_address(), finder_->place().port,
      protocol::encode(agent_message(std::move(word))),
      {.until_strike = finder_->embedded().hosts(), .unless_refused = options_.starts_once});
}

void agent::hear(std::shared_ptr<const daemon_message> message) {
  if (const auto* report = std::get_if<round_report>(message.get())) hear_report(*report);
  const bool is_welcome = std::holds_alternative<welcome>(*message);
  feed(core::daemon_said{std::move(message)});
  // The settings of the run's first node may replace ours (is_of_first).
  if (is_welcome && machine_) *identity_.drain_grace = machine_->timing().drain_grace;
}

void agent::hear_service(const core::agent_event& event) {
  const auto* const opened = std::get_if<core::service_opened>(&event);
  if (opened == nullptr) return feed(event);
  core::service_opened whole = *opened;
  whole.leader_data = vault_->given_by_leader(std::move(whole.leader_data));
  feed(whole);
}

void agent::feed(const core::agent_event& event) {
  deadline_.notice();
  step(event);
}

void agent::notice_strike() {
  if (guardian_.take_strike()) step(core::killed_by_guardian{workers_->round()});
}

void agent::step(const core::agent_event& event) {
  if (!machine_ || exit_code_) return;
  core::agent_effects now;
  machine_->step(event, std::chrono::steady_clock::now(), now);
  const auto limit = machine_->workers_live_until();
  // The guardian must know the new limit before workers are started, but may only stop watching
  // them after the effects have ended them.
  if (limit) guardian_beat_.allow_until(limit);
  // Must come before the daemon hears that they have ended, because it may then begin the next
  // round.
  if (const auto group_rank = machine_->group_rank_of_workers(); group_rank != told_group_rank_) {
    told_group_rank_ = group_rank;
    if (finder_->embedded().hosts() && session_.is_connected()) brief_guardian();
  }
  for (const core::agent_effect& effect : now)
    std::visit([this](const auto& each) { apply(each); }, effect);
  if (!limit) guardian_beat_.allow_until(limit);
  if (!exit_code_) deadline_.arm(machine_->next_deadline());
}

void agent::hear_end_signal(int signal) {
  was_signalled_ = true;
  // From here on only other agents are waited for.
  if (goodbye_said_) return context_.stop();
  if (exit_code_ && spawners_->kill_survivors()) return;
  if (machine_) return feed(core::signal_received{signal});
  finder_->stop();
  exit_code_ = exit_code_of_signal(signal);  // there is no machine yet, so there is nothing to stop
  why_it_left_ = core::leave_reason::drained;
  const std::string why = "stopped by " + signal_name(signal) + " before a round began here";
  reporter_->tell_end_before_start(*exit_code_, why);
  say(note_level::error, "exit code " + std::to_string(*exit_code_) + ": " + why);
  after_goodbye();
}

void agent::leave_in_order(const core::leave& effect) {
  exit_code_ = effect.exit_code;
  why_it_left_ = effect.why;
  const bool was_drained = effect.why == core::leave_reason::drained;
  if (effect.exit_code == 0 && was_drained) exit_code_ = options_.drain_exit_code;
  reporter_->tell_leaving(effect);
  deadline_.stop();
  progress_timer_.cancel();
  tether_.drop();
  spawners_->end_survivors(machine_->timing().stop_grace, [this] { say_goodbye(); });
}

void agent::say_goodbye() {
  if (session_.is_connected()) {
    session_.finish(goodbye_limit, [this] { after_goodbye(); });
  } else {
    session_.disconnect();
    after_goodbye();
  }
}

void agent::after_goodbye() {
  goodbye_said_ = true;
  session_.disconnect();
  const duration linger = options_.settings.timing.linger;
  progress_timer_.expires_after(departure_expected);
  progress_timer_.async_wait([this, linger](boost::system::error_code error) {
    if (error) return;
    const auto say_whom = [this, linger](const std::vector<std::string>& names, std::size_t count) {
      say(note_level::info, "the rendezvous daemon in this process waits up to " + to_text(linger) +
                                " for " + text_of_names(names, count) +
                                " to leave (Ctrl-C: end now)");
    };
    finder_->embedded().name_agents(options_.run_id, say_whom);
  });
  finder_->embedded().close(linger, [this] {
    service_->when_closed([this] {
      listeners_->finish([this] {
        const bool ends_well = exit_code_ == 0 && why_it_left_ == core::leave_reason::run_over;
        vault_->finish(ends_well, [this] {
          reporter_->when_written([this] { evidence_->when_kept([this] { context_.stop(); }); });
        });
      });
    });
  });
}

}  // namespace ddprun::launcher
