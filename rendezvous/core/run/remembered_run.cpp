#include "rendezvous/core/run/remembered_run.hpp"

#include "rendezvous/base/error.hpp"

namespace ddprun::core {

std::optional<machine_time> remembered_run::living_until(std::uint32_t nodes_here) const {
  if (!record_ || nodes_here >= record_->nodes) return std::nullopt;
  return since_ + record_->gone_after;
}

machine_time remembered_run::lost_at() const {
  DDPRUN_ASSERT(record_);
  return since_ + record_->lost_after;
}

}  // namespace ddprun::core
