#include "worker/training/loop_driver.hpp"

#include "worker/deadline.hpp"
#include "worker/report_step.hpp"
#include "worker/round_parts.hpp"
#include "worker/run.hpp"
#include "worker/stop_word.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <signal.h>
#include <stdexcept>
#include <utility>

namespace ddprun::worker {
namespace {

constexpr const char* used_name = "samples_used";
// Between two questions of ranks that wait for a snapshot.
constexpr std::chrono::milliseconds look{100};
constexpr int device_part = 4;  // of the time for an emergency snapshot, for a GPU to come to rest

training_loop_options completed(training_loop_options options) {
  if (!options.now) options.now = [] { return std::chrono::steady_clock::now(); };
  if (!options.tell) {
    options.tell = [](std::string_view line) {
      std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
      std::fflush(stdout);
    };
  }
  if (options.batch_size == 0 || options.passes_per_step == 0 || options.ask_interval == 0) {
    throw std::invalid_argument(
        "training loop: batch_size, passes_per_step and ask_interval must be at least 1");
  }
  return options;
}

std::size_t used_in(const resumed_snapshot& from) {
  const auto found = from.replicated.values.find(used_name);
  std::size_t used = 0;
  if (found != from.replicated.values.end()) {
    const char* const end = found->second.data() + found->second.size();
    const auto [rest, error] = std::from_chars(found->second.data(), end, used);
    if (error == std::errc() && rest == end) return used;
  }
  throw std::runtime_error("snapshot " + from.path +
                           " is not of this program: it does not say which samples were used");
}

// In doubt a rank may be lost.
bool is_ordinary_stop() {
  const auto word = read_stop_word();
  return word && word->is_ordinary;
}

std::string text_of(const named_meters& meters) {
  std::string text;
  for (const auto& [name, value] : meters) {
    char number[32];
    std::snprintf(number, sizeof number, " %.4f", value.average());
    text += (text.empty() ? "" : " | ") + name + number;
  }
  return text;
}

}  // namespace

loop_driver::loop_driver(const environment& here, training_loop_options options, loop_work& work)
    : here_(here),
      options_(completed(std::move(options))),
      work_(work),
      stop_(options_.stop),
      decisions_(options_.save, options_.ask_interval, here.rank, options_.now()) {
  if (stop_ == nullptr) stop_ = &own_stop_.emplace();
}

int loop_driver::status() const {
  return is_done_ || stop_->signal() != SIGTERM ? 0 : stopped_status;
}

// Whoever catches what leaves run() may change what is being copied.
class loop_driver::copy_ends_first {
 public:
  explicit copy_ends_first(loop_driver& of) : of_(of) {}
  ~copy_ends_first() {
    try {
      of_.wait_until_copied();
    } catch (const std::exception&) {
      // There is no such snapshot then, and rank 0 says why; what leaves run() came first.
    }
  }
  copy_ends_first(const copy_ends_first&) = delete;
  copy_ends_first& operator=(const copy_ends_first&) = delete;

