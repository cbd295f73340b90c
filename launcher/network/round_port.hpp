// The port of a round's service: a new one for each round, or the one that the user fixed, on all
// wanted addresses. A host without IPv6 or IPv4 may lack the loopback addresses.
//
// A fixed port stays open between two rounds of the same leader, unless the addresses change:
// otherwise another program could take it, or a worker of the new round could be refused. A peer
// that connects in between belongs to the old round and is disconnected. A leader that does not
// lead again closes it after at most `keep_limit`. A fixed port that is in use is tried again for
// `busy_limit`, because the previous job may be about to end, and a restart must not be spent on
// that. So is any port if descriptors run short.
//
// Thread rule: one thread, that of the executor. Handlers are called from the loop, and not after
// destruction.
#pragma once

#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/net/listener.hpp"

#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::launcher {

class round_port {
 public:
  static constexpr std::chrono::seconds keep_limit{10};
  static constexpr std::chrono::seconds busy_limit{3};
  static constexpr std::chrono::milliseconds pause_between_tries{100};

  struct handlers {
    // Called once for each open(): the port, or 0 and one line that says what is wrong.
    std::function<void(std::uint16_t port, const std::string& problem)> opened;
    std::function<void(net::tcp::socket socket)> accepted;
    std::function<void(const std::string& text)> trouble;  // one line for the user
  };

  // If `fixed` is 0, the kernel picks a port for each round.
  round_port(net::executor where, std::uint16_t fixed, net::keep_alive limits, handlers told);
  ~round_port() { close(); }
  round_port(const round_port&) = delete;
  round_port& operator=(const round_port&) = delete;

  // `addresses`: numeric; empty: all, IPv6 and IPv4.
  void open(std::vector<std::string> addresses);
  // The round has ended.
  void pause();
  // This node no longer leads.
  void close();

 private:
  void try_to_open();
  result<std::uint16_t> listen(std::string& problem);
  result<std::uint16_t> listen_on_all_of_them(std::uint16_t number, std::string& problem);
  void opened(std::uint16_t port);
  void after(duration time, std::function<void()> what);
  void forget_timer();

  const std::uint16_t fixed_;
  const net::keep_alive keep_alive_;
  handlers handlers_;
  const net::executor where_;
  std::vector<std::string> addresses_ = {};
  std::list<net::listener> listeners_ = {};
  boost::asio::steady_timer timer_;  // for the next try, or for closing an unused port
  std::shared_ptr<std::uint64_t> turns_ = std::make_shared<std::uint64_t>(0);
  std::int64_t tries_left_ = 0;
  std::uint16_t kept_ = 0;
  bool serving_ = false;
};

}  // namespace ddprun::launcher
