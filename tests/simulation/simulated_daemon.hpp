// A simulated daemon: core::daemon, run as server/daemon_shell runs it, over simulated sockets. It
// knows of an earlier daemon what the journal has kept; without a journal, nothing. An embedded
// daemon lives in an agent's process, on a thread of its own: it stands still and ends with that
// process, not with that agent's loop.
//
// Ownership: the world owns it.
#pragma once

#include "rendezvous/core/daemon/daemon_machine.hpp"
#include "tests/simulation/process.hpp"
#include "tests/simulation/simulated_journal.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace ddprun::simulation {

inline constexpr std::uint16_t daemon_port = 29400;

class agent;

class daemon final : public process {
 public:
  // `inside`: the agent that it is embedded in; null: it is a process of its own.
  daemon(world& in, host& on, agent* inside = nullptr);

  void begin();
  void step(const core::daemon_event& event);
  // Steps the machine without the mutant, and appends its effects to `effects`.
  void step_unchanged(const core::daemon_event& event, core::daemon_effects& effects);
  void operator_stops();
  // Its agent leaves: the process stays until no agent is connected, or for `limit`.
  void linger(duration limit);
  agent* inside() const { return inside_; }
  // The machine of a run id; null before the first hello.
  const core::run* run(const std::string& run_id = "train") const { return machine_->find(run_id); }
  std::string why() const override;
  std::set<session_id> sessions_joined() const;
  bool has_heard(session_id who) const;  // ever
  // Whether that session has come to it with that instance, and not as a newcomer.
  bool was_brought(session_id by, instance_id instance) const {
    return brought_.contains({by, instance});
  }
  // Whether it has closed that instance, or knows that an earlier daemon has.
  bool has_closed(instance_id instance) const;
  // Whether it had heard from a node of that instance before it placed a node of the other one.
  bool knew_of(instance_id instance, instance_id placed) const;
  // The newest round of that instance that it has chosen or heard of.
  round_number newest_known(instance_id instance) const;
  // This also finds the session of a connection that has just ended.
  session_id session_of(connection_id which) const;
  std::uint64_t index = 0;

  void close_journal();  // on its way out
  void die() override;
  void on_accepted(connection& from, int end, std::uint16_t port) override;
  void on_dialed(std::uint64_t, connection&, int) override {}
  void on_dial_failed(std::uint64_t, const std::string&) override {}
  void on_message(connection& from, int end, const payload& message) override;
  void on_closed(connection& from, int end, const std::string& text) override;

 private:
  struct peer {
    std::shared_ptr<connection> over;
    session_id session;  // once it has said hello
    duration stall_limit{};
  };

  void open_journal(core::daemon_options& options);
  void hear(const status& said);
  void on_wake() override;
  void on_late(duration by) override;
  void tell_of_closed_runs();
  void end_when_alone(moment limit);
  void apply(const core::daemon_effects& effects);
  void cut_off_who_does_not_read();
  void arm();

  agent* const inside_;
  std::optional<core::daemon> machine_;  // from `begin` on
  std::unique_ptr<journal> journal_;
  time_point sweep_;
  std::map<std::string, int> closed_with_;  // by run id, as announced last
  std::map<connection_id, peer> peers_;
  std::map<connection_id, session_id> sessions_;
  std::set<std::pair<session_id, instance_id>> brought_;
  std::map<instance_id, round_number> heard_of_;  // and the newest round
  std::map<instance_id, moment> first_heard_;
  std::map<instance_id, moment> first_placed_;
};

}  // namespace ddprun::simulation
