// Two ranks, each with a disk of its own that fails at any one of its steps, or from there on: what
// was reported saved is found again by both, and both say the same of each snapshot. Once on a disk
// that shows all as it is, and on NFS, with each rank on the other machine in the next round.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/fault_file_system.hpp"
#include "tests/worker/snapshot/nfs_client.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"

#include <mutex>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

constexpr std::uint32_t ranks = 2;

// The folder as one rank sees it: all have the same files, and each its own way to fail.
class view_of_disk : public file_system {
 public:
  view_of_disk(file_system& disk, std::mutex& mutex) : disk_(&disk), mutex_(mutex) {}

  void use(file_system& disk) { disk_ = &disk; }
  void fail(std::size_t step, std::size_t count) {
    fail_step_ = step;
    fail_count_ = count;
  }
  void heal() { fail_step_.reset(); }
  std::size_t steps() const { return steps_; }

  error_code make_folder(const std::string& path, bool& made) override {
    return guarded<error_code>([&] { return disk_->make_folder(path, made); });
  }
  result<std::unique_ptr<output_file>> create(const std::string& path) override {
    auto file = guarded<result<std::unique_ptr<output_file>>>([&] { return disk_->create(path); });
    if (!file) return file.error();
    return std::unique_ptr<output_file>(std::make_unique<output>(*this, std::move(*file)));
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
  result<std::unique_ptr<mapped_file>> map(const std::string& path) override {
    return guarded<result<std::unique_ptr<mapped_file>>>([&] { return disk_->map(path); });
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
  class output : public output_file {
   public:
    output(view_of_disk& of, std::unique_ptr<output_file> file) : of_(of), file_(std::move(file)) {}
    error_code write(std::string_view bytes) override {
      return of_.guarded<error_code>([&] { return file_->write(bytes); });
    }
    error_code finish() override {
      return of_.guarded<error_code>([&] { return file_->finish(); });
    }

   private:
    view_of_disk& of_;
    std::unique_ptr<output_file> file_;
  };

  template <typename Result, typename Work>
  Result guarded(const Work& work) {
    const std::lock_guard lock(mutex_);
    const std::size_t now = steps_++;
    const bool fails = fail_step_ && now >= *fail_step_ && now - *fail_step_ < fail_count_;
    if (fails) return system_error(EIO);
    return work();
  }

  file_system* disk_;
  std::mutex& mutex_;
  std::size_t steps_ = 0;
  std::optional<std::size_t> fail_step_;
  std::size_t fail_count_ = 1;
};

enum class shared_by { one_disk, nfs, nfs_with_nocto };

// Jobs of two ranks, one round after the other, on one folder.
struct two_ranks {
  explicit two_ranks(shared_by how, std::uint32_t writers_wanted = 1)
      : is_nfs(how != shared_by::one_disk), writers(writers_wanted) {
    const bool nocto = how == shared_by::nfs_with_nocto;
    for (auto& machine : machines)
      machine = std::make_unique<nfs_client>(server, nocto);
  }

  served_store store;
  fault_file_system disk;
  std::mutex mutex;
  nfs_server server{disk, mutex};
  bool is_nfs;
  std::uint32_t writers;  // of what all have alike
  std::unique_ptr<nfs_client> machines[ranks];
  view_of_disk views[ranks] = {{disk, mutex}, {disk, mutex}};
  message_list messages;
  std::uint64_t reported = 0;  // the newest step that a rank took for saved
  std::string wrong;

  std::vector<rank_result> open(round_number round) {
    std::vector<rank_result> opened(ranks);
    for (std::uint32_t rank = 0; is_nfs && rank < ranks; ++rank)
      views[rank].use(*machines[(rank + round) % ranks]);
    job_under_test::on_all(ranks, [&](std::uint32_t rank) {
      environment here = lone_rank(round);
      here.rank = here.local_rank = rank;
      here.world_size = here.local_world_size = ranks;
      here.master_address = "127.0.0.1";
      here.master_port = store.port();
      snapshots_options options;
      options.folder = "f";
      options.keep = 2;
      options.writers = writers;
      options.rank_timeout = patience;
      options.on_message = messages.handler();
      options.files = &views[rank];
      auto made = snapshots::open(here, options, opened[rank].problem);
      if (made) opened[rank].job = std::move(*made);
      if (!made) opened[rank].error = made.error();
    });
    return opened;
  }
  static bool is_open(const std::vector<rank_result>& job) { return job[0].job && job[1].job; }

  // A job that saves twice, while something may fail.
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
  // Empty, or what the next job does not find as it must be.
  std::string check(round_number round) {
    for (auto& view : views)
      view.heal();
    auto job = open(round);
    if (!is_open(job)) return "cannot be opened: " + job[0].problem + "; " + job[1].problem;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto& found = job[rank].job->resumed();
      if (!found && reported != 0) return "nothing found";
      if (!found) continue;
      if (found->info.step < reported) return "an older one found";
      if (found->world_size != ranks || !found->own) return "a rank's part is missing";
      const std::string differs = small_state(found->info.step, rank).compare(*found);
      if (!differs.empty()) return differs;
    }
    return save(job, 1000) == all(ranks) ? wrong : "cannot be saved to";
  }
};

// Of a rank, in a round after one that went well.
std::size_t steps_of_a_ranks_life(std::uint32_t rank, shared_by how, std::uint32_t writers) {
  two_ranks test(how, writers);
  test.live(1);
  const std::size_t before = test.views[rank].steps();
  test.live(2);
  return test.views[rank].steps() - before;
}

}  // namespace

TEST_CASE("on NFS a restart finds the newest snapshot from any machine", "[snapshot]") {
  two_ranks test(GENERATE(shared_by::nfs, shared_by::nfs_with_nocto), GENERATE(1u, 2u));
  for (const round_number round : {1, 2, 3, 4}) {
    auto job = test.open(round);
    INFO(job[0].problem << "; " << job[1].problem);
    REQUIRE(two_ranks::is_open(job));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto& found = job[rank].job->resumed();
      REQUIRE(found.has_value() == (round > 1));
      if (round > 1) CHECK(small_state(10 * (round - 1), rank).compare(*found) == "");
    }
    CHECK(save(job, 10 * round) == all(ranks));
  }
  CHECK(test.messages.text() == "");
}

TEST_CASE("an error of any step of either rank costs no earlier snapshot", "[snapshot]") {
  const auto [how, writers] =
      GENERATE(std::pair(shared_by::one_disk, 1u), std::pair(shared_by::one_disk, 2u),
               std::pair(shared_by::nfs, 1u), std::pair(shared_by::nfs, 2u),
               std::pair(shared_by::nfs_with_nocto, 1u));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::size_t steps = steps_of_a_ranks_life(rank, how, writers);
    REQUIRE(steps > 15);
    for (std::size_t at = 0; at < steps; ++at) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{3}, ~std::size_t{0}}) {
        INFO("shared by " << static_cast<int>(how) << ", writers " << writers << ", rank " << rank
                          << ", step " << at << " of " << steps << ", fails " << count);
        two_ranks test(how, writers);
        test.live(1);
        REQUIRE(test.reported == 30);
        test.views[rank].fail(test.views[rank].steps() + at, count);
        test.live(2, count == 3);
        const std::string wrong = test.check(3);
        INFO(test.messages.text());
        REQUIRE(wrong == "");
      }
    }
  }
}

}  // namespace ddprun::tests
