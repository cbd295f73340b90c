// The vault of this node, where --vault asks for one.
#include "launcher/agent/agent.hpp"
#include "launcher/hosts/doctor/limits.hpp"
#include "launcher/network/own_addresses.hpp"
#include "launcher/vault/keeper.hpp"
#include "launcher/vault/leader_mark.hpp"
#include "rendezvous/net/resolve.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace ddprun::launcher {
namespace {

// For a look at the node's memory; other limits, which are of no interest here, may hang longer.
constexpr auto look_limit = std::chrono::seconds(1);

}  // namespace

void agent::start_vault() {
  if (options_.vault.disk.empty()) return;
  vault::keeper::wiring parts;
  parts.wanted = options_.vault;
  parts.mark = identity_.mark;
  parts.memory_left = [environment = environment_] {
    return doctor::read_limits("/", environment, look_limit).memory_left;
  };
  parts.say = [this](note_level level, const std::string& text) { say(level, text); };
  parts.restoring = [this](std::uint64_t bytes) {
    if (waits_for_vault_) feed(core::workers_restoring{*waits_for_vault_, bytes});
  };
  vault_ = std::make_unique<vault::keeper>(context_.get_executor(), std::move(parts));
}

// Nodes keep copies for each other, and all resume from one entry.
bool agent::has_vault_of_nodes() const {
  return vault_ && options_.settings.nodes_max > 1;
}

void agent::tell_opened(core::service_opened opened) {
  if (has_vault_of_nodes() && options_.settings.store == store_mode::agent)
    opened.leader_data = vault::with_mark(std::move(opened.leader_data));
  feed(opened);
}

// The workers do not wait for that.
void agent::say_no_vault(const core::start_workers& effect) {
  leader_data given = effect.assignment.leader_data;
  if (!vault::take_mark(given)) return;
  if (!std::exchange(has_told_no_vault_, true)) {
    say(note_level::info,
        "vault: other nodes of this job have one; this node has no --vault, and its workers get "
        "no DDPRUN_VAULT");
  }
  without_vault_.start([here = vault_place(effect)] { return vault::say_without_vault(here); },
                       [](std::optional<bool>) {});
}

// Other nodes find this one where the leader finds it.
vault::round_place agent::vault_place(const core::start_workers& effect) const {
  const assignment& assigned = effect.assignment;
  vault::round_place here;
  here.group_rank = assigned.group_rank;
  here.is_together = has_vault_of_nodes();
  leader_data given = assigned.leader_data;
  here.has_leader_vault = vault::take_mark(given) || here.group_rank == 0;
  here.nodes = assigned.group_world_size;
  here.round = effect.round;
  if (here.is_together)
    here.from = {std::to_string(effect.instance) + "." + std::to_string(effect.round), here.nodes};
  here.store_address = as_seen_here(assigned.master_address);
  if (options_.settings.store == store_mode::agent) here.store_port = assigned.master_port;
  here.own_address = options_.local_address.empty() ? own_address_ : options_.local_address;
  if (const auto leader = net::numeric_address(here.store_address)) {
    const auto own = own_address_towards(*leader);
    if (own && options_.local_address.empty()) here.own_address = own->to_string();
  }
  return here;
}

// What has to be put back from a disk takes its time, in which the agent goes on answering.
void agent::prepare_vault(const core::start_workers& effect) {
  waits_for_vault_ = effect.round;
  vault_->prepare(vault_place(effect), [this, effect](const std::string& folder) {
    waits_for_vault_.reset();
    vault_folder_ = folder;
    if (!exit_code_) begin_workers(effect);
  });
}

// No worker of that round was started yet, and none is.
bool agent::stops_preparing(round_number round) {
  if (waits_for_vault_ != round) return false;
  waits_for_vault_.reset();
  vault_->give_up();
  boost::asio::post(context_, [this, round] {
    for (std::uint32_t local_rank = 0; local_rank < identity_.worker_count; ++local_rank)
      worker_never_started(round, local_rank);
  });
  return true;
}

// What had nothing to do with what the workers went on from is not held against that.
void agent::judge_vault(const round_report& report) {
  if (!vault_ || !report.root_cause) return;
  const cause_class kind = report.root_cause->kind;
  if (kind == cause_class::exit || kind == cause_class::signal || kind == cause_class::hung)
    vault_->round_failed();
}

void agent::save_vault() {
  if (vault_) vault_->save_now();
}

void agent::finish_vault(std::function<void()> done) {
  if (!vault_) return done();
  const bool ends_well = exit_code_ == 0 && why_it_left_ == core::leave_reason::run_over;
  vault_->finish(ends_well, std::move(done));
}

}  // namespace ddprun::launcher
