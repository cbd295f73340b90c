// Two ranks with one folder, each with a disk of its own that can fail. The disk is always current,
// or it is NFS, where each rank is on the other machine in the next round.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/fault_file_system.hpp"
#include "tests/worker/snapshot/lone_manifest.hpp"
#include "tests/worker/snapshot/nfs_client.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::tests {

// The folder as one rank sees it: all have the same files, but each can fail on its own.
class view_of_disk : public worker::file_system {
 public:
  view_of_disk(file_system& disk, std::mutex& mutex, bool& is_job_dead)
      : disk_(&disk), mutex_(mutex), is_job_dead_(is_job_dead) {}

  void use(file_system& disk) { disk_ = &disk; }
  // The whole job dies when this rank comes to that step: later steps of all ranks are dropped.
  void kill_job_at(std::size_t step) { kill_step_ = step; }
  void fail(std::size_t step, std::size_t count) {
    fail_step_ = step;
    fail_count_ = count;
  }
  void heal() {
    const std::lock_guard lock(mutex_);
    fail_step_.reset();
    kill_step_.reset();
    is_job_dead_ = false;
  }
  std::size_t steps() const { return steps_; }

  error_code make_folder(const std::string& path, bool& made) override {
    return guarded<error_code>([&] { return disk_->make_folder(path, made); });
  }
  result<std::unique_ptr<worker::output_file>> create(const std::string& path) override {
    auto file =
        guarded<result<std::unique_ptr<worker::output_file>>>([&] { return disk_->create(path); });
    if (!file) return file.error();
    return std::unique_ptr<worker::output_file>(std::make_unique<output>(*this, std::move(*file)));
  }
  error_code rename_to_new(const std::string& from, const std::string& to) override {
    return guarded<error_code>([&] { return disk_->rename_to_new(from, to); });
  }
  error_code remove(const std::string& path) override {
    return guarded<error_code>([&] { return disk_->remove(path); });
  }
  error_code remove_folder(const std::string& path) override {
    return guarded<error_code>([&] { return disk_->remove_folder(path); });
  }
  error_code sync_folder(const std::string& path) override {
    return guarded<error_code>([&] { return disk_->sync_folder(path); });
  }
  result<std::vector<std::string>> list(const std::string& path) override {
    return guarded<result<std::vector<std::string>>>([&] { return disk_->list(path); });
  }
  result<std::string> read(const std::string& path, std::size_t bytes_max) override {
    return guarded<result<std::string>>([&] { return disk_->read(path, bytes_max); });
  }
  error_code scan(const std::string& path, const piece_handler& on_piece) override {
    return guarded<error_code>([&] { return disk_->scan(path, on_piece); });
  }
  result<std::unique_ptr<worker::mapped_file>> map(const std::string& path) override {
    return guarded<result<std::unique_ptr<worker::mapped_file>>>([&] { return disk_->map(path); });
  }
  std::chrono::milliseconds names_kept(const std::string& path) override {
    return disk_->names_kept(path);
  }
  void pause(std::chrono::milliseconds length) override {
    const std::lock_guard lock(mutex_);
    disk_->pause(length);
  }
  result<std::uint64_t> size(const std::string& path) override {
    return guarded<result<std::uint64_t>>([&] { return disk_->size(path); });
  }

 private:
  class output : public worker::output_file {
   public:
    output(view_of_disk& of, std::unique_ptr<worker::output_file> file)
        : of_(of), file_(std::move(file)) {}
    error_code write(std::string_view bytes) override {
      return of_.guarded<error_code>([&] { return file_->write(bytes); });
    }
    error_code finish() override {
      return of_.guarded<error_code>([&] { return file_->finish(); });
    }

   private:
    view_of_disk& of_;
    std::unique_ptr<worker::output_file> file_;
  };

  template <typename Result, typename Work>
  Result guarded(const Work& work) {
    const std::lock_guard lock(mutex_);
    const std::size_t now = steps_++;
    if (now == kill_step_) is_job_dead_ = true;
    if (is_job_dead_) return system_error(EIO);
    const bool fails = fail_step_ && now >= *fail_step_ && now - *fail_step_ < fail_count_;
    if (fails) return system_error(EIO);
    return work();
  }

  file_system* disk_;
  std::mutex& mutex_;
  bool& is_job_dead_;
  std::size_t steps_ = 0;
  std::optional<std::size_t> kill_step_;
  std::optional<std::size_t> fail_step_;
  std::size_t fail_count_ = 1;
};

enum class shared_by { one_disk, nfs, nfs_with_nocto };

// Jobs of two ranks, one round after the other, on one folder.
struct two_ranks {
  static constexpr std::uint32_t ranks = 2;
  static constexpr const char* folder = "f";

