// The agent is the Asio shell around core::agent: it carries out the machine's effects (dial,
// spawn, open the round's service, print, leave) and feeds it events. It decides nothing.
//
// One agent runs on each node of a run; it starts and watches this node's workers.
//
// Thread rule: the main thread, which is the only one that forks. It owns the socket thread (job
// store, tethers that a leader holds, embedded daemon) and the writer thread. Ownership: it owns
// everything of the run in this process; `run` returns when all of it is gone.
#pragma once

#include "launcher/agent/daemon_finder.hpp"
#include "launcher/agent/event_listeners.hpp"
#include "launcher/agent/loop_deadline.hpp"
#include "launcher/agent/node_addresses.hpp"
#include "launcher/agent/round_service.hpp"
#include "launcher/agent/round_workers.hpp"
#include "launcher/agent/run_reporter.hpp"
#include "launcher/agent/signal_watch.hpp"
#include "launcher/agent/socket_thread.hpp"
#include "launcher/agent/stop_file.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/log/log_mux.hpp"
#include "launcher/nccl/nccl_opening.hpp"
#include "launcher/network/health_port.hpp"
#include "launcher/node/node_health.hpp"
#include "launcher/output/console.hpp"
#include "launcher/output/log_folder.hpp"
#include "launcher/output/own_terminal.hpp"
#include "launcher/process/boost_spawner.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/guardian_beat.hpp"
#include "launcher/process/hook_runner.hpp"
#include "launcher/process/oom_kills.hpp"
#include "launcher/process/stray_reaper.hpp"
#include "launcher/process/timer_watch.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/client/daemon_session.hpp"
#include "rendezvous/client/tether_client.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"
#include "rendezvous/log/writer.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

namespace vault {
class node_vault;
}  // namespace vault
namespace survivors {
class spawner_chain;
}
namespace warm {
struct warm_options;
}
namespace evidence {
class evidence_keeper;
}  // namespace evidence

// What the agent needs beside the options; drawn or counted by main.
struct agent_identity {
  session_id session;              // random and secret: whoever knows it can speak for this node
  session_id tether_session;       // random; the same towards the leaders of its rounds
  std::string mark;                // random and public: used in names and environments
  std::uint64_t seed = 0;          // for the jitter of reconnects
  std::string node;                // label
  std::uint32_t worker_count = 1;  // workers on this node
  std::uint32_t visible_gpus = 0;
  std::vector<std::vector<int>> processors;  // of each worker, by local rank; empty: as ours
  started_job job;
  // Returns warnings about this node, a line each, once they are known; empty function: no check.
  // `waits`: waits for them, at most until doctor::start_check_limit after the start.
  std::function<std::optional<std::vector<std::string>>(bool waits)> look_at_node;
  // The time that this node's workers have to end after a signal, as the nodes of the run have
  // agreed. Another thread, which waits for this process, reads it.
  std::shared_ptr<std::atomic<duration>> drain_grace = std::make_shared<std::atomic<duration>>();
  // Between rounds, returns why this node should not take part in another; blocks. Empty: no check.
  std::function<node_look()> look_at_health;
};

class agent {
 public:
  agent(launch_options options, agent_identity identity, environment_map environment,
        log_folder logs, guardian_process guard);
  ~agent();
  agent(const agent&) = delete;
  agent& operator=(const agent&) = delete;

  // Runs until the machine leaves; returns the exit code of the process.
  int run();
  // What that exit code means; valid after run().
  core::leave_reason why_it_left() const { return why_it_left_; }

 private:
  // agent.cpp: life of the process.
  void find_daemon();
  void end_without_daemon(const daemon_place& where);
  void start_machine();
  hello greeting() const;
  void brief_guardian();
  void hear(std::shared_ptr<const daemon_message> message);
  void hear_service(const core::agent_event& event);
  void hear_end_signal(int signal);
  void feed(const core::agent_event& event);
  void notice_strike();
  void step(const core::agent_event& event);
  void leave_in_order(const core::leave& effect);
  void say_goodbye();
  void after_goodbye();

