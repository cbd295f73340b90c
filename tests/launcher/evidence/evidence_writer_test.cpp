// A write call that waits for the test stands for a disk that hangs.
#include "launcher/evidence/evidence_writer.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::launcher::evidence {
namespace {

struct hanging_disk {
  hanging_disk() : call(std::make_shared<written>()) {}
  ~hanging_disk() { work(); }

  // Owned by threads that may be left behind.
  struct written {
    std::promise<void> works;
    std::shared_future<void> is_working = works.get_future().share();
    std::atomic<int> calls{0};
  };
  evidence_writer::write_call write() const {
    return [disk = call](const std::string&, const node_evidence&) {
      ++disk->calls;
      disk->is_working.wait();
      return std::string();
    };
  }
  void work() {
    if (call->is_working.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      call->works.set_value();
  }
  int calls() const { return call->calls; }

  std::shared_ptr<written> call;
};

}  // namespace

TEST_CASE("a disk that hangs has one thread, however many rounds fail, and there is one warning") {
  const tests::temporary_folder folder;
  hanging_disk disk;
  std::vector<std::string> said;
  boost::asio::io_context io;
  evidence_writer::outside given;
  given.say = [&said](note_level level, const std::string& text) {
    if (level == note_level::warning) said.push_back(text);
  };
  given.memory_files = [] { return std::vector<std::string>(); };
  evidence_writer writer(io.get_executor(), given, disk.write());
  const auto place_of = [&folder](int round) { return folder.path + "/" + std::to_string(round); };
  const auto keep = [&](int round) {
    writer.keep({static_cast<round_number>(round), "", place_of(round)}, {}, note_level::info,
                "words");
  };
  for (const int round : {1, 2, 3, 4})
    keep(round);
  CHECK(writer.newest().round == 4);
  CHECK(writer.newest().folder.empty());
  REQUIRE(said.size() == 1);
  CHECK(said[0] ==
        "the evidence of round 3 is not kept: that of round 1 is still being written to " +
            place_of(1) + "; is its disk stuck?");
  REQUIRE(tests::run_until(io, [&disk] { return disk.calls() >= 1; }));
  CHECK(disk.calls() == 1);
  disk.work();
  bool is_done = false;
  writer.when_written([&is_done] { is_done = true; });
  REQUIRE(tests::run_until(io, [&is_done] { return is_done; }));
  CHECK(disk.calls() == 2);
  keep(5);
  CHECK(writer.newest().folder == place_of(5));
  CHECK(said.size() == 1);
}

}  // namespace ddprun::launcher::evidence
