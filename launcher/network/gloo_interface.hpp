// Which network interface Gloo is told to use (GLOO_SOCKET_IFNAME), where it would choose a wrong
// one.
//
// Left alone, Gloo publishes the address that the host's own name resolves to. On hosts without a
// name service, where two hosts have one name, and where /etc/hosts says 127.0.1.1 (Debian), the
// others cannot reach that: then it is to be the interface by which this node reaches the others.
//
// Thread rule: one thread, that of the executor. The name is looked up on a thread of its own.
#pragma once

#include "rendezvous/net/resolve.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

// Why the others do not reach this host by what its name resolves to: "is not known", "is 127.0.1.1
// to it", "is 10.0.0.9, another host's, to it". Empty: they do. Of several addresses Gloo takes the
// first that is this host's.
std::string name_problem(const net::endpoints& found);

class gloo_interface {
 public:
  struct choice {
    std::string name;  // "eth0"
    std::string why;   // a sentence
  };

  explicit gloo_interface(net::executor executor) : resolver_(std::move(executor)) {}

  void look_up();

  // `own`: numeric addresses of this node that others may reach, the likeliest first. None: Gloo
  // needs no help, or there is none. A name that has no answer yet counts as unknown.
  std::optional<choice> choose(const std::vector<std::string>& own) const;

 private:
  net::resolver resolver_;
  std::string problem_ = "has no answer yet";
};

}  // namespace ddprun::launcher
