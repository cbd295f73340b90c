// The agent's session with the daemon: whether there is one, which statuses were sent and
// acknowledged on it, and since when there has been none.
//
//   state                  becomes                by
//   apart                  connected              connected
//   connected              in a session           welcomed
//   in a session           confirmed              confirmed
//   any but apart          apart                  ended, hung_up; connected again
//
// A session is confirmed by the first usable ack or order after the welcome. One that ends before
// that is a failed try: a peer that sends a welcome and then nothing readable is dialled ever more
// slowly, and given up.
//
// Always: a session has a connection; what may still be acknowledged was sent on this connection.
// Numbers of statuses grow across connections.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/settings.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace ddprun::core {

class local_round;
class shutdown_state;

inline constexpr std::size_t unacked_statuses_max = 64;

class daemon_link {
 public:
  using moment = std::optional<time_point>;

  // The agent has started: from now on it is without a session.
  void start(machine_time now) { apart_since_ = now; }

  void connected(std::string own_address, machine_time now);
  void heard(machine_time now) { heard_ = now; }
  void welcomed();
  void confirmed();
  void failed(std::string text) { error_ = std::move(text); }
  // The connection ended, or could not be made. Returns how long to wait before the next try,
  // without the jitter.
  duration ended(machine_time now, duration reconnect_grace);
  // This side ends the connection for good.
  void hung_up();
  // Nothing keeps this node busy: the time without a confirmed session counts from now on, at the
  // earliest.
  void is_idle(machine_time now);

  // The next status is sent. Returns its number.
  std::uint64_t send_status(time_point now);
  // When the newest status that this ack covers was sent; none: it covers none that was asked
  // about.
  moment acked(std::uint64_t seq);
  // The acknowledged status was sent at `sent`.
  void renew_lease(time_point sent);

  bool is_connected() const { return is_connected_; }
  bool is_in_session() const { return is_in_session_; }
  bool was_in_session() const { return was_in_session_; }
  bool is_confirmed() const { return is_confirmed_; }
  bool was_confirmed() const { return was_confirmed_; }
  bool has_tried() const { return attempts_ > 0; }  // since the last confirmed session
  machine_time apart_since() const { return apart_since_; }
  // When the newest status that was acknowledged was sent: the lease counts from then.
  const moment& leased_from() const { return leased_from_; }
  const std::string& error() const { return error_; }
  const std::string& own_address() const { return own_address_; }

  moment status_due(duration heartbeat_interval) const;
  std::optional<machine_time> silence_deadline(duration limit) const;

 private:
  struct sent_status {
    std::uint64_t seq = 0;
    time_point at;
  };

  bool is_connected_ = false;
  bool is_in_session_ = false;
  bool was_in_session_ = false;  // ever
  bool is_confirmed_ = false;
  bool was_confirmed_ = false;  // ever
  machine_time apart_since_;    // without a confirmed session; counts towards join_timeout
  machine_time heard_;          // when the newest message came on this connection
  time_point status_at_;        // when the newest status was queued
  std::uint64_t status_seq_ = 0;
  std::deque<sent_status> unacked_;
  unsigned attempts_ = 0;
  std::string error_;  // the newest error of the system
  std::string own_address_;
  moment leased_from_;
};

// Whether this agent opens a daemon itself if none answers at `moment`.
bool may_host_at(const daemon_link& daemon, const shutdown_state& shutdown, const timers& timing,
                 machine_time moment);
// Whether a status is sent before the next heartbeat. `changed`: it differs from the last one.
bool has_news(const local_round& local, bool changed);
// When a node without a daemon gives up.
std::optional<time_point> join_deadline(const local_round& local, const daemon_link& daemon,
                                        const timers& timing, const machine_clock& clock);

}  // namespace ddprun::core
