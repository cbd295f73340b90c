#include "launcher/vault/node_vault.hpp"

#include "launcher/vault/leader_mark.hpp"

#include <utility>

namespace ddprun::launcher::vault {

node_vault::node_vault(boost::asio::any_io_executor executor, wiring parts)
    : parts_(std::move(parts)), saying_(executor) {
  if (parts_.wanted.disk.empty()) return;
  keeper::wiring given;
  given.wanted = parts_.wanted;
  given.mark = parts_.mark;
  given.memory_left = parts_.memory_left;
  given.say = parts_.say;
  given.restoring = [this](std::uint64_t bytes) {
    if (awaited_) parts_.restoring(*awaited_, bytes);
  };
  keeper_ = std::make_unique<keeper>(executor, std::move(given));
}

node_vault::~node_vault() = default;

// If the nodes share entries, every node has to know it.
leader_data node_vault::given_by_leader(leader_data data) const {
  const bool is_told = is_of_nodes() && parts_.store == store_mode::agent;
  return is_told ? with_mark(std::move(data)) : data;
}

void node_vault::prepare(const core::start_workers& round, const std::string& store_address,
                         std::function<void()> ready) {
  if (!keeper_) {
    say_without(round, store_address);
    return ready();
  }
  awaited_ = round.round;
  keeper_->prepare(place(round, store_address),
                   [this, ready = std::move(ready)](const std::string& folder) {
                     awaited_.reset();
                     folder_ = folder;
                     ready();
                   });
}

// Runs in the background: the workers do not wait for it.
void node_vault::say_without(const core::start_workers& round, const std::string& store_address) {
  leader_data given = round.assignment.leader_data;
  if (!take_mark(given)) return;
  if (!std::exchange(is_told_, true)) {
    parts_.say(note_level::info,
               "vault: other nodes of this job have one; this node has no --vault, and its workers "
               "get no DDPRUN_VAULT");
  }
  saying_.start([here = place(round, store_address)] { return say_without_vault(here); },
                [](std::optional<bool>) {});
}

round_place node_vault::place(const core::start_workers& round,
                              const std::string& store_address) const {
  const assignment& assigned = round.assignment;
  round_place here;
  here.group_rank = assigned.group_rank;
  here.is_together = is_of_nodes();
  leader_data given = assigned.leader_data;
  here.has_leader_vault = take_mark(given) || here.group_rank == 0;
  here.nodes = assigned.group_world_size;
  here.round = round.round;
  if (here.is_together)
    here.from = {std::to_string(round.instance) + "." + std::to_string(round.round), here.nodes};
  here.store_address = store_address;
  if (parts_.store == store_mode::agent) here.store_port = assigned.master_port;
  here.own_address = parts_.own_address(store_address);
  return here;
}

bool node_vault::stop_preparing(round_number round) {
  if (awaited_ != round) return false;
  awaited_.reset();
  keeper_->give_up();
  return true;
}

void node_vault::judge(const round_report& report) {
  if (!keeper_ || !report.root_cause) return;
  const cause_class kind = report.root_cause->kind;
  if (kind == cause_class::exit || kind == cause_class::signal || kind == cause_class::hung)
    keeper_->round_failed();
}

void node_vault::save_now() {
  if (keeper_) keeper_->save_now();
}

void node_vault::finish(bool ends_well, std::function<void()> done) {
  if (!keeper_) return done();
  keeper_->finish(ends_well, std::move(done));
}

}  // namespace ddprun::launcher::vault
