// The part of warm_spawner that knows the imports: the recording, the zygote that does them ahead,
// and the spares that it forks.
#include "launcher/process/process_table.hpp"
#include "launcher/warm/warm_spawner.hpp"
#include "rendezvous/base/counted.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <sstream>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::warm {
namespace {

constexpr int failures_max = 3;
constexpr std::size_t excluded_max = 16;
// A killed spare ends within this time, unless the kernel holds it.
constexpr std::chrono::seconds kill_limit{1};

// Errors (an old kernel, a removed folder) are ignored: the spare then stays in the agent's cgroup.
void move_to_cgroup(int folder, pid_t pid) {
  if (folder < 0) return;
  const unique_fd file(::openat(folder, "cgroup.procs", O_WRONLY | O_CLOEXEC));
  if (!file) return;
  const std::string number = std::to_string(pid);
  [[maybe_unused]] const auto written = ::write(file.get(), number.data(), number.size());
}

std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

}  // namespace

bool warm_spawner::is_to_be_recorded(const spawn_request& request) const {
  if (is_off_ || is_complete_ || suspicion_) return false;
  const auto& entries = request.environment;
  return std::find(entries.begin(), entries.end(), "LOCAL_RANK=0") != entries.end();
}

spawn_result warm_spawner::spawn_cold(const spawn_request& request, spawn_handlers handlers) {
  reading_.cancel();
  // A zygote that still loads the list of the last life would compete with the workers for CPUs,
  // and this life may import less.
  if (std::exchange(is_of_last_life_, false) && !is_ready_) begin_anew();
  if (zygote_ && !is_off_) tell("workers are started cold: no spare is ready");
  if (check_.under_way()) is_complete_ = false;  // the list may be of files that have changed
  if (!is_to_be_recorded(request) || !make_record(request))
    return inner_.spawn(request, std::move(handlers));
  return inner_.spawn(record_->recorded(request), std::move(handlers));
}

bool warm_spawner::make_record(const spawn_request& request) {
  if (!record_) {
    auto record = recording::begin({}, options_.answers);
    if (!record) return false;
    record_ = std::move(*record);
  }
  known_ = request;
  is_recorded_in_look_ = check_.under_way();
  look_at_record(options_.look_pause);
  return true;
}

void warm_spawner::look_at_record(std::chrono::milliseconds pause) {
  look_timer_.expires_after(pause);
  look_timer_.async_wait(while_alive(alive_.watch(), [this, pause](error_code error) {
    if (error || is_off_ || !record_) return;
    const std::uint64_t size = record_->bytes();
    const bool has_grown = size != record_bytes_;
    const time_point now = std::chrono::steady_clock::now();
    if (has_grown) grown_at_ = now;
    record_bytes_ = size;
    if (!has_grown && size != loaded_bytes_) load();
    is_complete_ = size > 0 && now - grown_at_ >= options_.rest;
    if (is_complete_) return keep_record();
    look_at_record(has_grown ? options_.look_pause : std::min(2 * pause, options_.look_pause_max));
  }));
}

void warm_spawner::look_up(const spawn_request& like) {
  reading_.start(
      [learnt = options_.learnt] { return learnt.read(); },
      [this, like](const std::optional<learnt_answer>& answer) {
        if (!answer || record_ || is_off_) return;
        if (!answer->complaint.empty())
          tell("what the script imported when it last ran is not known: " + answer->complaint);
        if (answer->list) begin_known(like, *answer->list);
      });
}

void warm_spawner::begin_known(spawn_request like, const learnt_list& list) {
  auto record = recording::begin(list.text);
  if (!record) return;
  record_ = std::move(*record);
  record_bytes_ = record_->bytes();
  like.program = list.program;
  known_ = std::move(like);
  is_of_last_life_ = true;
  load();
}

// Keeps only a list from which a zygote was made. Several cold starts have recorded it, so
// duplicate lines are dropped.
void warm_spawner::keep_record() {
  if (!is_ready_ || options_.learnt.folder.empty() || keeping_.under_way()) return;
  learnt_list list{known_->program, {}};
  std::set<std::string> lines;
  std::istringstream text(record_->text());
  for (std::string line; std::getline(text, line) && !text.eof();) {
    if (lines.insert(line).second) list.text += line + '\n';
  }
  keeping_.start([learnt = options_.learnt, list = std::move(list)] { return learnt.keep(list); },
                 [this](const std::optional<std::string>& problem) {
                   if (!problem || problem->empty()) return;
                   tell("cannot save what the script imports for its next start: " + *problem);
                 });
}

void warm_spawner::forget_record() {
  if (options_.learnt.folder.empty()) return;
  keeping_.start(
      [learnt = options_.learnt] {
        learnt.forget();
        return std::string();
      },
      [](const std::optional<std::string>&) {});
}

// If the list of the last life was used, it may be the reason, so try again without it.
void warm_spawner::give_up(const std::string& why) {
  if (!is_of_last_life_) return turn_off(why);
  forget_record();
  begin_anew();
  tell("what the script imported when it last ran is not imported ahead: " + why);
}

void warm_spawner::load() {
  if (memory_.is_short()) return;
  if (!zygote_) start_zygote();
  loaded_bytes_ = record_bytes_;
  is_ready_ = false;
  zygote_->load();
}

void warm_spawner::start_zygote() {
  const auto& names = options_.rank_names;
  zygote::options values;
  values.program = known_->program;
  values.command = known_->argv;
  for (const std::string& entry : known_->environment) {
    if (std::find(names.begin(), names.end(), name_of(entry)) == names.end())
      values.environment.push_back(entry);
  }
  values.rank_names = names;
  values.excluded = excluded_;
  values.record = record_->path();
  values.prefix = options_.prefix;
  values.answers = options_.answers;
  is_making_ = false;
  zygote_ = std::make_unique<zygote>(executor_, inner_, guardian_, mux_, std::move(values),
                                     zygote_events());
  memory_.start();
}

