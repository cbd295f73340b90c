#include "worker/snapshot/snapshots.hpp"

#include "worker/snapshot/emergency.hpp"
#include "worker/snapshot/opening.hpp"
#include "worker/snapshot/resume.hpp"
#include "worker/snapshot/saver.hpp"
#include "worker/snapshot/shares.hpp"
#include "worker/snapshot/staging_buffer.hpp"
#include "worker/snapshot/vault_tier.hpp"
#include "worker/stop_word.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::worker {

namespace {

constexpr std::chrono::seconds abort_word_limit{3};

std::unique_ptr<vault_tier> vault_for(const environment& here, const snapshots_options& options) {
  if (!options.uses_vault) return nullptr;
  return std::make_unique<vault_tier>(
      here,
      vault_options{options.files, options.vault ? *options.vault : vault_of_node(), options.folder,
                    options.vault_keep, static_cast<bool>(options.broadcast)});
}

// Rank 0: why what is in the vault does not count.
void tell_of_vault(const vault_tier& vault, const snapshots_options& options,
                   const std::optional<resumed_snapshot>& from) {
  if (!vault.is_used()) {
    options.on_message("no vault for the snapshots in " + options.folder + ": " + vault.why_not());
  }
  const auto& left_out = vault.left_out();
  if (!left_out) return;
  if (from && left_out->order <= snapshot_order{from->info.generation, from->info.step}) return;
  options.on_message("snapshot " + vault.path(left_out->order) +
                     " in the vault is not taken: " + left_out->why);
}

// A single writer is wanted where other ranks may have anything: all that is replicated is rank
// 0's.
std::vector<std::string> names_of_rank_0s(const snapshot_part& replicated, bool is_all) {
  std::vector<std::string> names;
  for (const auto& tensor : replicated.tensors) {
    if (is_all || tensor.is_rank_0s) names.push_back(tensor.name);
  }
  return names;
}

}  // namespace

struct snapshots::parts {
  parts(const environment& of, snapshots_options with) : here(of), options(std::move(with)) {}

  environment here;
  snapshots_options options;
  std::uint64_t generation = 0;
  bool tells_progress = false;
  std::optional<std::uint64_t> trusted_at;  // the step; none: nothing is to be trusted any more
  std::optional<store_client> store;        // none in a world of one
  staging_buffer staging;
  std::unique_ptr<vault_tier> vault;  // none: it is not to be used
  std::optional<saver> writer;        // uses the staging buffer, and the vault

  // What this rank writes of the state.
  result<saver::files> files_of(const snapshot_state& state, snapshot_place to,
                                std::string& problem) const;
};

snapshots::snapshots(std::unique_ptr<parts> made) : parts_(std::move(made)) {}
snapshots::~snapshots() = default;

result<std::unique_ptr<snapshots>> snapshots::open(const environment& here,
                                                   snapshots_options options,
                                                   std::string& problem) {
  if (here.world_size == 1) return open(here, std::move(options), rank_exchange(), problem);
  auto store = store_client::from_environment(here, options.rank_timeout, problem);
  if (!store) return store.error();
  const auto keys = find_opening(*store, here, options.name, options.rank_timeout, problem);
  if (!keys) return keys.error();
  return open(here, std::move(options),
              rank_exchange(*store, *keys, here.rank, here.world_size, options.rank_timeout),
              problem);
}

result<std::unique_ptr<snapshots>> snapshots::open(const environment& here,
                                                   snapshots_options options, rank_exchange ranks,
                                                   std::string& problem) {
  if (options.keep == 0) {
    problem = "of the snapshots in " + options.folder + " at least one must be kept";
    return make_error_code(errc::invalid_argument);
  }
  if (options.uses_vault && options.vault_keep == 0) {
    problem = "of the snapshots in the vault at least one must be kept";
    return make_error_code(errc::invalid_argument);
  }
  if (options.folder.empty()) {
    problem = "the snapshot folder has no name";
    return make_error_code(errc::invalid_argument);
  }
  auto vault = vault_for(here, options);
  const resuming start{
      *options.files,
      options.folder,
      here.rank,
      here.world_size,
      here.local_rank,
      here.local_world_size,
      {here.instance, here.round, here.restart_count},
      options.broadcast,
      {options.keep, options.distrust, options.trusted_after_steps, here.world_size},
      options.on_message,
      vault.get()};
  auto agreed = agree_on_snapshot(start, ranks);
  if (const auto* told = std::get_if<failure>(&agreed)) {
    problem = told->text;
    return told->code;
  }
  auto& found = std::get<agreement>(agreed);
  if (vault && here.rank == 0) tell_of_vault(*vault, options, found.from);
  auto made = std::make_unique<parts>(here, std::move(options));
  made->generation = found.generation;
  std::optional<snapshot_order> resumed;
  if (found.from) {
    resumed = snapshot_order{found.from->info.generation, found.from->info.step};
    made->trusted_at = resumed->step + made->options.trusted_after_steps;
  }
  if (vault) {
    const bool counts = found.from && found.from->is_in_vault && made->options.distrust;
    vault->note_resumed(counts ? resumed : std::nullopt);
  }
  made->store = ranks.store();
  made->vault = std::move(vault);
  made->writer.emplace(saver_options{made->options.files, made->options.folder, here.rank,
                                     made->options.on_message, made->vault.get()},
                       std::move(ranks), std::move(found.history), resumed);
  std::unique_ptr<snapshots> opened(new snapshots(std::move(made)));
  opened->resumed_ = std::move(found.from);
  return opened;
}

