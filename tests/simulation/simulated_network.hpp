// The simulated network: TCP connections as two processes see them, over links that delay, break,
// go silent in one direction or both, and forget connections.
//
// A message that was sent is in flight, then in the receiver's kernel, then read. As long as fewer
// than `window` messages are unread, it is sent at once; otherwise it waits in the sender's outbox,
// where the newest state replaces an older one. A break loses any suffix of what is in flight in
// each direction; each end may notice it or not (half-open). A silent link holds what is sent until
// it heals.
#pragma once

#include "tests/simulation/process.hpp"
#include "tests/simulation/random_source.hpp"
#include "tests/simulation/transport.hpp"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace ddprun::simulation {

struct connection : std::enable_shared_from_this<connection> {
  struct endpoint {
    process* owner = nullptr;
    host_id host = 0;
    bool open = true;        // the process still holds it
    bool forgotten = false;  // the kernel no longer knows it, and answers what arrives with a reset
    bool closing = false;    // flush, then FIN
    std::deque<parcel> outbox;
    moment stuck_since{};
    std::size_t unread = 0;  // sent by this end, at the other
    std::uint64_t sent = 0;
    std::uint64_t lost_from = ~0ULL;  // of what this end sent
    std::uint64_t arrived = 0;
    moment last_arrival{};
    std::deque<parcel> held;                // sent by this end, kept back by a silent link
    std::map<std::uint64_t, parcel> early;  // sent by this end, overtook what a link held
  };
  std::uint64_t id = 0;
  std::array<endpoint, 2> ends;
  std::size_t window = 16;
};

class network {
 public:
  network(world& in, random_source random) : world_(in), random_(random) {}

  void listen(process& by, host_id host, std::uint16_t port);
  void stop_listening(host_id host, std::uint16_t port);
  bool is_taken(host_id host, std::uint16_t port) const;
  // Leads to on_dialed or on_dial_failed of `from`, with the number that this returns.
  std::uint64_t dial(process& from, const std::string& address, std::uint16_t port);
  void forget_dial(std::uint64_t dial) { dials_.erase(dial); }

  void send(connection& over, int end, payload message);
  // Sends what is queued, then FIN. The process that closes gets no more events.
  void close(connection& which, int end);
  // The kernel closes all sockets of a dead process, with FINs, or with resets that lose a suffix.
  void process_died(process& who, bool host_lost_power);

  // Faults.
  void break_connection(connection& which, bool both_hear = false);
  void set_silent(host_id from, host_id to, bool silent);
  void heal_links();       // and all islands are one
  void islands_changed();  // after the world moved hosts between islands
  bool reachable(host_id from, host_id to) const;
  bool any_silent() const { return !silent_.empty(); }

  std::uint64_t messages() const { return messages_; }
  std::uint64_t bytes() const { return bytes_; }
  void set_delays(duration least, duration most) { delay_least_ = least, delay_most_ = most; }

 private:
  struct pending_dial {
    process* from = nullptr;
    host_id to = 0;
    std::uint16_t port = 0;
    int attempt = 0;
  };

  duration delay();
  void attempt(std::uint64_t dial);
  void dial_failed(std::uint64_t dial, const std::string& text);
  void establish(std::uint64_t dial, process& listener);
  void transmit(connection& over, int end, parcel message);
  void arrive(const std::shared_ptr<connection>& over, int end, parcel message);
  void deliver(const std::shared_ptr<connection>& over, int end, parcel message);
  void pump(connection& over, int end);
  void reset(const std::shared_ptr<connection>& which, int end, const std::string& text);
  void release_held();

  world& world_;
  random_source random_;
  duration delay_least_ = std::chrono::microseconds(50);
  duration delay_most_ = std::chrono::milliseconds(10);
  std::map<std::pair<host_id, std::uint16_t>, process*> listeners_;
  std::map<std::uint64_t, pending_dial> dials_;
  std::set<std::pair<host_id, host_id>> silent_;
  std::map<std::uint64_t, std::weak_ptr<connection>> holding_;
  std::uint64_t dial_last_ = 0;
  std::uint64_t connection_last_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace ddprun::simulation
