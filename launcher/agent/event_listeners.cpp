#include "launcher/agent/event_listeners.hpp"

#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

// How long --on-event has for its last events.
constexpr auto command_limit_at_end = std::chrono::seconds(10);
constexpr auto trainer_limit_at_end = std::chrono::seconds(5);

}  // namespace

event_listeners::event_listeners(std::string run_id, std::string node,
                                 std::unique_ptr<hook_runner> command,
                                 std::unique_ptr<kubernetes::trainer_status> trainer)
    : run_id_(std::move(run_id)),
      node_(std::move(node)),
      trainer_(std::move(trainer)),
      command_(std::move(command)) {}

void event_listeners::tell(const run_event& event) {
  if (trainer_) trainer_->tell(event);
  if (!command_) return;
  std::string what(to_string(event.kind));
  if (event.kind != run_event_kind::ended) what += " of round " + std::to_string(event.round);
  command_->run({std::move(what), event_json(event, run_id_, node_)});
}

void event_listeners::finish(std::function<void()> done) {
  auto tell_trainer = [this, done = std::move(done)] {
    trainer_ ? trainer_->finish(trainer_limit_at_end, done) : done();
  };
  if (!command_) return tell_trainer();
  command_->finish(command_limit_at_end, std::move(tell_trainer));
}

}  // namespace ddprun::launcher
