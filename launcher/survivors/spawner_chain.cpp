#include "launcher/survivors/spawner_chain.hpp"

#include "rendezvous/base/counted.hpp"

#include <utility>

namespace ddprun::launcher::survivors {

spawner_chain::spawner_chain(boost::asio::any_io_executor executor, spawner& cold, guardian& guard,
                             log_mux& mux, wiring parts)
    : cold_(cold), worker_count_(parts.worker_count), say_(std::move(parts.say)) {
  if (parts.warm) {
    warm_ = std::make_unique<warm::warm_spawner>(
        executor, cold_, guard, mux, *std::move(parts.warm),
        [say = say_](const std::string& line) { say(note_level::info, line); });
    warm_->look_up(parts.like);
  }
  if (parts.address.empty()) return;
  survivor_options values;
  values.address = std::move(parts.address);
  survivor_spawner::events told;
  told.say = [say = say_](const std::string& line) { say(note_level::warning, line); };
  told.hangs = std::move(parts.hangs);
  survivors_ = std::make_unique<survivor_spawner>(executor, front(), guard, std::move(values),
                                                  std::move(told));
}

spawner_chain::~spawner_chain() {
  survivors_.reset();
  warm_.reset();
}

spawner& spawner_chain::front() {
  if (survivors_) return *survivors_;
  if (warm_) return *warm_;
  return cold_;
}

void spawner_chain::begin_round() {
  if (survivors_) survivors_->begin_round();
}

void spawner_chain::all_started() {
  if (!survivors_ || survivors_->stayed() == 0) return;
  say_(note_level::info, std::to_string(survivors_->stayed()) + " of " +
                             counted(worker_count_, "worker") +
                             " of this node lived on from the round before");
}

void spawner_chain::prepare_stop(const core::stop_workers& order) {
  if (!survivors_) return;
  if (!order.may_stay) return survivors_->nobody_stays();
  // The other half of the grace is for workers that have to get SIGTERM.
  survivors_->may_stay(order.grace / 2);
}

bool spawner_chain::kill_survivors() {
  if (!survivors_) return false;
  survivors_->kill_all();
  return true;
}

void spawner_chain::end_survivors(duration grace, std::function<void()> done) {
  if (!survivors_) return done();
  survivors_->end_all(grace, std::move(done));
}

}  // namespace ddprun::launcher::survivors