void snapshots::drop_resumed() {
  if (!resumed_) return;
  resumed_->replicated = {};
  resumed_->own.reset();
  resumed_->sharded.reset();
  resumed_->bytes.clear();
}

error_code snapshots::take_failure() {
  const auto failed = parts_->writer->take_failure();
  if (!failed) return {};
  problem_ = failed->text;
  is_over_ = is_over_ || failed->is_final;
  return failed->code;
}

// In the vault the ranks of a node write as if there were no others.
result<saver::files> snapshots::parts::files_of(const snapshot_state& state, snapshot_place to,
                                                std::string& problem) const {
  const bool is_for_vault = to == snapshot_place::vault;
  const std::uint32_t rank = is_for_vault ? here.local_rank : here.rank;
  const std::uint32_t ranks = is_for_vault ? here.local_world_size : here.world_size;
  const std::uint32_t nodes = is_for_vault ? 1 : here.group_world_size;
  const std::uint32_t writers = options.writers != 0
                                    ? options.writers
                                    : writers_for(bytes_to_share(state.replicated), ranks, nodes);
  const auto dealt = deal_out(state.replicated, writers, ranks);
  saver::files mine;
  auto layout = lay_out(share_of(state.replicated, dealt, rank), state.own, problem);
  if (!layout) return layout.error();
  mine.layout = std::move(*layout);
  mine.replicated = dealt.ranks;
  if (options.writers != 1) mine.deal = dealt.checksum;
  if (is_for_vault) {
    mine.rank_0s = names_of_rank_0s(state.replicated, options.writers == 1);
    if (options.writers != 1) mine.descriptions = checksum_of_descriptions(state.replicated);
    return mine;
  }
  if (here.rank == 0 && dealt.is_shared()) {
    auto index = index_text(state.replicated, dealt, problem);
    if (!index) return index.error();
    mine.index = std::move(*index);
  }
  return mine;
}

error_code snapshots::save(std::uint64_t step, std::uint64_t epoch, const snapshot_state& state,
                           snapshot_place to) {
  return start(step, epoch, state, false, to);
}

error_code snapshots::begin_save(std::uint64_t step, std::uint64_t epoch,
                                 const snapshot_state& state, snapshot_place to) {
  return start(step, epoch, state, true, to);
}

void snapshots::wait_until_copied() {
  if (parts_->writer->wait_until_copied()) parts_->writer->settle_copy(std::nullopt);
}

void snapshots::wait_until_copied(const std::function<std::string()>& changed) {
  if (!parts_->writer->wait_until_copied()) return;
  outcome_word wrong;
  try {
    if (const auto what = changed(); !what.empty()) {
      wrong = failure{errc::invalid_argument, what + " has changed while it was copied"};
    }
  } catch (const std::exception& error) {
    parts_->writer->settle_copy(has_thrown("look whether the copy is whole", error));
    throw;
  }
  parts_->writer->settle_copy(wrong);
}

