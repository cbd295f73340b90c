#include "launcher/nccl/nccl_opening.hpp"

#include "launcher/cli/check_files.hpp"
#include "launcher/nccl/id_count.hpp"
#include "launcher/nccl/round_ids.hpp"

#include <algorithm>
#include <chrono>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {
namespace {

// In automatic mode nobody asked for ids, and most workers do without. A Python that takes long to
// find its NCCL, or a program whose libraries load slowly, must not delay a round.
constexpr std::chrono::seconds automatic_limit{5};

}  // namespace

std::optional<nccl_helper_options> wanted_nccl_helper(const launch_options& options,
                                                      const std::string& node,
                                                      std::uint32_t visible_gpus,
                                                      const environment_map& environment) {
  if (options.nccl_ids == nccl_id_mode::off) return std::nullopt;
  const bool is_automatic = options.nccl_ids == nccl_id_mode::automatic;
  if (is_automatic && visible_gpus == 0) return std::nullopt;
  nccl_helper_options values;
  values.program = nccl_helper_program();
  if (is_automatic) {
    if (::access(values.program.c_str(), X_OK) != 0) return std::nullopt;
    values.limit = automatic_limit;
  }
  // The program is passed as it is: the helper looks for its libraries, not this thread.
  if (options.no_python && !options.run_path)
    values.arguments = {"--program=" + options.program};
  else
    values.arguments = {"--python"};
  values.environment = to_entries(environment);
  // The helper's own reason has to arrive before the round is given up as not started.
  values.limit = std::min(values.limit, options.settings.timing.start_timeout / 4);
  values.prefix = "[" + node + ":nccl-id] ";
  return values;
}

// Starts the helper in the background: it finds and loads the workers' NCCL while nodes gather.
nccl_opening::nccl_opening(boost::asio::any_io_executor executor, spawner& spawn, log_mux& mux,
                           nccl_helper_options helper, bool is_required, store_mode store,
                           environment_map environment, outside with)
    : outside_(std::move(with)),
      is_required_(is_required),
      store_(store),
      environment_(std::move(environment)),
      helper_(executor, spawn, mux, std::move(helper), [this](const std::string& how) {
        if (opening_) {  // the ids were not handed out yet
          opening_->data.reset();
          return take(opening_->round, {{}, 0, {}, "it has ended: " + how});
        }
        outside_.say(note_level::warning,
                     "ddprun-nccl-id, where workers meet that open an NCCL communicator with "
                     "DDPRUN_NCCL_IDS, has ended (" +
                         how + "): workers that have not joined yet will time out");
      }) {
  helper_.warm_up();
}

nccl_opening::~nccl_opening() = default;

void nccl_opening::make(const core::open_service& wanted) {
  std::uint32_t count = nccl_id_count(wanted.world_size, environment_);
  // More ids are fetched from the job store, but a store of the workers does not exist yet.
  if (store_ == store_mode::worker) count = std::min<std::uint32_t>(count, nccl_ids_max);
  opening_ = opening{wanted.round, {}, {}, {}};
  helper_.make(count,
               [this, round = wanted.round](const nccl_answer& answer) { take(round, answer); });
}

void nccl_opening::drop() {
  opening_.reset();
  helper_.let_go();
}

void nccl_opening::hear(const core::agent_event& event) {
  if (const auto* const failed = std::get_if<core::service_failed>(&event)) {
    // The agent's machine does not ask to close a service that has failed.
    if (!opening_ || opening_->round == failed->round) drop();
  }
  const auto* const opened = std::get_if<core::service_opened>(&event);
  if (opened == nullptr || !opening_ || opening_->round != opened->round)
    return outside_.tell(event);
  if (!opening_->data) return void(opening_->service = *opened);
  core::service_opened whole = *opened;
  opening done = *std::exchange(opening_, std::nullopt);
  whole.leader_data = *std::move(done.data);
  if (!done.for_store.empty()) outside_.put(std::move(done.for_store));
  outside_.tell(std::move(whole));
}

void nccl_opening::take(round_number round, const nccl_answer& answer) {
  if (!opening_ || opening_->round != round) return;
  if (!answer.problem.empty()) {
    const std::string text = "ddprun-nccl-id: " + answer.problem;
    if (is_required_) {
      drop();
      outside_.close(round);
      return outside_.tell(core::service_failed{round, text});
    }
    outside_.say(note_level::warning, text +
                                          "; the workers get no DDPRUN_NCCL_IDS (--nccl-ids=off: "
                                          "none are made)");
  }
  if (answer.ids.size() > nccl_ids_max) opening_->for_store = nccl_ids_text(answer.ids);
  opening_->data = to_leader_data(answer.ids, answer.version, answer.address);
  if (const auto opened = std::exchange(opening_->service, std::nullopt)) hear(*opened);
}

}  // namespace ddprun::launcher
