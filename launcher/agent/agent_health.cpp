// The checks of this node between rounds.
#include "launcher/agent/agent.hpp"

#include <memory>
#include <utility>

namespace ddprun::launcher {

void agent::start_health() {
  if (!options_.checks_node && options_.health.command.empty()) return;
  std::unique_ptr<hook_runner> command;
  if (!options_.health.command.empty())
    command = make_hook("health-check", options_.health.command, options_.health.limit);
  node_health_ = std::make_unique<node_health>(
      context_.get_executor(), options_.health, std::move(command),
      options_.checks_node ? identity_.look_at_health : nullptr,
      [this](round_number round, const std::string& unhealthy) { hear_health(round, unhealthy); });
}

void agent::hear_health(round_number round, const std::string& unhealthy) {
  if (unhealthy != told_health_) {
    if (unhealthy.empty()) {
      say(note_level::info, "this node is healthy again: its health check passes");
    } else {
      say(note_level::warning, "this node is unhealthy: " + unhealthy);
    }
    told_health_ = unhealthy;
  }
  feed(core::node_checked{round, unhealthy});
}

void agent::apply(const core::check_node& effect) {
  node_health_->check(effect.round);
}

}  // namespace ddprun::launcher