error_code snapshots::start(std::uint64_t step, std::uint64_t epoch, const snapshot_state& state,
                            bool is_late, snapshot_place to) {
  parts& all = *parts_;
  if (to == snapshot_place::vault && !has_vault()) return {};
  const auto earlier = wait();
  // What is saved anywhere need not be saved in the vault.
  const auto saved = to == snapshot_place::vault
                         ? std::max(all.writer->saved(), all.writer->saved_in_vault())
                         : all.writer->saved();
  if (saved && step < saved->step) {
    problem_ = "cannot save step " + std::to_string(step) + ": step " +
               std::to_string(saved->step) +
               " is saved, and would stay the newest; to go back, open the snapshots again first";
    if (all.here.rank == 0) all.options.on_message(problem_);
    return errc::invalid_argument;
  }
  if (saved && saved->step == step) return earlier;
  saver::job next{
      {all.generation, step, epoch, all.here.instance, all.here.round, all.tells_progress},
      failure{},
      is_late && all.options.is_asynchronous,
      to == snapshot_place::vault};
  std::string problem;
  auto mine = all.files_of(state, to, problem);
  auto error = mine ? error_code() : mine.error();
  if (!error && all.options.is_asynchronous) {
    // Whatever happens, the other ranks must hear of it.
    try {
      error = all.staging.stage(mine->layout, is_late ? &mine->late : nullptr);
      if (error) {
        problem = "no memory for a copy of " + std::to_string(mine->layout.header.data_bytes) +
                  " bytes: " + error.message();
      }
    } catch (const std::exception& caught) {  // of a tensor's copy
      const auto told = has_thrown("fetch the state", caught);
      error = told.code;
      problem = told.text;
    }
  }
  if (error) {
    next.file = failure{error, problem};
  } else {
    next.file = std::move(*mine);
  }
  all.writer->begin(std::move(next));
  if (all.options.is_asynchronous) return earlier;
  const auto now = wait();
  return now ? now : earlier;
}

error_code snapshots::save_emergency(std::uint64_t step, std::uint64_t epoch,
                                     const snapshot_state& state, std::chrono::milliseconds grace,
                                     const name_choice& is_compared) {
  parts& all = *parts_;
  const deadline until = grace;
  if (!all.store) {
    // Whether that is whole is not known, and what comes now is no older.
    all.writer->settle_copy(failure{errc::timed_out, "given up for an emergency snapshot"});
    (void)wait();
    const auto error = save(step, epoch, state);
    return error ? error : wait();
  }
  is_over_ = true;
  if (!all.writer->give_up(until.left() / 2)) {
    problem_ = "cannot save an emergency snapshot: the save under way in " + all.options.folder +
               " does not end, for the disk does not answer";
    all.options.on_message(problem_);
    return errc::timed_out;
  }
  const auto marked = names_of_rank_0s(state.replicated, false);
  const std::set<std::string, std::less<>> of_rank_0(marked.begin(), marked.end());
  const name_choice is_to_be_alike = [&](std::string_view name) {
    return !of_rank_0.contains(name) && (!is_compared || is_compared(name));
  };
  const emergency mine{
      *all.options.files,
      all.options.folder,
      {all.here.instance, all.here.round, all.here.restart_count},
      all.here.rank,
      all.here.world_size,
      all.options.on_message,
      {all.generation, step, epoch, all.here.instance, all.here.round, all.tells_progress},
      state.replicated,
      is_to_be_alike,
      [] {
        const auto word = read_stop_word();
        return word ? std::optional(word->killed_at) : std::nullopt;
      }};
  const auto failed = worker::save_emergency(mine, *all.store, until);
  if (!failed) return {};
  problem_ = failed->text;
  return failed->code;
}

std::function<std::string(std::uint64_t step)> snapshots::abort_teller() const {
  if (!parts_->store) return [](std::uint64_t) { return std::string(); };
  return [store = *parts_->store, here = parts_->here](std::uint64_t step) -> std::string {
    const deadline until = abort_word_limit;
    std::string problem;
    auto own = store.on_new_connection(here, until, problem);
    if (!own) return problem;
    return say_abort(*own, here.rank, step, until) ? own->problem() : "";
  };
}

error_code snapshots::wait() {
  wait_until_copied();
  parts_->writer->wait();
  return take_failure();
}

bool snapshots::is_saved(std::chrono::milliseconds within) const {
  return parts_->writer->wait_until(within);
}

error_code snapshots::progress(std::uint64_t step) {
  parts_->tells_progress = true;
  if (parts_->trusted_at && step >= *parts_->trusted_at) {
    parts_->trusted_at.reset();
    parts_->writer->trust_resumed();
  }
  return take_failure();
}

error_code snapshots::close() {
  parts_->writer->trust_resumed();
  return wait();
}

std::uint64_t snapshots::generation() const {
  return parts_->generation;
}

std::optional<std::string> snapshots::saved() const {
  const auto order = parts_->writer->saved();
  if (!order) return std::nullopt;
  return parts_->options.folder + "/" + snapshot_name(*order);
}

std::optional<std::string> snapshots::saved_in_vault() const {
  const auto order = parts_->writer->saved_in_vault();
  if (!order) return std::nullopt;
  return parts_->vault->path(*order);
}

bool snapshots::has_vault() const {
  return parts_->vault && parts_->vault->is_used();
}

}  // namespace ddprun::worker
