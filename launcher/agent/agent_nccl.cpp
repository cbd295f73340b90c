// NCCL's unique ids of the rounds that this node leads: asked for when a round is prepared, and
// told with its service.
#include "launcher/agent/agent.hpp"
#include "launcher/cli/check_files.hpp"
#include "launcher/nccl/id_count.hpp"
#include "launcher/nccl/round_ids.hpp"
#include "launcher/vault/node_vault.hpp"

#include <algorithm>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

// The ids were not asked for, and most workers do without: a Python that takes long to say where
// its NCCL is, or a program whose libraries are slow to read, must not hold up a round.
constexpr std::chrono::seconds automatic_limit{5};

}  // namespace

// In the background: the workers' NCCL is looked for and loaded while nodes gather.
void agent::start_nccl_helper() {
  if (options_.nccl_ids == nccl_id_mode::off) return;
  const bool is_automatic = options_.nccl_ids == nccl_id_mode::automatic;
  if (is_automatic && identity_.visible_gpus == 0) return;
  nccl_helper_options values;
  values.program = nccl_helper_program();
  if (is_automatic) {
    if (::access(values.program.c_str(), X_OK) != 0) return;
    values.limit = automatic_limit;
  }
  // The program is given as it is started: what it loads is looked for there, not on this thread.
  if (options_.no_python && !options_.run_path)
    values.arguments = {"--program=" + options_.program};
  else
    values.arguments = {"--python"};
  values.environment = to_entries(environment_);
  // Its own reason is to be heard before the round is given up for not having started.
  values.limit = std::min(values.limit, options_.settings.timing.start_timeout / 4);
  values.prefix = "[" + identity_.node + ":nccl-id] ";
  nccl_ = std::make_unique<nccl_helper>(
      context_.get_executor(), spawner_, mux_, std::move(values), [this](const std::string& how) {
        if (opening_) {  // nobody has been told of them yet
          opening_->data.reset();
          return take_nccl_ids(opening_->round, {{}, 0, {}, "it has ended: " + how});
        }
        say(note_level::warning,
            "ddprun-nccl-id, where workers meet that open an NCCL communicator with "
            "DDPRUN_NCCL_IDS, has ended (" +
                how + "): workers that have not joined yet will time out");
      });
  nccl_->warm_up();
}

void agent::make_nccl_ids(const core::open_service& wanted) {
  std::uint32_t count = nccl_id_count(wanted.world_size, environment_);
  // More are fetched from the job store; a store of the workers' own is not there yet.
  if (options_.settings.store == store_mode::worker)
    count = std::min<std::uint32_t>(count, nccl_ids_max);
  opening_ = round_opening{wanted.round, {}, {}, {}};
  nccl_->make(count, [this, round = wanted.round](const nccl_answer& answer) {
    take_nccl_ids(round, answer);
  });
}

void agent::drop_nccl_ids() {
  opening_.reset();
  if (nccl_) nccl_->let_go();
}

void agent::hear_service(const core::agent_event& event) {
  if (const auto* const failed = std::get_if<core::service_failed>(&event)) {
    // Its machine asks for no close of what is gone.
    if (!opening_ || opening_->round == failed->round) drop_nccl_ids();
  }
  const auto* const opened = std::get_if<core::service_opened>(&event);
  if (opened == nullptr) return feed(event);
  core::service_opened whole = *opened;
  if (!opening_ || opening_->round != opened->round) {
    whole.leader_data = vault_->given_by_leader(std::move(whole.leader_data));
    return feed(whole);
  }
  if (!opening_->data) return void(opening_->service = *opened);
  round_opening done = *std::exchange(opening_, std::nullopt);
  whole.leader_data = vault_->given_by_leader(*std::move(done.data));
  if (!done.for_store.empty()) service_->put(std::string(nccl_ids_key), std::move(done.for_store));
  feed(whole);
}

void agent::take_nccl_ids(round_number round, const nccl_answer& answer) {
  if (!opening_ || opening_->round != round) return;
  if (!answer.problem.empty()) {
    const std::string text = "ddprun-nccl-id: " + answer.problem;
    if (options_.nccl_ids == nccl_id_mode::on) {
      drop_nccl_ids();
      service_->close(round);
      return feed(core::service_failed{round, text});
    }
    say(note_level::warning, text +
                                 "; the workers get no DDPRUN_NCCL_IDS (--nccl-ids=off: "
                                 "none are made)");
  }
  if (answer.ids.size() > nccl_ids_max) opening_->for_store = nccl_ids_text(answer.ids);
  opening_->data = to_leader_data(answer.ids, answer.version, answer.address);
  if (const auto opened = std::exchange(opening_->service, std::nullopt)) hear_service(*opened);
}

}  // namespace ddprun::launcher