zygote::events warm_spawner::zygote_events() {
  zygote::events events;
  events.ready = [this](std::size_t modules, const std::string& stop, const std::string& files) {
    take_ready(modules, stop, files);
  };
  events.dropped = [this](const std::string& module, const std::string& why) {
    tell("module " + module + " is not imported ahead: it " + why);
    excluded_.insert(module);
    zygote_.reset();
    if (excluded_.size() > excluded_max)
      return give_up("too many modules read the rank while they are imported");
    load();
  };
  events.refused = [this](const std::string& why) { give_up(why); };
  events.spare = [this](pid_t pid, unique_fd orders) { take_spare(pid, std::move(orders)); };
  events.failed = [this](const std::string& why) {
    is_making_ = false;
    lack_spare(why);
  };
  events.is_short = [this](const std::string& why) { make_room("memory is short: " + why); };
  events.killed = [this] {
    options_.killed();
    make_room("the process that imports modules ahead was killed by SIGKILL");
  };
  events.ended = [this](const std::string& how) {
    give_up("the process that imports modules ahead has ended: " + how);
  };
  return events;
}

void warm_spawner::take_ready(std::size_t modules, const std::string& stop,
                              const std::string& files) {
  auto imported = imported_files::read(files);
  if (!imported) return give_up("which files were imported is not known");
  is_ready_ = true;
  let_spares_go();  // they know less
  check_.know(std::move(*imported));
  keep_record();
  tell(std::to_string(modules) + " modules are imported ahead" +
       (stop.empty() ? std::string() : "; not those that the script imports after " + stop));
  refill();
}

void warm_spawner::refill() {
  if (!zygote_ || !is_ready_ || is_making_ || spares_.size() >= options_.spares) return;
  is_making_ = true;
  zygote_->make_spare();
}

void warm_spawner::refill_later() {
  refill_timer_.expires_after(options_.refill_pause);
  refill_timer_.async_wait(while_alive(alive_.watch(), [this](error_code error) {
    if (!error) refill();
  }));
}

// Until we own it, a stray_reaper would take it for an orphan, and may have killed it already.
void warm_spawner::take_spare(pid_t pid, unique_fd orders) {
  is_making_ = false;
  const std::vector<pid_t> children = list_children();
  const bool is_ours = std::find(children.begin(), children.end(), pid) != children.end();
  if (!is_ours || inner_.owns(pid)) {
    return lack_spare("spare workers do not connect to this process");
  }
  const bool is_watched = inner_.adopt(
      pid, [weak = alive_.watch(), this, &inner = inner_](pid_t over, exit_status status) {
        if (weak.expired()) return inner.reap(over);
        child_ended(over, status);
      });
  if (!is_watched) {  // nobody would see the end of this worker
    inner_.signal_group(pid, SIGKILL);
    inner_.reap_within(pid, kill_limit);
    return lack_spare("no descriptor is left to watch spare workers");
  }
  guardian_.add(pid);
  if (options_.cgroup) move_to_cgroup(options_.cgroup(), pid);
  spares_.push_back({pid, std::move(orders)});
  failures_ = 0;
  if (spares_.size() == options_.spares)
    say_("warm: " + counted(options_.spares, "spare worker") +
         (options_.spares == 1 ? " waits" : " wait"));
  refill();
}

void warm_spawner::lack_spare(const std::string& why) {
  if (++failures_ >= failures_max) return give_up(why);
  refill_later();
}

void warm_spawner::let_spares_go() {
  for (const spare& one : std::exchange(spares_, {})) {
    let_go_.insert(one.pid);
    inner_.signal_group(one.pid, SIGKILL);
  }
}

// The list stays, and is imported anew.
void warm_spawner::forget_imports() {
  zygote_.reset();
  let_spares_go();
  check_.forget();
  loaded_bytes_ = 0;
  is_ready_ = is_making_ = false;
}

// Forgets all that was learnt: the next cold start is recorded.
void warm_spawner::begin_anew() {
  forget_imports();
  look_timer_.cancel();
  record_.reset();
  record_bytes_ = 0;
  excluded_.clear();
  known_.reset();
  is_complete_ = is_of_last_life_ = false;
  failures_ = 0;
}

// Spares that wait are still used.
void warm_spawner::turn_off(const std::string& why) {
  forget_record();
  zygote_.reset();
  is_off_ = true;
  is_ready_ = is_making_ = false;
  tell("no more workers are started warm: " + why);
}

memory_watch::events warm_spawner::memory_events() {
  memory_watch::events events;
  events.is_wanted = [this] { return zygote_ || !spares_.empty(); };
  events.is_short = [this](const std::string& why) { make_room("memory is short: " + why); };
  events.has_room = [this] { use_room(); };
  return events;
}

// Frees memory, but keeps the list.
void warm_spawner::make_room(const std::string& why) {
  const std::uint64_t held = zygote_ ? anonymous_memory(zygote_->pid()) : 0;
  forget_imports();
  // The zygote makes spares only if twice its own memory is left (ddprun_zygote_checks.py).
  memory_.await_room_for(3 * held);
  tell(why + ": no spare workers until there is room");
}

void warm_spawner::use_room() {
  if (!is_off_ && record_ && record_bytes_ > 0) load();
}

void warm_spawner::tell(const std::string& line) {
  if (std::exchange(told_, line) != line) say_("warm: " + line);
}

}  // namespace ddprun::launcher::warm
