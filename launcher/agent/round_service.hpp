// The round service is what the leader serves for one round: the job store to which the workers'
// PyTorch connects (TCPStore at MASTER_ADDR:MASTER_PORT), and the tethers of the other members.
//
// Both share one port, told apart by the first byte, so that only one port has to pass a firewall.
// In store mode `worker` the port is for tethers only, and rank 0 opens MASTER_PORT itself: it is
// picked outside the kernel's range of ephemeral ports. In the static rendezvous the port is the
// daemon's, which is in the leader's process and passes the round's connections on.
//
// Each round has a fresh keyspace, and a new port unless the user has fixed it. It listens where
// its clients come from (listen_addresses.hpp): those of a round of one node are on this host.
//
// Strangers cannot take the room of clients. As many connections may be idle from the start as the
// round's workers and members may need; with one more, the oldest is closed. Clients that have used
// the store stay. If only the descriptors of the agent and its workers are left
// (descriptor_needs.hpp), further connections are closed, with a line in the log.
//
// Thread rule: made and called by the main thread; sockets are on the socket thread, those of the
// store on the store's; events of core::agent are posted to the main thread.
#pragma once

#include "launcher/agent/socket_thread.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/net/net_types.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ddprun::launcher {

struct round_service_options {
  store_mode store = store_mode::agent;
  std::uint16_t master_port = 0;  // 0: a new one each round
  // The daemon in this process has master_port, and passes a round's connections on: see take_in.
  bool has_daemons_port = false;
  std::uint64_t seed = 0;         // where the search for a free port for rank 0 begins
  std::uint32_t own_workers = 0;  // of this node
  duration node_timeout = std::chrono::seconds(10);
  bool allows_other_users = false;  // of this host, as members
};

class round_service {
 public:
  using event_handler = std::function<void(core::agent_event event)>;
  using log_handler = std::function<void(note_level level, std::string text)>;

  // Both handlers are called on `main`, one event at a time, and not after destruction.
  round_service(boost::asio::any_io_executor main, socket_thread& thread,
                round_service_options options, event_handler happened, log_handler log);
  ~round_service();
  round_service(const round_service&) = delete;
  round_service& operator=(const round_service&) = delete;

  // Starts the store's thread before the first round needs it, but only if the socket thread runs
  // already: then this node holds the daemon, and will lead. open() tries again what fails.
  void warm_up();
  // Ends with service_opened or service_failed. An open round is closed first. `of_daemon`: how
  // many connections a daemon in this process may hold.
  void open(const core::open_service& wanted, std::size_t of_daemon);
  // A daemon with that many connections was opened in this process: an open round goes on with
  // fewer.
  void make_room(std::size_t of_daemon);
  // Takes the connections of tethers and store clients from another port, on the socket thread;
  // without an open round they are closed. May be called as long as that thread runs.
  std::function<void(net::tcp::socket socket)> take_in() const;
  // Stores it in the job store of the open round; does nothing without one.
  void put(std::string key, std::string value);
  // The workers are gone: pending answers are sent, then the connections are closed.
  void close(round_number round);
  // Another node leads the next round: a fixed port is not kept for a later round of this node.
  void let_go_of_port();
  // Calls `done` on the main thread when no closed round lingers, at once if so. The store's thread
  // ends with that.
  void when_closed(std::function<void()> done);

  void answer(std::uint64_t tether, std::uint64_t seq);
  void refuse(std::uint64_t tether, std::string text);
  void drop_members();

 private:
  struct state;
  socket_thread& thread_;
  std::shared_ptr<state> state_;
};

}  // namespace ddprun::launcher