 private:
  loop_driver& of_;
};

void loop_driver::run() {
  work_.set_stop_has_come([this] { return stop_->signal() == SIGTERM && !is_ordinary_stop(); });
  open_snapshots();
  resume();
  open_metrics();
  const round_store_in_use agreeing;  // on what those that are left save
  const copy_ends_first copy(*this);
  try {
    train();
    if (snapshots_) wait_together();
  } catch (const process_group_error&) {
    save_emergency();
    throw;
  }
  if (!snapshots_) return;
  // Without the last one the job has not done what it was started for.
  if (snapshots_->close()) throw std::runtime_error(snapshots_->problem());
  tell_saved();
}

void loop_driver::open_snapshots() {
  if (options_.folder.empty()) return;
  snapshots_options keeping;
  keeping.folder = options_.folder;
  keeping.keep = options_.keep;
  keeping.writers = options_.writers;
  keeping.uses_vault = options_.save.vault_steps != 0;
  keeping.vault_keep = options_.vault_keep;
  keeping.distrust = options_.distrust;
  keeping.trusted_after_steps = options_.trusted_after_steps;
  // The ranks of one node read out of one page cache.
  if (here_.group_world_size > 1) keeping.broadcast = work_.broadcast();
  keeping.on_message = options_.on_message;
  keeping.files = options_.files;
  std::string problem;
  auto opened = snapshots::open(here_, keeping, problem);
  if (!opened) throw std::runtime_error(problem);
  snapshots_ = std::move(*opened);
  work_.set_wait_until_copied([this] { wait_until_copied(); });
  if (options_.emergency_grace.count() != 0) work_.set_say_abort(snapshots_->abort_teller());
}

void loop_driver::resume() {
  if (!snapshots_) return;
  const auto& from = snapshots_->resumed();
  if (!from) {
    tell("no snapshot in " + options_.folder + ": starting at epoch 1");
    return;
  }
  work_.load(*from);
  place_ = {from->info.epoch, from->info.step, used_in(*from)};
  first_step_ = place_.step;
  if (place_.epoch > options_.epochs) {
    tell("snapshot " + from->path + ": all " + std::to_string(options_.epochs) +
         " epochs are done");
  } else {
    tell("resuming from snapshot " + from->path + (from->is_in_vault ? " in the vault" : "") +
         " at epoch " + std::to_string(place_.epoch) + text_of_place());
  }
  snapshots_->drop_resumed();
}

// In the epoch that it goes on in.
std::string loop_driver::text_of_place() const {
  if (place_.used == 0) return "";
  const std::size_t left = options_.samples - std::min(place_.used, options_.samples);
  const bool is_over = left == 0 || (options_.drop_last && left < here_.world_size);
  return is_over ? ", at its end" : ", in its middle";
}

void loop_driver::open_metrics() {
  if (!tells() || options_.metrics.empty()) return;
  auto file = metrics_file::open(options_.metrics, here_, place_.step);
  if (!file) {
    throw std::runtime_error("cannot write " + options_.metrics + ": " + file.error().message());
  }
  metrics_.emplace(std::move(*file));
}

void loop_driver::train() {
  distributed_sampler_options dealing;
  dealing.length = options_.samples;
  dealing.world_size = here_.world_size;
  dealing.rank = here_.rank;
  dealing.shuffle = options_.shuffle;
  dealing.drop_last = options_.drop_last;
  dealing.seed = options_.seed;
  distributed_sampler sampler(dealing);
  while (place_.epoch <= options_.epochs) {
    if (!run_epoch(sampler)) return;
  }
  is_done_ = true;
}

bool loop_driver::run_epoch(distributed_sampler& sampler) {
  sampler.resume({place_.epoch, place_.used});
  const auto indices = sampler.indices();
  const auto passes = batches(indices, options_.batch_size);
  const std::size_t per_step = options_.passes_per_step;
  const std::uint64_t steps = (passes.size() + per_step - 1) / per_step;
  if (steps > 0 && !std::exchange(is_warm_, true)) work_.warm_up(passes.front());
  work_.begin_epoch(place_.epoch, steps, passes);
  const auto start = options_.now();
  progress shown("epoch " + std::to_string(place_.epoch), steps);
  epoch_end done{place_.epoch, 0, 0, 0, {}, {}};
  for (std::uint64_t step = 1; step <= steps; ++step) {
    const std::size_t first = (step - 1) * per_step;
    const auto taken = std::span(passes).subspan(first, std::min(per_step, passes.size() - first));
    is_unfinished_ = true;
    report_step(place_.step + 1);
    work_.step(place_.epoch, place_.step + 1, taken);
    for (const auto& pass : taken)
      done.samples += pass.size();
    place_ = {place_.epoch, place_.step + 1, sampler.state(done.samples).used};
    is_unfinished_ = false;
    report_step_done(place_.step);
    if (snapshots_) check(snapshots_->progress(place_.step));
    if (tells() && options_.shows_progress) {
      shown.update(step, done.samples * here_.world_size);
    }
    work_.end_step({place_.epoch, place_.step, step, steps, taken});
    tell_saved();
    if (!after_step({place_.step, place_.epoch, step == steps, false})) return false;
  }
  done.step = place_.step;
  done.seconds = std::chrono::duration<double>(options_.now() - start).count();
  end_epoch(done, shown);
  return after_epoch();
}

// What was asked after an earlier step.
loop_word loop_driver::heard() {
  return std::exchange(is_asking_, false) ? work_.answer() : loop_word();
}

bool loop_driver::after_step(const loop_moment& at) {
  // At the end of an epoch it is the next one's beginning that is kept: after_epoch().
  if (at.ends_epoch) return true;
  const auto decision = decisions_.decide(at, heard(), options_.now());
  save(place_, decision);
  if (decision.stops) return false;
  if (decisions_.asks(at)) {
    work_.ask(decisions_.word(stop_->has_come(), options_.now()));
    is_asking_ = true;
  }
  return true;
}

void loop_driver::end_epoch(epoch_end& done, progress& shown) {
  done.own = work_.take_meters();
  done.all = done.own;
  work_.average(done.all);
  // Resumed at its end, it has nothing to show.
  if (tells() && done.samples != 0) {
    if (options_.shows_progress) shown.finish(text_of(done.all));
    write_metrics(done, shown.samples_per_second());
  }
  wait_until_copied();  // of an epoch without steps, it may be the one before's
  is_unfinished_ = true;
  work_.end_epoch(done);
}

// Until all have come to the epoch's end none has made it: it is made again, by all, where a rank
// is lost before.
bool loop_driver::after_epoch() {
  loop_word said = heard();
  work_.ask(decisions_.word(stop_->has_come(), options_.now()));
  const auto now_said = work_.answer();
  said.stop_has_come = said.stop_has_come || now_said.stop_has_come;
  said.save_is_due = said.save_is_due || now_said.save_is_due;
  const loop_moment at{place_.step, place_.epoch, true, place_.epoch == options_.epochs};
  const auto decision = decisions_.decide(at, said, options_.now());
  place_ = {place_.epoch + 1, place_.step, 0};
  is_unfinished_ = false;
  save(place_, decision);
  return !decision.stops;
}

void loop_driver::write_metrics(const epoch_end& done, double samples_per_second) {
  if (!metrics_) return;
  std::vector<metrics_file::number> numbers;
  for (const auto& [name, value] : done.all)
    numbers.emplace_back(name, value.average());
  numbers.emplace_back("samples_per_second", samples_per_second);
  const auto error = metrics_->write(done.epoch, done.step, numbers);
  if (!error) return;
  options_.on_message("cannot write " + options_.metrics + ": " + error.message() +
                      "; going on without");
  metrics_.reset();
}

snapshot_state loop_driver::state_at(const training_place& next, bool is_copied_late) {
  auto state = work_.view(is_copied_late);
  state.replicated.values[used_name] = std::to_string(next.used);
  return state;
}

// Training goes on while it is written, and while what the next step changes last is copied.
void loop_driver::save(const training_place& next, const loop_decision& how) {
  if (!snapshots_) return;
  if (how.saves) {
    wait_together();
    check(snapshots_->wait());  // for the one before, which is to be told as what it is
    tell_saved();
    begin_save(next, snapshot_place::folder);
    epochs_saved_ = next.epoch - 1;
  } else if (how.saves_in_vault && snapshots_->has_vault()) {
    wait_until_copied();
    // A save in memory is not worth waiting for a disk: it is left out while one is under way.
    if (work_.any(!snapshots_->is_saved(std::chrono::milliseconds(0)))) return;
    check(snapshots_->wait());
    tell_saved();
    begin_save(next, snapshot_place::vault);
  }
}

void loop_driver::begin_save(const training_place& next, snapshot_place to) {
  const auto state = state_at(next, options_.copies_late);
  check(options_.copies_late ? snapshots_->begin_save(next.step, next.epoch, state, to)
                             : snapshots_->save(next.step, next.epoch, state, to));
}

// A snapshot that holds half of a change would be whole by its checksum.
void loop_driver::wait_until_copied() {
  if (!snapshots_) return;
  std::string changed;
  snapshots_->wait_until_copied([&] { return changed = work_.changed_since_view(); });
  if (changed.empty()) return;
  throw std::logic_error("training loop: the loss has changed " + changed +
                         ", which a snapshot copied meanwhile: set copies_late = false");
}

// Until the snapshot under way is over. A rank that has died never comes to the end of its part,
// and one that only waited for it would hear nothing of that: so all ask each other meanwhile.
void loop_driver::wait_together() {
  wait_until_copied();
  while (work_.any(!snapshots_->is_saved(look))) {
  }
}

// What leaves run() is the error that says which rank is gone, and not what comes of that.
void loop_driver::save_emergency() {
  try {
    try_emergency();
  } catch (const std::exception& error) {
    options_.on_message("no emergency snapshot of step " + std::to_string(place_.step) + ": " +
                        one_line(error.what()));
  }
}

// A rank is gone. What it was in the middle of is lost, what was finished is not.
void loop_driver::try_emergency() {
  const bool has_more = place_.step > first_step_;
  if (!snapshots_ || options_.emergency_grace.count() == 0 || !has_more) return;
  const deadline until(options_.emergency_grace);
  work_.let_go();  // one of those that wait for this rank may be a step ahead of it
  const auto for_device = options_.emergency_grace / device_part;
  if (const auto why = work_.end_device_work(for_device); !why.empty()) {
    throw std::runtime_error(why);
  }
  if (is_unfinished_) {
    if (const auto changed = work_.put_back(); !changed.empty()) {
      throw std::runtime_error("what came after it, and was not finished, has changed " + changed +
                               ", and that is not put back");
    }
  }
  // A failure here is told by the other survivors, too.
  (void)snapshots_->save_emergency(
      place_.step, place_.epoch, state_at(place_, false),
      std::chrono::duration_cast<std::chrono::milliseconds>(until.left()),
      [this](std::string_view name) { return work_.is_alike(name); });
}

// Training goes on without a snapshot that could not be saved (rank 0 has said why), unless no
// later one can be.
void loop_driver::check(error_code error) {
  if (error && snapshots_->is_over()) throw std::runtime_error(snapshots_->problem());
}

void loop_driver::tell_saved() {
  if (!snapshots_ || !tells()) return;
  auto path = snapshots_->saved();
  if (path == told_) return;
  tell("epoch " + std::to_string(epochs_saved_) + " | snapshot saved at " + *path);
  told_ = std::move(path);
}

void loop_driver::tell(const std::string& line) const {
  if (tells()) options_.tell(line);
}

}  // namespace ddprun::worker
