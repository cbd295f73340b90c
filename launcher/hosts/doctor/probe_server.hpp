// A probe server answers the other nodes of a doctor's meeting at a few random ports of this node,
// as NCCL and Gloo would use them (probe_protocol.hpp).
//
// Strangers do no harm: a peer that is silent for `silence_max`, or sends anything but a greeting,
// is closed. With `guests_max` peers, the oldest without a greeting is closed, otherwise the new
// one.
//
// Thread rule: created and destroyed by one thread; it answers on a thread of its own.
#pragma once

#include "launcher/agent/socket_thread.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/net/listener.hpp"

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

class probe_server {
 public:
  struct limits {
    duration silence_max = std::chrono::seconds(10);
    std::size_t guests_max = 1000;
  };

  explicit probe_server(std::string token) : probe_server(std::move(token), limits()) {}
  probe_server(std::string token, limits bounds);
  ~probe_server();
  probe_server(const probe_server&) = delete;
  probe_server& operator=(const probe_server&) = delete;

  // Listens on `count` ports of all interfaces that the kernel picks. False: `problem` says why
  // not.
  bool start(std::size_t count, std::string& problem);
  const std::vector<std::uint16_t>& ports() const { return ports_; }

 private:
  struct guest;

  void accept(net::tcp::socket socket);
  void read(const std::shared_ptr<guest>& who);
  void write(const std::shared_ptr<guest>& who);
  void end(const std::shared_ptr<guest>& who);
  bool make_room();

  const std::string token_;
  const limits limits_;
  std::vector<std::uint16_t> ports_;
  socket_thread thread_;
  std::list<net::listener> listeners_;
  std::list<std::shared_ptr<guest>> guests_;  // the oldest first; used on the thread only
};

}  // namespace ddprun::launcher::doctor
