#include "rendezvous/core/agent/round_here.hpp"

#include "rendezvous/base/error.hpp"

#include <utility>

namespace ddprun::core {

bool round_here::is_leader() const {
  return phase_ == member_phase::preparing || (place_ && place_->slot == 0);
}

void round_here::prepare(std::uint32_t group_world_size) {
  DDPRUN_ASSERT(phase_ == member_phase::joined);
  phase_ = member_phase::preparing;
  group_world_size_ = group_world_size;
  has_service_ = true;
}

void round_here::open_service(std::uint16_t service_port, std::uint16_t master_port,
                              nccl_unique_ids nccl) {
  DDPRUN_ASSERT(phase_ == member_phase::preparing && has_service_);
  service_port_ = service_port;
  master_port_ = master_port;
  nccl_ = std::move(nccl);
  if (nccl_.first.size() > nccl_ids_max) nccl_.first.resize(nccl_ids_max);
}

void round_here::lose_service() {
  has_service_ = false;
  service_port_ = 0;
}

bool round_here::close_service() {
  if (!has_service_) return false;
  lose_service();
  master_port_ = 0;
  nccl_ = {};
  return true;
}

void round_here::take_place(const assignment& value, machine_time now) {
  DDPRUN_ASSERT(phase_ == member_phase::joined || phase_ == member_phase::preparing);
  phase_ = member_phase::assigned;
  place_ = value;
  group_world_size_ = value.group_world_size;
  began_ = now;
}

void round_here::start(std::uint32_t worker_count, machine_time now) {
  DDPRUN_ASSERT(phase_ == member_phase::assigned && place_);
  phase_ = member_phase::starting;
  workers.start(worker_count);
  ends.begin(now);
}

void round_here::run() {
  DDPRUN_ASSERT(phase_ == member_phase::starting);
  phase_ = member_phase::running;
}

void round_here::succeed() {
  DDPRUN_ASSERT(phase_ == member_phase::starting || phase_ == member_phase::running);
  DDPRUN_ASSERT(workers.living() == 0 && unclear.empty());
  phase_ = member_phase::succeeded;
  has_succeeded_ = true;
}

void round_here::fail(machine_time now) {
  DDPRUN_ASSERT(is_on());
  if (phase_ == member_phase::failed) return;
  phase_ = member_phase::failed;
  failed_at_ = now;
}

void round_here::stop() {
  DDPRUN_ASSERT(is_on());
  phase_ = member_phase::stopping;
}

void round_here::end() {
  DDPRUN_ASSERT(is_on() && !has_service_);
  DDPRUN_ASSERT(workers.living() == workers.unkillable());
  phase_ = member_phase::stopped;
}

void round_here::stay_out() {
  DDPRUN_ASSERT(has_nothing_on());
  phase_ = member_phase::stopped;
}

void round_here::tell(status& value) const {
  value.instance = instance_;
  value.round = number_;
  value.phase = phase_;
  value.service_port = service_port_;
  value.master_port = master_port_;
  value.nccl = nccl_;
  value.unkillable = workers.unkillable();
  value.succeeded = has_succeeded_ && phase_ == member_phase::stopped;
  if (place_ && workers.living() == 0) value.ends = ends.tell(place_->rank_first);
}

}  // namespace ddprun::core
