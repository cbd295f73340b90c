// A simulated agent: the shell round core::agent that the real agent is, over simulated sockets
// and workers.  Its guardian outlives it: kills its workers and gives its word to the daemon.
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

// What a person writes on an agent's command line.
struct agent_wish {
  std::uint32_t worker_count = 2;
  std::string run_id = "train";
  std::string role = "default";
  std::string label;                     // explicit, where it is not empty
  std::optional<run_settings> settings;  // none: the world's
  std::string job;        // what it is of in truth; empty: it does not say what it starts
  std::string arguments;  // by which nodes of one job may differ
};

class agent final : public process {
 public:
  agent(world& in, host& on, core::agent_options options);

  void begin();
  void step(const core::agent_event& event);
  void step_unchanged(const core::agent_event& event);  // past the mutant
  // Until when its guardian, which does not stand still with it, lets its workers live.
  const std::optional<time_point>& limit_of_workers() const { return limit_of_workers_; }

  const hello& greeting() const { return greeting_; }
  session_id session() const { return greeting_.session; }
  const std::optional<core::leave>& left() const { return left_; }
  bool connected() const { return daemon_ != nullptr; }
  // The daemon inside this process, if it is one; it ends with it.
  daemon* hosted = nullptr;
  // The end of its run can reach it: it was not refused, nor gave up looking for a daemon.
  bool hears_of_the_end() const { return told_by_ != 0 && left_ && left_->exit_code != 1; }
  // The daemon that said the newest word, by its index; 0: none ever spoke.
  std::uint64_t told_by() const { return told_by_; }
  // Where it reached a daemon last; what its guardian knows. Empty: nowhere, or inside itself.
  const std::string& daemon_address() const { return daemon_address_; }
  // What its guardian says of it, to that daemon or, where it lived inside itself, to the next.
  guardian_word last_word() const;
  bool had_daemon_inside() const { return had_daemon_inside_; }
  connection* daemon_connection() const { return daemon_.get(); }
  connection* tether() const { return tether_.get(); }
  const core::agent& machine() const { return machine_; }
  // The highest that it has read.
  struct news {
    std::uint32_t restarts_used = 0;
    std::map<std::uint64_t, round_number> rounds;  // by the daemon that named them
  };
  news told(instance_id instance) const;
  std::string why() const override { return machine_.why(local_now()); }
  std::uint64_t index = 0;
  std::string job;                      // what it is of in truth
  bool asked_to_leave = false;          // a signal was sent to it
  bool deaf = false;                    // reads answers, and nothing else that the daemon says
  bool is_stuck = false;                // a worker of it never ends
  std::optional<moment> ill_since;      // as it was told by its own check
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
  bool had_daemon_inside_ = false;  // when it reached one last
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
  bool was_struck_ = false;  // by its guardian, and does not know it yet
  std::map<instance_id, news> told_;
  std::uint64_t looks_ = 0;  // at its node: a check ends those before
};

// Kills the workers of a dead agent and says so to the daemon, again and again until it is heard.
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
