// The agent's side of `ddprun -H`: a ddprun that another host's has started over ssh. It takes its
// order from standard input, becomes what that says, and tells how it has ended.
//
// Thread rule: the main thread, before any other exists.
#pragma once

#include "launcher/hosts/ssh/agent_end.hpp"
#include "launcher/hosts/ssh/lifeline.hpp"
#include "launcher/hosts/ssh/order.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <optional>
#include <string>

namespace ddprun::launcher::ssh {

// The hidden first argument; the second one is the magic word that begins its lines.
inline constexpr const char* ordered_argument = "--ddprun-ordered";

class ordered_agent {
 public:
  // None: the arguments do not ask for it.
  static std::optional<ordered_agent> from_arguments(int argc, char** argv);

  // Says that it is there, reads the order, and makes directory and environment what it says; then
  // standard input is the null device. False: there was none, or it cannot be carried out, which
  // was said on standard error.
  bool take_order();
  const std::vector<std::string>& words() const { return order_.words; }

  // The command line is right: from here on the head's end is this process's, too. After the fork
  // of the guardian.
  void begin(leaving_patience patience);
  // What the last word will say beside the code; that the run is over, where nothing is said.
  void leaves_because(core::leave_reason why) { why_ = why; }
  // The last word.
  void end(int code) const;

 private:
  explicit ordered_agent(std::string magic) : magic_(std::move(magic)) {}

  std::string magic_;
  order order_;
  core::leave_reason why_ = core::leave_reason::run_over;
  unique_fd from_head_;
};

}  // namespace ddprun::launcher::ssh
