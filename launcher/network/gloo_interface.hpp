// Chooses the network interface for Gloo (GLOO_SOCKET_IFNAME) if Gloo would choose a wrong one.
//
// By default, Gloo publishes the address that the host's own name resolves to. The others cannot
// reach it on hosts without a name service, if two hosts have the same name, or if /etc/hosts maps
// the name to 127.0.1.1 (Debian). Then the interface is used by which this node reaches the others.
//
// Thread rule: one thread, that of the executor. The name is looked up on a thread of its own.
#pragma once

#include "rendezvous/net/resolve.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

// Why others cannot reach this host by its name's address: "is not known", "is 127.0.1.1 to it",
// "is 10.0.0.9, another host's, to it". Empty: they can. Of several addresses, Gloo takes the first
// that is this host's.
std::string name_problem(const net::endpoints& found);

class gloo_interface {
 public:
  struct choice {
    std::string name;  // "eth0"
    std::string why;   // a sentence
  };

  explicit gloo_interface(net::executor executor) : resolver_(std::move(executor)) {}

  void look_up();

  // `own`: numeric addresses of this node that others may reach, the likeliest first. Empty result:
  // Gloo needs no help, or there is no such interface. A name that is not resolved yet counts as
  // unknown.
  std::optional<choice> choose(const std::vector<std::string>& own) const;

 private:
  net::resolver resolver_;
  std::string problem_ = "has no answer yet";
};

}  // namespace ddprun::launcher
