#include "tests/simulation/simulated_journal.hpp"

#include "tests/simulation/simulated_daemon.hpp"
#include "tests/simulation/world.hpp"

#include <chrono>
#include <utility>

namespace ddprun::simulation {

using namespace std::chrono_literals;

namespace {

constexpr duration patience = 1s;
constexpr duration retry_interval = 1s;

}  // namespace

const char* to_text(journal_kind kind) {
  switch (kind) {
    case journal_kind::none:
      return "none";
    case journal_kind::kept:
      return "kept";
    case journal_kind::lost:
      return "lost";
    case journal_kind::rolled_back:
      return "rolled back";
    case journal_kind::failing:
      return "failing";
  }
  return "";
}

state_folder::state_folder(journal_kind kind, unsigned slow_percent, random_source random)
    : kind_(kind), slow_percent_(slow_percent), random_(random) {
  if (kind != journal_kind::failing) return;
  fails_from_ = random_.chance(30) ? 0s : random_.between(0s, 20s);
  if (random_.chance(60)) fails_until_ = fails_from_ + random_.between(100ms, 30s);
  hangs_ = random_.chance(50);
}

duration state_folder::writing_takes() {
  return random_.between(0ms, random_.chance(slow_percent_) ? 900ms : 20ms);
}

void state_folder::write(const changes& what) {
  older_.push_back(newest_);
  for (const auto& [run_id, record] : what) {
    if (record) {
      newest_.insert_or_assign(run_id, *record);
    } else {
      newest_.erase(run_id);
    }
  }
}

void state_folder::daemon_ended() {
  records found = newest_;
  if (kind_ == journal_kind::lost && random_.chance(70)) found.clear();
  if (kind_ == journal_kind::rolled_back && random_.chance(70) && !older_.empty())
    found = older_[random_.below(older_.size())];
  if (found == newest_) return;
  ++tampered_;
  newest_ = std::move(found);
}

void journal::keep(const core::persist_run_record& change) {
  waiting_.insert_or_assign(change.run_id, change.record);
  last_ = change.number;
  if (world_.mutation().journal_reports_early) {
    world_.time().after(
        1us, [=, this, number = last_] { daemon_.post([=, this] { settle(number, false); }); });
  }
  if (unwell_) {
    // The daemon does not wait for a disk that is known to be broken.
    world_.time().after(
        1us, [=, this, number = last_] { daemon_.post([=, this] { settle(number, unwell_); }); });
  } else if (settled_ + 1 == last_) {
    be_patient();
  }
  if (!is_writing_) begin_write();
}

void journal::begin_write() {
  is_writing_ = true;
  writing_ = std::exchange(waiting_, {});
  writing_to_ = last_;
  const bool fails = folder_.fails(world_.now());
  duration takes = folder_.writing_takes();
  if (folder_.hangs(world_.now())) {
    if (folder_.fails_until() == moment::max()) return;
    takes += folder_.fails_until() - world_.now();
  }
  world_.time().after(takes, [=, this] { end_write(fails); });
}

void journal::end_write(bool failed) {
  if (ended_) return;
  if (!failed) folder_.write(writing_);
  // Changes that have come since are newer, and win.
  if (failed) waiting_.merge(writing_);
  writing_.clear();
  daemon_.post([=, this, number = writing_to_] { settle(number, failed); });
  if (failed) {
    world_.time().after(retry_interval, [this] {
      if (!ended_) begin_write();
    });
  } else if (waiting_.empty()) {
    is_writing_ = false;
  } else {
    begin_write();
  }
}

void journal::settle(std::uint64_t number, bool failed) {
  unwell_ = failed;
  if (number <= settled_) return;
  settled_ = number;
  ++patience_;
  if (settled_ < last_) be_patient();
  daemon_.step(core::records_persisted{number});
}

void journal::be_patient() {
  const std::uint64_t timer = ++patience_;
  world_.time().after(patience, [=, this] {
    daemon_.post([=, this] {
      if (timer == patience_) settle(last_, true);
    });
  });
}

void journal::end(bool killed) {
  if (std::exchange(ended_, true)) return;
  const bool fails = folder_.fails(world_.now());
  if (fails) folder_.miss_changes();
  if (!fails && is_writing_ && !writing_.empty() && (!killed || folder_.random().chance(50)))
    folder_.write(writing_);
  if (!fails && !killed && !waiting_.empty()) folder_.write(waiting_);
  folder_.daemon_ended();
}

}  // namespace ddprun::simulation