  // agent_messages.cpp: messages for people, and what is added to a report.
  void say(note_level level, const std::string& text);
  void warn_of_node(bool waits);
  void report_progress(duration after);
  bool show_wait(const std::string& why);
  void tell_round(const core::start_workers& effect, const std::vector<worker_command>& commands);
  void hear_report(const round_report& report);
  std::string output_of(const round_report& report) const;
  void finish_output();

  // agent_parts.cpp: wires the parts.
  void start_listeners();
  std::unique_ptr<hook_runner> make_hook(const std::string& name, const std::string& command,
                                         duration limit);
  void start_reporter();
  void start_signals();
  void answer_probes();
  void start_health();
  void start_evidence();
  std::optional<warm::warm_options> warm_spares();
  void start_spawners();
  void start_round_workers();
  void start_vault();
  void start_timers();
  void start_nccl();

  // agent_effects.cpp: one function for each effect of the machine.
  void apply(const core::connect_daemon& effect);
  void apply(const core::send_to_daemon& effect);
  void apply(const core::disconnect_daemon& effect);
  void apply(const core::open_service& effect);
  void apply(const core::close_service& effect);
  void apply(const core::dial_tether& effect);
  void apply(const core::send_tether_beat& effect);
  void apply(const core::drop_tether& effect);
  void apply(const core::ack_member& effect);
  void apply(const core::refuse_member& effect);
  void apply(const core::drop_members& effect);
  void apply(const core::start_workers& effect);
  void begin_workers(const core::start_workers& effect);
  bool stops_preparing(round_number round);
  void apply(const core::stop_workers& effect);
  void apply(const core::kill_workers& effect);
  void apply(const core::name_hung& effect);
  void apply(const core::check_node& effect);
  void apply(const core::end_survivors& effect);
  void apply(const core::agent_note& effect);
  void apply(const core::leave& effect);
  void resize_terminals();
  void workers_run(round_number round);
  void worker_is_over(round_number round, const worker_end& end);
  void worker_is_explained(core::worker_ended event, const worker_end& end,
                           const std::string& error_file);
  void workers_are_over(round_number round);

  launch_options options_;
  agent_identity identity_;
  environment_map environment_;
  log_folder log_folder_;

  boost::asio::io_context context_{1};
  log::writer writer_;
  console console_;
  log_files log_files_;
  log_mux mux_;
  own_terminal terminal_;
  boost_spawner spawner_;
  guardian guardian_;
  guardian_beat guardian_beat_;
  stray_reaper reaper_;
  oom_watch oom_kills_;
  loop_deadline deadline_;                    // the machine's next one
  boost::asio::steady_timer progress_timer_;  // the next message about a wait

  socket_thread socket_thread_;
  std::unique_ptr<round_service> service_;
  std::unique_ptr<daemon_finder> finder_;
  client::daemon_session session_;
  client::tether_client tether_;

  std::unique_ptr<nccl_opening> nccl_;  // none: this node makes no ids

  health_port health_;
  node_addresses addresses_;
  std::size_t round_needs_ = 0;  // connections of the round that is open here
  std::optional<core::agent> machine_;
  std::optional<core::agent::worker_group_rank>
      told_group_rank_;  // what the guardian knows, if the daemon is here
  round_number tether_round_ = 0;
  stop_file stop_file_;
  std::unique_ptr<evidence::evidence_keeper> evidence_;
  std::unique_ptr<survivors::spawner_chain> spawners_;
  std::unique_ptr<vault::node_vault> vault_;
  std::unique_ptr<round_workers> workers_;
  std::unique_ptr<timer_watch> timers_;
  std::unique_ptr<signal_watch> signals_;
  std::unique_ptr<event_listeners> listeners_;
  std::unique_ptr<run_reporter> reporter_;
  std::unique_ptr<node_health> node_health_;  // none: this node is not checked
  std::optional<int> exit_code_;              // set once the machine has left, or there was none
  core::leave_reason why_it_left_ = core::leave_reason::run_over;
  bool goodbye_said_ = false;  // from here on only other agents are waited for
  bool was_signalled_ = false;
};

}  // namespace ddprun::launcher
