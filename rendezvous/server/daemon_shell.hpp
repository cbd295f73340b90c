// The shell around core::daemon: it turns messages of agents into events, applies effects, and
// supplies the time.
//
// It guarantees two things to the machine (DESIGN.md): input that has arrived is handled before
// deadlines fire, and a loop that was late reports that before anything else happens.
//
// Thread rule: one thread, that of the executor. Destroy it before its io_context. Errors: sessions
// end by themselves and are logged; no message of an agent ends the daemon.
#pragma once

#include "rendezvous/base/lateness_watch.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/core/daemon/daemon_machine.hpp"
#include "rendezvous/journal/journal.hpp"
#include "rendezvous/net/peer_user.hpp"
#include "rendezvous/server/agent_session.hpp"
#include "rendezvous/server/protocol_router.hpp"
#include "rendezvous/server/runs_json.hpp"

#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun::server {

struct daemon_shell_options {
  // How long to wait for agents of an earlier daemon on this endpoint: for those of runs that the
  // journal has as open or, without a journal, of any run. 0: there was no earlier daemon.
  duration recovery_window = std::chrono::seconds(10);
  std::optional<duration> window_without_journal;   // empty: the same
  duration hello_limit = std::chrono::seconds(30);  // for a peer's first line
  std::size_t agents_max = 100'000;                 // connections that have said hello
  std::function<bool()> has_room;                   // for one more agent; empty: always
  // The port's peers that have not said hello, or are leaving; null: the shell creates its own.
  std::shared_ptr<evictable_peers> newcomers;
  // Opens what outlives this daemon; empty: nothing does. If it cannot be opened, the caller
  // decides.
  journal::opener open_journal;
  journal::background_opener open_journal_in_background;  // instead, if the loop must not wait
  log_function journal_log;  // gets the journal's messages instead of `log`; may be empty
  // Limits the runs with connected agents or with workers that may be alive. Finished runs are kept
  // for an hour, as far as this number allows, so that late nodes are told how they ended.
  std::size_t runs_max = 1000;
  std::optional<opened_run> opened_by;  // the agent that this daemon lives in; empty: it runs alone
  log_function log;                     // may be empty
  // Whether agents and guardians of this host's other users are accepted (net/peer_user.hpp).
  bool allows_other_users = false;
};

class daemon_shell final : public agent_session::owner {
 public:
  daemon_shell(net::executor where, daemon_shell_options options);
  ~daemon_shell() { stop(); }
  daemon_shell(const daemon_shell&) = delete;
  daemon_shell& operator=(const daemon_shell&) = delete;

  // Call this once, before the first `accept`: from here on the daemon knows what its predecessor
  // persisted. On failure the caller ends the daemon, or continues without a journal.
  journal::open_failure open_journal();
  // The same without blocking: `opened` is called from the loop, with a problem if there is no
  // journal.
  void open_journal_in_background(journal::opened_handler opened);
  void go_on_without_journal(const std::string& problem);

  // `socket` speaks the agent protocol and must be unread.
  void accept(net::tcp::socket socket);

  // Something has arrived that the daemon will soon handle, so deadlines must wait for it.
  void note_input() { ++inputs_; }

  // Closes every session for good, at once, so that agents look for another daemon.
  void stop();

  std::size_t agent_count() const { return sessions_.size(); }
  // Sessions that have said hello; the others, and those that leave, are evictable peers.
  std::size_t joined_count() const { return machine_.agent_count(); }
  // At most so many names: "node-a", or "node-b of run job2" if that is not `own_run`.
  std::vector<std::string> joined_names(std::size_t most, const std::string& own_run) const;

  // One line that says what is wrong with the journal; decisions are in memory only meanwhile.
  // Empty: nothing is wrong.
  const std::string& journal_problem() const { return journal_problem_; }

  // Calls `handler` once, from the loop, as soon as no agent that has said hello is connected. Only
  // one handler at a time.
  void when_no_agents(std::function<void()> handler);

  // One page of runs from `first` on, by name, each with its first members.
  runs_page runs(std::size_t first) const;
  // One run, with a page of its members from `first` on.
  std::optional<core::run_view> run(std::string_view id, std::size_t first, std::size_t most) const;

 private:
  void on_message(agent_session& from, agent_message message) override;
  void on_end(agent_session& from, const std::string& why) override;
  void on_other_version(agent_session& from, const std::string& why) override;
  void warn_of_refusal(const agent_session& of, const std::string& why);

  void step(core::daemon_event event);
  void step_at(time_point now, core::daemon_event event);
  void apply(const core::send_to_agent& effect);
  void apply(const core::disconnect_agent& effect);
  void apply(const core::drop_connection& effect);
  void apply(const core::limit_stall& effect);
  void apply(const core::persist_run_record& effect);
  void apply(const core::daemon_note& effect);
  void add_problem(core::run_view& seen) const;
  journal::handlers of_journal();
  void begin_with_journal();
  void say_of_journal(note_level level, const std::string& text) const;
  void hear_of_journal(const std::string& problem);
  void notice_departure();
  time_point moment();
  void schedule_arming();
  void arm();
  net::shared_bytes line_of(const std::shared_ptr<const daemon_message>& message);
  void drain_then_fire(std::uint64_t inputs_seen, int quiet_turns, int turns);
  void fire();
  instance_id draw_instance();
  void log(note_level level, const std::string& text) const;

  net::executor executor_;
  daemon_shell_options options_;
  std::string journal_problem_;
  std::unique_ptr<journal::journal> journal_;
  core::daemon machine_;
  std::unordered_map<connection_id, std::unique_ptr<agent_session>> sessions_;
  connection_id last_connection_ = 0;
  std::random_device random_;
  net::peer_users users_;
  log_limit strangers_;

  // The newest message that several agents share, and its encoded line.
  std::shared_ptr<const daemon_message> shared_message_;
  net::shared_bytes shared_line_;

  boost::asio::steady_timer timer_;
  lateness_watch lateness_;
  std::uint64_t inputs_ = 0;
  bool arming_ = false;
  std::function<void()> on_no_agents_;
  bool draining_ = false;
  lifetime alive_;
};

}  // namespace ddprun::server
