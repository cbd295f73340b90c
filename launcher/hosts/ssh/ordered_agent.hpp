// The agent's side of `ddprun -H`: a ddprun that another host's ddprun has started over ssh. It
// takes its order from standard input, carries it out, and reports how it has ended.
//
// Thread rule: the main thread, before any other exists.
#pragma once

#include "launcher/hosts/ssh/agent_end.hpp"
#include "launcher/hosts/ssh/order.hpp"
#include "launcher/hosts/ssh/ssh_lifeline.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <optional>
#include <string>

namespace ddprun::launcher::ssh {

// The hidden first argument. The second one is the magic word that begins the agent's lines.
inline constexpr const char* ordered_argument = "--ddprun-ordered";

class ordered_agent {
 public:
  // None: the arguments are not those of an ordered agent.
  static std::optional<ordered_agent> from_arguments(int argc, char** argv);

  // Announces itself, reads the order and applies its directory and variables. Standard input is
  // the null device afterwards. False: there was no order or it cannot be carried out; standard
  // error says why.
  bool take_order();
  const std::vector<std::string>& words() const { return order_.words; }

  // Called when the command line is known to be right. From here on this process ends with the
  // head. Call it after the guardian's fork, because it starts a thread.
  void begin(leaving_patience patience);
  // Sets the reason in the last word. Default: the run is over.
  void leaves_because(core::leave_reason why) { why_ = why; }
  // Sends the last word.
  void end(int code) const;

 private:
  explicit ordered_agent(std::string magic) : magic_(std::move(magic)) {}

  std::string magic_;
  order order_;
  core::leave_reason why_ = core::leave_reason::run_over;
  unique_fd from_head_;
};

}  // namespace ddprun::launcher::ssh
