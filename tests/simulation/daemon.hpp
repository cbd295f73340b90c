// A simulated daemon: run ids to core::run as server/service does, over simulated sockets. It
// remembers nothing of an earlier daemon.
//
// Thread rule: one thread. Ownership: the world owns it.
#pragma once

#include "rendezvous/core/run.hpp"
#include "tests/simulation/process.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace ddprun::simulation {

inline constexpr std::uint16_t daemon_port = 29400;

class daemon final : public process {
 public:
  daemon(world& in, host& on);

  void begin();
  void operator_stops();
  // The machine of the world's only run id; none before the first hello.
  const core::run* run() const { return run_ ? &*run_ : nullptr; }
  std::string why() const override;
  std::set<session_id> sessions_joined() const;
  // Also of a connection that has just ended.
  session_id session_of(connection_id which) const;
  std::uint64_t index = 0;

  void on_accepted(connection& from, int end, std::uint16_t port) override;
  void on_dialed(std::uint64_t, connection&, int) override {}
  void on_dial_failed(std::uint64_t, const std::string&) override {}
  void on_message(connection& from, int end, const payload& message) override;
  void on_closed(connection& from, int end, const std::string& text) override;

 private:
  struct peer {
    std::shared_ptr<connection> over;
    bool joined = false;
    session_id session;
  };

  void on_wake() override;
  void on_late(duration by) override;
  void step(const core::run_event& event);
  void apply(const core::run_effects& effects);
  void cut_off_who_does_not_read();
  void arm();

  time_point began_;
  time_point sweep_;
  std::optional<core::run> run_;
  std::map<connection_id, peer> peers_;
  std::map<connection_id, session_id> sessions_;
  bool closed_seen_ = false;
};

}  // namespace ddprun::simulation
