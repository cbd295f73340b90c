// A simulated agent: a shell around core::agent, like the real agent, with simulated sockets and
// workers.  Its guardian outlives it, kills its workers, and reports its death to the daemon.
//
// Ownership: the world owns it.
#pragma once

#include "rendezvous/core/agent/agent_machine.hpp"
#include "tests/simulation/process.hpp"
#include "tests/simulation/truth.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::simulation {

class daemon;

// What a person gives on an agent's command line.
struct agent_wish {
  std::uint32_t worker_count = 2;
  std::string run_id = "train";
  std::string role = "default";
  std::string label;                     // given by the user; empty: none
  std::optional<run_settings> settings;  // none: the world's
  std::string job;                       // its real one; empty: it does not say what it starts
  std::string arguments;                 // which nodes of one job may have differently
};

class agent final : public process {
 public:
  agent(world& in, host& on, core::agent_options options);

  void begin();
  void step(const core::agent_event& event);
  void step_unchanged(const core::agent_event& event);  // without the mutant
  // Until when its guardian lets its workers live if it stands still and the guardian does not.
  const std::optional<time_point>& limit_of_workers() const { return limit_of_workers_; }

  const hello& greeting() const { return greeting_; }
  session_id session() const { return greeting_.session; }
  const std::optional<core::leave>& left() const { return left_; }
  bool connected() const { return daemon_ != nullptr; }
  // The daemon inside this process, which ends with it; null: none.
  daemon* hosted = nullptr;
  // Whether it can still be told the end of its run: it was not refused, and has not given up
  // looking for a daemon.
  bool hears_of_the_end() const { return told_by_ != 0 && left_ && left_->exit_code != 1; }
  // The index of the daemon from which the newest message came; 0: there was none.
  std::uint64_t told_by() const { return told_by_; }
  // Where it reached a daemon last, which its guardian knows. Empty: nowhere, or in its own
  // process.
  const std::string& daemon_address() const { return daemon_address_; }
  // The guardian's report of its death, to that daemon or, if the daemon lived in the agent, to the
  // next one.
  guardian_word last_word() const;
  bool had_daemon_inside() const { return had_daemon_inside_; }
  connection* daemon_connection() const { return daemon_.get(); }
  connection* tether() const { return tether_.get(); }
  const core::agent& machine() const { return machine_; }
  // The highest numbers that it has read.
  struct news {
    std::uint32_t restarts_used = 0;
    std::map<std::uint64_t, round_number> rounds;  // by the daemon that named them
  };
  news told(instance_id instance) const;
  std::string why() const override { return machine_.why(local_now()); }
  std::uint64_t index = 0;
  std::string job;                      // the job that it really belongs to
  bool asked_to_leave = false;          // a signal was sent to it
  bool deaf = false;                    // reads acks, and no other message of the daemon
  bool is_stuck = false;                // one of its workers never ends
  std::optional<moment> ill_since;      // according to its own check
  std::shared_ptr<worker_group> group;  // its newest

  void on_accepted(connection& from, int end, std::uint16_t port) override;
  void on_dialed(std::uint64_t dial, connection& to, int end) override;
  void on_dial_failed(std::uint64_t dial, const std::string& text) override;
  void on_message(connection& from, int end, const payload& message) override;
  void on_closed(connection& from, int end, const std::string& text) override;

 private:
  void on_wake() override;
  void on_late(duration by) override;
  void apply(const core::agent_effects& effects);
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
  void apply(const core::stop_workers& effect);
  void apply(const core::kill_workers& effect);
  void apply(const core::end_survivors&) {}  // no simulated worker lives on
  void apply(const core::check_node& effect);
  void apply(const core::name_hung& effect);
  void apply(const core::agent_note& effect);
  void apply(const core::leave& effect);
  void tether_spoke(connection& from, const agent_message& message);
  void exit_when_flushed(moment limit);
  void tell_guardian();
  void look_at_node(round_number round, duration after);
  void await_judgement(moment when);
  void judge(time_point limit);

  hello greeting_;
  core::agent machine_;
  std::string daemon_address_;
  bool had_daemon_inside_ = false;  // when it last reached a daemon
  std::uint64_t told_by_ = 0;
  std::shared_ptr<connection> daemon_;
  std::uint64_t daemon_dial_ = 0;
  std::uint64_t daemon_attempt_ = 0;
  std::shared_ptr<connection> tether_;
  std::uint64_t tether_dial_ = 0;
  std::uint64_t tether_attempt_ = 0;
  round_number tether_round_ = 0;
  tether_hello tether_hello_;
  std::uint16_t service_port_ = 0;
  round_number service_round_ = 0;
  std::map<std::uint64_t, std::shared_ptr<connection>> accepted_;  // by connection id
  std::map<std::uint64_t, bool> attached_;
  std::optional<core::leave> left_;
  std::optional<time_point> limit_of_workers_;
  bool was_struck_ = false;  // its guardian has killed its workers, and it does not know yet
  std::map<instance_id, news> told_;
  std::uint64_t looks_ = 0;  // checks of its node; a new one ends earlier ones
};

// Kills the workers of a dead agent and reports that to the daemon, again and again until the
// daemon has read it.
class guardian final : public process {
 public:
  guardian(world& in, host& on, agent& of);
  void begin();
  std::string why() const override { return "guardian"; }

  void on_accepted(connection&, int, std::uint16_t) override {}
  void on_dialed(std::uint64_t dial, connection& to, int end) override;
  void on_dial_failed(std::uint64_t dial, const std::string& text) override;
  void on_message(connection&, int, const payload&) override {}
  void on_closed(connection&, int, const std::string&) override {}

 private:
  void on_wake() override {}
  void on_late(duration) override {}
  void look();

  agent& agent_;
  int attempts_ = 0;
};

}  // namespace ddprun::simulation
