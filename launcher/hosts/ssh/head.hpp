// The head of a run whose hosts are named on one command line: it runs the rendezvous daemon (or is
// told of one), starts an agent on each host over ssh, collects their output, and exits with the
// run's code. It takes no part in the run itself.
//
// start_rules.hpp decides which host is tried when, and what counts as an end; the head carries
// that out.
//
// Nothing of it outlives it on another host: an agent there ends when its standard input does.
//
// Thread rule: the main thread, which forks; the daemon and the writer have their own threads.
// Ownership: owns every ssh; `run` returns when all have ended.
#pragma once

#include "launcher/agent/embedded_daemon.hpp"
#include "launcher/agent/socket_thread.hpp"
#include "launcher/hosts/ssh/host_discovery.hpp"
#include "launcher/hosts/ssh/host_faults.hpp"
#include "launcher/hosts/ssh/host_link.hpp"
#include "launcher/hosts/ssh/host_roster.hpp"
#include "launcher/hosts/ssh/own_program.hpp"
#include "launcher/hosts/ssh/plan.hpp"
#include "launcher/hosts/ssh/said_once.hpp"
#include "launcher/hosts/ssh/start_rules.hpp"
#include "launcher/output/console.hpp"
#include "launcher/process/boost_spawner.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/log/writer.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

class head {
 public:
  // `discovery` is the command of plan.discovery; empty: the plan has all hosts.
  head(head_plan plan, const environment_map& environment, std::uint64_t seed,
       std::vector<std::string> discovery);
  ~head();
  head(const head&) = delete;
  head& operator=(const head&) = delete;

  // Returns the exit code.
  int run();

 private:
  struct guest {  // this side of a host
    std::unique_ptr<host_link> link;
    std::unique_ptr<console> words;
    std::string magic;
    std::string connection;          // SSH_CONNECTION there
    std::string problem;             // the last error of ddprun there before it could run
    std::optional<agent_end> ended;  // the last report of its agent
    std::optional<time_point> runs_since;
    std::optional<time_point> leaves_by;  // its agent was told to leave; when it must have left
  };

  // In head.cpp.
  void say(note_level level, const std::string& text);
  void find_daemon();
  void go_on();
  void arm_timer();
  void send_beats();
  void watch_signals();
  void await_signal();
  void pass_on(int signal);
  void stop_all(int signal);
  void give_up_all();
  void await_other_faults(bool is_first);
  bool may_still_fail() const;
  void tell_faults();
  void look_for_enough(int code);
  void finish_when_over();
  void finish();

  // In head_hosts.cpp: a single host.
  bool connect(std::size_t host);
  void hear(std::size_t host, std::string_view word, std::string_view rest);
  void send_copy_script(std::size_t host, std::string_view what_is_there);
  void send_order(std::size_t host);
  std::string endpoint_for(std::size_t host) const;
  bool take_error(std::size_t host, std::string_view line);
  void link_ended(std::size_t host, const link_end& end);
  static std::string how_it_ended(const link_end& end);
  void start_failed(std::size_t host, const std::string& why, int code);
  const std::string& name(std::size_t host) const { return plan_.hosts[host].name; }

  // In head_discovery.cpp: hosts that come and go.
  bool is_open() const { return rules_ && rules_->is_open(); }
  start_rules::limits limits() const;
  std::string opening_text() const;
  void make_discovery(std::vector<std::string> command);
  void take_answer(const host_discovery::answer& heard);
  void take_list(const std::vector<host>& listed);
  void say_discovery_problem(const std::string& problem);
  std::string changes_text(const host_roster::change& what) const;
  void admit_rested(std::size_t host);
  void take_off(std::size_t host);
  void look_after_leaving();
  std::string let_rest(std::size_t host, bool is_refused);
  bool settle_when_open(std::size_t host, const link_end& end);
  void watch_solitude();
  void close_discovery();

  head_plan plan_;
  std::string run_id_;
  std::vector<std::string> environment_;  // ours, for ssh
  std::string directory_;
  bool has_color_ = false;          // on standard error
  bool agents_have_color_ = false;  // both of their outputs come here
  std::uint64_t seed_;

  boost::asio::io_context context_{1};
  log::writer writer_;
  console console_;
  boost_spawner spawner_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer timer_;       // the next start, or the end of the time for one
  boost::asio::steady_timer beat_timer_;  // the next beat of all lifelines
  boost::asio::steady_timer stop_timer_;
  socket_thread socket_thread_;
  std::unique_ptr<embedded_daemon> embedded_;
  own_program own_program_;
  std::optional<start_rules> rules_;
  std::deque<guest> guests_;  // a deque, because handlers refer to entries while more are added
  std::optional<std::size_t> reporter_;  // whose agent has plan_.once
  said_once said_;
  host_faults faults_;                // not reported yet
  std::optional<int> code_of_fault_;  // of the first failure that leaves too few hosts
  boost::asio::steady_timer faults_timer_;
  std::uint16_t daemon_port_ = 0;
  head_end end_;
  std::unique_ptr<host_discovery> discovery_;  // null: all hosts are known
  host_roster roster_;
  std::string discovery_problem_;  // the last one reported; empty: the last answer was a list
  boost::asio::steady_timer solitude_timer_;
  bool is_alone_ = false;  // no agent runs
  bool is_stopping_ = false;
  bool was_all_there_ = false;
  bool is_finishing_ = false;
};

// Performs a whole run.
int run_head(head_plan plan, const environment_map& environment, std::uint64_t seed);

// For plan_head: the contents of a file, or why it cannot be read.
cli::parsed<std::string> read_text(const std::string& path);

}  // namespace ddprun::launcher::ssh