  explicit two_ranks(shared_by how, std::uint32_t writers_wanted = 1, unsigned seed = 0)
      : disk(seed),
        is_nfs(how != shared_by::one_disk),
        has_nocto(how == shared_by::nfs_with_nocto),
        writers(writers_wanted) {
    start_machines();
  }
  // Starts all machines with empty caches.
  void start_machines() {
    for (auto& machine : machines)
      machine = std::make_unique<nfs_client>(server, has_nocto);
  }
  // The folder's disk loses what was not synced.
  void restart_server() {
    disk.reboot();
    server.restart();
  }

  served_store store;
  fault_file_system disk;
  std::mutex mutex;
  nfs_server server{disk, mutex};
  bool is_nfs;
  bool has_nocto;
  bool is_job_dead = false;  // its further writes are dropped
  std::uint32_t writers;     // of the replicated state
  std::unique_ptr<nfs_client> machines[ranks];
  view_of_disk views[ranks] = {{disk, mutex, is_job_dead}, {disk, mutex, is_job_dead}};
  message_list messages;
  std::uint64_t reported = 0;  // the newest step that a rank considers saved
  std::string wrong;

  std::vector<rank_result> open(round_number round) {
    std::vector<rank_result> opened(ranks);
    for (std::uint32_t rank = 0; is_nfs && rank < ranks; ++rank)
      views[rank].use(*machines[(rank + round) % ranks]);
    job_under_test::on_all(ranks, [&](std::uint32_t rank) {
      worker::environment here = lone_rank(round);
      here.rank = here.local_rank = rank;
      here.world_size = here.local_world_size = ranks;
      here.master_address = "127.0.0.1";
      here.master_port = store.port();
      worker::snapshots_options options;
      options.folder = folder;
      options.keep = 2;
      options.writers = writers;
      options.rank_timeout = patience;
      options.on_message = messages.handler();
      options.files = &views[rank];
      auto made = worker::snapshots::open(here, options, opened[rank].problem);
      if (made) opened[rank].job = std::move(*made);
      if (!made) opened[rank].error = made.error();
    });
    return opened;
  }
  static bool is_open(const std::vector<rank_result>& job) { return job[0].job && job[1].job; }

  // Runs a job that saves twice, while something may fail.
  void live(round_number round, bool tries_again = false) {
    auto job = open(round);
    if (!is_open(job)) return;
    for (int turn = 0; turn < 2; ++turn) {
      const std::uint64_t step = 10 * static_cast<std::uint64_t>(2 * round + turn);
      auto errors = save(job, step);
      if (errors[0] != errors[1]) wrong = "the ranks differ over step " + std::to_string(step);
      for (int again = 0; errors[0] && tries_again && again < 4; ++again)
        errors = save(job, step);
      if (errors[0] && tries_again) wrong = "never saved: " + job[0].job->problem();
      if (errors[0] != errors[1]) wrong = "the ranks differ over step " + std::to_string(step);
      if (!errors[0] || !errors[1]) reported = step;
    }
  }
  // A job that saves twice and then loses a rank: the other one saves the step that it has come to.
  template <typename Before>
  void live_and_lose(round_number round, std::uint32_t survivor, Before before_emergency) {
    auto job = open(round);
    if (!is_open(job)) return;
    for (int turn = 0; turn < 2; ++turn) {
      const std::uint64_t step = 10 * static_cast<std::uint64_t>(2 * round + turn);
      if (save(job, step) == all(ranks)) reported = step;
    }
    job[1 - survivor].job.reset();
    before_emergency();
    const std::uint64_t step = 20 * static_cast<std::uint64_t>(round) + 15;
    const auto error =
        job[survivor].job->save_emergency(step, 0, small_state(step).view(), patience);
    if (!error) reported = step;
  }
  // Returns an empty text, or what is wrong for the next job.
  std::string check(round_number round) {
    for (auto& view : views)
      view.heal();
    if (auto lone = lone_manifest(disk, folder); !lone.empty()) return lone;
    auto job = open(round);
    if (!is_open(job)) return "cannot be opened: " + job[0].problem + "; " + job[1].problem;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto& found = job[rank].job->resumed();
      if (!found && reported != 0) return "nothing found";
      if (!found) continue;
      if (found->info.step < reported) return "an older one found";
      const bool is_emergency = found->info.is_emergency;
      if (!is_emergency && found->world_size != ranks) return "a rank is missing";
      if (is_emergency == found->own.has_value())
        return "a rank's part is missing, or is not its own";
      const std::string differs = small_state(found->info.step, rank).compare(*found);
      if (!differs.empty()) return differs;
    }
    if (save(job, 1000) != all(ranks)) return "cannot be saved to";
    return wrong.empty() ? lone_manifest(disk, folder) : wrong;
  }
};

}  // namespace ddprun::tests
