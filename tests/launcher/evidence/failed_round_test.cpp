// What is saved of a failed round, and when. It uses files only, no processes.
#include "launcher/evidence/failed_round.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher::evidence {
namespace {

worker_end end_of(std::uint32_t rank, int code, const std::string& errors) {
  worker_end end;
  end.rank = end.local_rank = rank;
  end.pid = 4711 + static_cast<pid_t>(rank);
  end.how = exit_status{code};
  end.tail = errors;
  return end;
}

rank_evidence living(std::uint32_t rank) {
  rank_evidence one;
  one.rank = one.local_rank = rank;
  return one;
}

struct kept_round {
  evidence_writer::outside given() {
    evidence_writer::outside with;
    with.say = [this](note_level level, const std::string& text) {
      said.emplace_back(level, text);
    };
    with.memory_files = [] { return std::vector<std::string>(); };
    return with;
  }
  // False: no write was in progress.
  bool finish() {
    bool is_done = false;
    writer.when_written([&] { is_done = true; });
    const bool is_late = !is_done;
    REQUIRE(tests::run_until(io, [&is_done] { return is_done; }));
    return is_late;
  }

  tests::temporary_folder folder;
  std::string place = folder.path + "/evidence";
  std::vector<std::pair<note_level, std::string>> said;
  boost::asio::io_context io;
  evidence_writer writer{io.get_executor(), given()};
  std::string kernel_log = folder.file("kernel log", "", 0600);
  failed_round round{writer, kernel_news(kernel_log, true)};
};

}  // namespace

TEST_CASE("what is known of a round is kept where a worker of this node has failed") {
  kept_round here;
  here.round.begin();
  here.round.has_failed(3);
  here.round.note_end(end_of(0, 1, "ValueError: loss is NaN\n"), false);
  here.round.take(3, here.place, {living(1)});
  CHECK(here.writer.newest().round == 3);
  CHECK(here.finish());
  CHECK(tests::content_of(here.place + "/rank_0.txt").find("it ended: exit code 1\n") !=
        std::string::npos);
  CHECK(tests::content_of(here.place + "/rank_0.txt").find("ValueError: loss is NaN\n") !=
        std::string::npos);
  CHECK(tests::content_of(here.place + "/rank_1.txt")
            .find("it had not ended when the round was stopped\n") != std::string::npos);
  REQUIRE(here.said.size() == 1);
  CHECK(here.said[0].first == note_level::debug);
  CHECK(here.said[0].second == "evidence of the failure of round 3: " + here.place);
}

TEST_CASE("where no worker of this node has failed, the report says whether it is kept") {
  for (const bool is_failure : {false, true}) {
    CAPTURE(is_failure);
    kept_round here;
    here.round.begin();
    here.round.note_end(end_of(0, 0, ""), true);
    here.round.take(3, here.place, {});
    here.round.judge(2, true);  // of a round before
    CHECK_FALSE(here.finish());
    here.round.judge(3, is_failure);
    CHECK(here.finish() == is_failure);
    CHECK(std::filesystem::exists(here.place) == is_failure);
  }
}

TEST_CASE("what is known of a round is taken once, and nothing of the round before is in it") {
  kept_round here;
  here.round.begin();
  here.round.note_end(end_of(0, 0, ""), true);
  here.round.begin();
  here.round.has_failed(4);
  here.round.note_end(end_of(1, 1, ""), false);
  here.round.take(4, here.place, {});
  here.round.take(4, here.place, {living(0)});
  CHECK(here.finish());
  CHECK(std::filesystem::exists(here.place + "/rank_1.txt"));
  CHECK_FALSE(std::filesystem::exists(here.place + "/rank_0.txt"));
}

TEST_CASE("evidence that cannot be written is one warning, and names no folder") {
  kept_round here;
  std::filesystem::create_directory(here.place);
  here.round.begin();
  here.round.has_failed(3);
  here.round.take(3, here.place, {living(0)});
  CHECK(here.writer.newest().folder == here.place);
  CHECK(here.finish());
  CHECK(here.writer.newest().folder.empty());
  REQUIRE(here.said.size() == 1);
  CHECK(here.said[0].first == note_level::warning);
  CHECK(here.said[0].second == "cannot save the evidence in " + here.place + ": File exists");
}

TEST_CASE("a GPU is suspected where a worker speaks of CUDA, or the kernel of a fault") {
  kept_round here;
  here.round.begin();
  cause why;
  why.tail = "ValueError: loss is NaN\n";
  here.round.name_gpu_fault(why);
  CHECK_FALSE(here.round.suspects_gpu());
  SECTION("a worker's own error") {
    why.tail = "RuntimeError: CUDA error: unspecified launch failure\n";
    why.is_secondary = true;  // another's
    here.round.name_gpu_fault(why);
    CHECK_FALSE(here.round.suspects_gpu());
    why.is_secondary = false;
    here.round.name_gpu_fault(why);
  }
  SECTION("the kernel's word, though no worker has heard of it") {
    std::ofstream log(here.kernel_log, std::ios::app);
    log << "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 45, pid=17, name=python, Ch 00000008\n"
        << std::flush;
    CHECK_FALSE(here.round.suspects_gpu());  // a process has ended
    log << "4,2,3,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n" << std::flush;
  }
  CHECK(here.round.suspects_gpu());
  here.round.begin();
  CHECK_FALSE(here.round.suspects_gpu());
}

}  // namespace ddprun::launcher::evidence
