#include "launcher/hosts/ssh/head.hpp"

#include "launcher/agent/own_job.hpp"
#include "launcher/hosts/ssh/ssh_lifeline.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/net/descriptor_limit.hpp"

#include <boost/asio/post.hpp>
#include <climits>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

constexpr const char* head_name = "head";
// Agents that were told to end get their workers' grace and this much more.
constexpr auto leaving_limit = std::chrono::seconds(20);
// How long a fault is held back to report similar ones in one line.
constexpr auto faults_limit = std::chrono::seconds(10);
// How long the last output may wait for a reader, as in an agent.
constexpr auto output_limit = std::chrono::seconds(60);
constexpr auto output_limit_after_signal = std::chrono::seconds(10);

std::string working_directory(const environment_map& environment) {
  // Use $PWD, which keeps symbolic links, if it names the current directory.
  const std::string logical = variable_or_empty(environment, "PWD");
  char real[PATH_MAX];
  if (::getcwd(real, sizeof real) == nullptr) return logical.empty() ? "/" : logical;
  char resolved[PATH_MAX];
  const bool leads_here = logical.starts_with('/') &&
                          ::realpath(logical.c_str(), resolved) != nullptr &&
                          std::strcmp(resolved, real) == 0;
  return leads_here ? logical : real;
}

}  // namespace

head::head(head_plan plan, const environment_map& environment, std::uint64_t seed,
           std::vector<std::string> discovery)
    : plan_(std::move(plan)),
      run_id_(plan_.has_run_id ? plan_.launch.run_id : "ssh-" + to_hex(seed)),
      environment_(to_entries(environment)),
      directory_(working_directory(environment)),
      has_color_(is_colored(plan_.launch.output.color, ::isatty(2) == 1, environment)),
      agents_have_color_(
          is_colored(plan_.launch.output.color, ::isatty(1) == 1 && ::isatty(2) == 1, environment)),
      seed_(seed),
      console_(head_name, run_id_, plan_.launch.log,
               [this](const std::string& line) { writer_.say(line); }),
      spawner_(context_.get_executor()),
      signals_(context_),
      timer_(context_),
      beat_timer_(context_),
      stop_timer_(context_),
      own_program_(context_.get_executor()),
      guests_(plan_.hosts.size()),
      faults_timer_(context_),
      roster_(seed, plan_.has_common_workers),
      solitude_timer_(context_) {
  if (has_color_) console_.use_color();
  if (!discovery.empty()) make_discovery(std::move(discovery));
  writer_.on_room([this](log::output_stream stream) {
    boost::asio::post(context_, [this, stream] {
      for (const guest& each : guests_) {
        if (each.link) each.link->resume(stream);
      }
    });
  });
}

head::~head() = default;

void head::say(note_level level, const std::string& text) {
  console_.say(level, text);
}

int head::run() {
  net::raise_descriptor_limit();  // each host needs several
  std::signal(SIGPIPE, SIG_IGN);  // an ssh may end while something is written to it
  for (const std::string& note : plan_.launch.notes)
    say(note_level::info, note);
  watch_signals();
  find_daemon();
  context_.run();
  socket_thread_.ask_to_stop();
  const int code = exit_code_of(end_);
  guests_.clear();
  writer_.finish(end_.signal ? output_limit_after_signal : output_limit);
  return code;
}

// Without --rdzv-endpoint the kernel chooses the port, and the agents are told it.
void head::find_daemon() {
  daemon_search search;
  search.endpoint =
      plan_.has_endpoint ? plan_.launch.endpoint : cli::endpoint_address{"0.0.0.0", 0};
  search.embed = plan_.has_endpoint ? embed_policy::automatic : embed_policy::always;
  const run_settings& settings = plan_.launch.settings;
  // With discovery, hosts may come later, so count those that could take part.
  search.nodes_max = discovery_ ? settings.nodes_max + settings.spares_max
                                : static_cast<std::uint32_t>(plan_.hosts.size());
  search.allows_other_users = plan_.launch.allows_other_users;
  search.opened_by = {run_id_, own_job(plan_.launch, head_name, std::time(nullptr))};
  embedded_ = std::make_unique<embedded_daemon>(
      context_.get_executor(), socket_thread_, std::move(search),
      [this](note_level level, const std::string& text) { say(level, text); });
  embedded_->find([this](const daemon_place& place) {
    if (is_stopping_) return;  // by a signal while the port was sought
    if (!place.problem.empty()) {
      say(note_level::error, place.problem);
      end_.failed_start = 1;
      return finish();
    }
    daemon_port_ = place.port;
    say(note_level::info, opening_text());
    rules_.emplace(limits(), std::chrono::steady_clock::now());
    if (discovery_) discovery_->start();
    watch_solitude();
    go_on();
    send_beats();
  });
}

void head::go_on() {
  const time_point now = std::chrono::steady_clock::now();
  for (const std::size_t host : rules_->take_late(now)) {
    start_failed(host,
                 "no agent runs there after " + to_text(plan_.start_timeout) + " (--start-timeout)",
                 unmet_exit_code);
  }
  for (const std::size_t host : rules_->take_next(now)) {
    // The ssh of an earlier try was killed and has not ended yet.
    if (!connect(host)) rules_->admit(host, now + first_pause);
  }
  arm_timer();
  finish_when_over();
}

void head::arm_timer() {
  const auto due = rules_->next_deadline();
  if (!due || is_stopping_) return void(timer_.cancel());
  timer_.expires_at(*due);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error && !is_stopping_) go_on();
  });
}

