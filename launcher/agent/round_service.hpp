// The round service is what the leader serves for one round: the job store to which the workers'
// PyTorch connects (TCPStore at MASTER_ADDR:MASTER_PORT), and the tethers of the other members.
//
// Both share one port, told apart by the first byte, so that one port has to pass a firewall. In
// store mode `worker` the port is for tethers alone, and MASTER_PORT is another one that rank 0
// will open itself: it is picked outside the range from which the kernel gives ports away. In the
// static rendezvous the port is the daemon's, which is in the leader's process and hands on what
// comes for the round.
// Each round has a fresh keyspace, and a new port unless the person fixed it. It listens where its
// clients come (listen_addresses.hpp): those of a round of one node are on this host.
//
// Strangers get no more room than there is. Of connections that have asked for nothing there are as
// many as the round's workers and members may need; with one more the oldest goes. Clients that
// have used the store stay; when descriptors are left only for the agent and its workers
// (descriptor_needs.hpp), whoever comes next is closed, with a line in the log.
//
// Thread rule: made and called by the main thread; sockets live on the socket thread, those of the
// store on the store's; what happens is posted to the main thread as events of core::agent.
#pragma once

#include "launcher/agent/socket_thread.hpp"
#include "rendezvous/core/agent/agent.hpp"
#include "rendezvous/core/messages/types.hpp"
#include "rendezvous/net/types.hpp"

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
  // The daemon in this process has master_port, and hands on what comes for a round: see take_in.
  bool has_daemons_port = false;
  std::uint64_t seed = 0;         // where to begin to look for a port of the workers' own
  std::uint32_t own_workers = 0;  // of this node
  duration node_timeout = std::chrono::seconds(10);
  bool allows_other_users = false;  // of this host, to hang on this node
};

class round_service {
 public:
  using event_handler = std::function<void(core::agent_event event)>;
  using log_handler = std::function<void(note_level level, std::string text)>;

  // Both handlers are called on `main`, one event at a time; the destructor ends that.
  round_service(boost::asio::any_io_executor main, socket_thread& thread,
                round_service_options options, event_handler happened, log_handler log);
  ~round_service();
  round_service(const round_service&) = delete;
  round_service& operator=(const round_service&) = delete;

  // Starts the store's thread before the first round needs it. Only where the socket thread runs
  // already: this node holds the daemon, and will lead. What fails is tried again in open().
  void warm_up();
  // Ends with service_opened or service_failed. A round that is still open is closed first.
  // `of_daemon`: how many connections a daemon in this process may hold.
  void open(const core::open_service& wanted, std::size_t of_daemon);
  // A daemon was opened in this process that may hold so many: an open round goes on with fewer.
  void make_room(std::size_t of_daemon);
  // Takes tethers and the store's clients from another port, on the socket thread. While no round
  // is open they are closed. It may be called for as long as that thread runs.
  std::function<void(net::tcp::socket socket)> take_in() const;
  // In the job store of the round that is open; nothing without one.
  void put(std::string key, std::string value);
  // The workers are gone: what they are owed is sent, then their connections end.
  void close(round_number round);
  // Another node leads the next round; a fixed port is kept for no round of this one.
  void let_go_of_port();
  // Calls `done` on the main thread when nothing of a closed round lingers, at once if so. The
  // store's thread ends with that.
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
