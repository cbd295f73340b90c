// The port of a round's service: a new one each round, or the one that the person fixed; on all
// addresses that are asked for, of which a host without IPv6, or IPv4, may lack those of loopback.
//
// A fixed port is not closed between two rounds of the same leader, unless it is to be open on
// other addresses: another program could take it, and a worker of the new round could be refused.
// A peer that connects meanwhile belongs to the old round and is cut. A leader that does not lead
// again lets go of it, at the latest after `keep_limit`. A fixed port that is in use is tried again
// for `busy_limit`: the job before this one may be about to end, and a restart must not be spent on
// that. So is any port for which there are no descriptors.
//
// Thread rule: one thread, that of the executor. Handlers come from the loop, none after
// destruction.
#pragma once

#include "rendezvous/core/messages/types.hpp"
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
    std::function<void(const std::string& text)> trouble;  // one line for the person
  };

  // `fixed` 0: the kernel picks a port for each round.
  round_port(net::executor where, std::uint16_t fixed, net::keep_alive limits, handlers told);
  ~round_port() { close(); }
  round_port(const round_port&) = delete;
  round_port& operator=(const round_port&) = delete;

  // `addresses`: numeric; empty: all, IPv6 and IPv4.
  void open(std::vector<std::string> addresses);
  // The round is over.
  void pause();
  // This node leads no more.
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
  boost::asio::steady_timer timer_;  // of the next try, or of keeping
  std::shared_ptr<std::uint64_t> turns_ = std::make_shared<std::uint64_t>(0);
  std::int64_t tries_left_ = 0;
  std::uint16_t kept_ = 0;
  bool serving_ = false;
};

}  // namespace ddprun::launcher