void head::send_beats() {
  for (std::size_t host = 0; host < guests_.size(); ++host) {
    const bool listens = guests_[host].link && rules_->stage_of(host) == stage::running;
    if (listens) guests_[host].link->send("beat\n");
  }
  beat_timer_.expires_after(lifeline_interval);
  beat_timer_.async_wait([this](boost::system::error_code error) {
    if (!error) send_beats();
  });
}

// As in the agent: under nohup the terminal's hang-up is not for us.
void head::watch_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGQUIT})
    signals_.add(number);
  for (const int number : {SIGHUP, SIGUSR1, SIGUSR2}) {
    if (!is_ignored(number)) signals_.add(number);
  }
  await_signal();
}

void head::await_signal() {
  signals_.async_wait([this](boost::system::error_code error, int number) {
    if (error) return;
    await_signal();
    if (number == SIGUSR1 || number == SIGUSR2) return pass_on(number);
    // The second signal: the user does not want to wait for the grace period.
    if (end_.signal) {
      say(note_level::warning, signal_name(number) + " again: not waiting for hosts any longer");
      return give_up_all();
    }
    end_.signal = number;
    // No agent was started yet, or the run is over: there is nobody to tell.
    if (!rules_ || is_finishing_) return finish();
    say(note_level::info, signal_name(number) +
                              ": the agents are told to end (Ctrl-C again: "
                              "they are left to end by themselves)");
    stop_all(number);
  });
}

// Passes a batch system's signal to the workers; each agent says what it does with it.
void head::pass_on(int signal) {
  if (!rules_ || rules_->count(stage::running) == 0) {
    return say(note_level::warning, signal_name(signal) + ": no agent is running to pass it to");
  }
  for (std::size_t host = 0; host < guests_.size(); ++host) {
    if (guests_[host].link && rules_->stage_of(host) == stage::running)
      guests_[host].link->send("signal " + std::to_string(signal) + "\n");
  }
}

void head::stop_all(int signal) {
  is_stopping_ = true;
  timer_.cancel();
  // Faults that were held back may be the reason for the end, so they are reported before it.
  tell_faults();
  close_discovery();
  for (std::size_t host = 0; host < guests_.size(); ++host) {
    const stage at = rules_->stage_of(host);
    if (at == stage::running) {
      guests_[host].link->send("signal " + std::to_string(signal) + "\n");
    } else if (at == stage::waiting || at == stage::connecting) {
      // Nothing of ours runs there yet, or nothing that outlives its ssh.
      rules_->give_up(host);
      if (guests_[host].link) guests_[host].link->signal(SIGKILL);
    }
  }
  stop_timer_.expires_after(plan_.launch.settings.timing.drain_grace + leaving_limit);
  stop_timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    say(note_level::warning,
        "some agents have not ended in time; they are left to end by themselves");
    give_up_all();
  });
  finish_when_over();
}

// Ends every ssh; each agent then notices that its head is gone.
void head::give_up_all() {
  for (const guest& each : guests_) {
    if (!each.link) continue;
    each.link->close_input();
    each.link->signal(SIGKILL);
  }
}

// Hosts often share one mistake: failures are reported together, once no other host can have them.
// They delay the end of the run by no more than this limit.
void head::await_other_faults(bool is_first) {
  if (!may_still_fail()) return tell_faults();
  if (!is_first) return;
  faults_timer_.expires_after(faults_limit);
  faults_timer_.async_wait([this](boost::system::error_code error) {
    if (!error) tell_faults();
  });
}

bool head::may_still_fail() const {
  return rules_->count(stage::waiting) + rules_->count(stage::connecting) > 0;
}

void head::tell_faults() {
  faults_timer_.cancel();
  const note_level level = code_of_fault_ ? note_level::error : note_level::warning;
  for (const std::string& line : faults_.take(": no agent was started: "))
    say(level, line);
  if (const auto code = std::exchange(code_of_fault_, std::nullopt)) look_for_enough(*code);
}

// `code` is that of the host that no longer takes part.
void head::look_for_enough(int code) {
  if (is_stopping_ || !rules_->has_too_few() || is_decided(end_)) return;
  end_.failed_start = code;
  const std::size_t left = rules_->possible();
  if (left > 0) {
    say(note_level::error,
        "the run needs " + counted(plan_.launch.settings.nodes_min, "node") + ", and " +
            std::to_string(left) +
            (left == 1 ? " remains: its agent is stopped" : " remain: their agents are stopped"));
  }
  stop_all(SIGTERM);
}

void head::finish_when_over() {
  if (rules_ && !faults_.is_empty() && !may_still_fail()) tell_faults();
  if (!rules_ || !rules_->is_over()) return;
  // An agent that has ended may still have output in its ssh.
  for (const guest& each : guests_) {
    if (each.link) return;
  }
  finish();
}

void head::finish() {
  if (std::exchange(is_finishing_, true)) return;
  is_stopping_ = true;
  timer_.cancel();
  beat_timer_.cancel();
  stop_timer_.cancel();
  close_discovery();
  embedded_->close(std::chrono::seconds(1), [this] { context_.stop(); });
}

int run_head(head_plan plan, const environment_map& environment, std::uint64_t seed) {
  std::vector<std::string> command;
  if (!plan.discovery.empty()) {
    auto words = discovery_command(plan.discovery_given, plan.discovery);
    if (!words) {
      std::fprintf(stderr, "ddprun: %s\n", words.error().text.c_str());
      return usage_exit_code;
    }
    command = std::move(*words);
  }
  head one(std::move(plan), environment, seed, std::move(command));
  return one.run();
}

cli::parsed<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad()) {
    return cli::usage_error{"cannot read " + path + ": " + std::strerror(errno)};
  }
  return {boost::system::in_place_value, text.str()};
}

}  // namespace ddprun::launcher::ssh
