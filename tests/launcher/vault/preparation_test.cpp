// A preparation with two nodes, of which the other is this test.
#include "launcher/vault/preparation.hpp"

#include "launcher/vault/vault_files.hpp"
#include "tests/rendezvous/store/loopback.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/temporary_folder.hpp"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <sys/inotify.h>
#include <unistd.h>
#include <utility>

using namespace ddprun::launcher::vault;
using ddprun::tests::patience;
using ddprun::tests::served_store;
using ddprun::tests::temporary_folder;
namespace fs = std::filesystem;

namespace {

struct node {
  explicit node(std::uint64_t limit = 64 << 20) {
    shared->wanted.disk = disk;
    shared->wanted.memory = "/dev/shm";
    shared->wanted.size = limit;
    shared->mark = "test-" + std::to_string(::getpid());
    shared->memory_left = [] { return std::nullopt; };
    shared->ticket = 1;
    fs::create_directories(disk);
    memory = work.run(place(1, 1), false, 1);
    REQUIRE_FALSE(memory.empty());
  }
  ~node() { shared->home.remove(); }

  round_place place(std::uint64_t round, std::uint32_t nodes, std::uint32_t group_rank = 0) const {
    round_place here;
    here.group_rank = group_rank;
    here.nodes = nodes;
    here.round = round;
    here.is_together = nodes > 1;
    here.store_address = "127.0.0.1";
    here.store_port = store.port();
    here.word_limit = here.silence_limit = patience;
    return here;
  }
  // A second after the one before: the times of files that are written at once may be the same, as
  // the kernel's clock for them stands still between two ticks.
  void save(const std::string& name, std::size_t bytes = 5) {
    saved_at += std::chrono::seconds(1);
    fs::create_directories(memory + "/" + name);
    std::ofstream(memory + "/" + name + "/model") << std::string(bytes, 'm');
    std::ofstream(memory + "/" + name + "/.complete");
    for (const char* const file : {"/model", "/.complete"})
      fs::last_write_time(memory + "/" + name + file, saved_at);
  }
  bool has(const std::string& name) const { return fs::exists(memory + "/" + name + "/.complete"); }
  // In round 2, with another node that has step-1.
  void prepare(const std::function<bool()>& other_goes_on, const bring_part& other_brings) {
    auto other = std::async(std::launch::async, [&] {
      node_word word;
      word.held = {{1, {10, "step-1"}, {}}};
      disagreement why;
      return agree(place(2, 2, 1), word, other_goes_on, other_brings, why).has_value();
    });
    work.run(place(2, 2), false, 1);
    other.get();
  }
  bool is_on_disk(const std::string& prefix, const std::string& name) const {
    for (const auto& each : fs::directory_iterator(disk + "/node-0")) {
      const std::string found = each.path().filename().string();
      if (found.starts_with(prefix) && found.ends_with("-" + name)) return true;
    }
    return false;
  }

  served_store store;
  temporary_folder all;
  std::string disk = all.path + "/disk";
  std::shared_ptr<desk> shared = std::make_shared<desk>();
  preparation work{shared};
  std::string memory;
  fs::file_time_type saved_at = fs::file_time_type::clock::now() - std::chrono::hours(1);
};

}  // namespace

TEST_CASE("nothing is hidden before all nodes have agreed", "[vault]") {
  node here;
  here.save("step-1");
  here.save("step-2");
  bool is_over = false;
  here.prepare([&] { return !is_over; },
               [&](const agreed&, const std::function<bool()>&) {
                 is_over = true;
                 return false;
               });
  CHECK(here.has("step-1"));
  CHECK(here.has("step-2"));
}

TEST_CASE("what is hidden goes to disk before it goes from memory", "[vault]") {
  node here;
  here.save("step-1");
  here.save("step-2");
  SECTION("where it can") {
    here.prepare([] { return true; }, [](const agreed&, const auto&) { return true; });
    CHECK(here.is_on_disk("not-everywhere-", "step-2"));
    CHECK_FALSE(fs::exists(here.memory + "/step-2"));
  }
  SECTION("where it cannot it stays, and no worker takes it for complete") {
    // The copy in progress has this name, in a folder that does not exist.
    here.shared->mark = "a/b";
    here.prepare([] { return true; }, [](const agreed&, const auto&) { return true; });
    CHECK(fs::exists(here.memory + "/step-2/model"));
  }
  CHECK_FALSE(here.has("step-2"));
  CHECK(here.has("step-1"));
}

TEST_CASE("what is hidden has no marker any more before a disk is asked for anything", "[vault]") {
  // A disk that hangs does not keep the workers from being started.
  node here;
  here.save("step-1");
  here.save("step-2");
  const ddprun::unique_fd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  REQUIRE(watch);
  const int memory = ::inotify_add_watch(watch.get(), (here.memory + "/step-2").c_str(),
                                         IN_MOVED_FROM | IN_DELETE);
  const std::string disk = here.disk + "/node-0";
  REQUIRE(::inotify_add_watch(watch.get(), disk.c_str(), IN_CREATE | IN_MOVE) >= 0);
  here.prepare([] { return true; }, [](const agreed&, const auto&) { return true; });
  alignas(inotify_event) char events[4096];
  REQUIRE(::read(watch.get(), events, sizeof events) > 0);
  inotify_event first = {};
  std::memcpy(&first, events, sizeof first);
  CHECK(first.wd == memory);
  CHECK(std::string(events + sizeof first) == ".complete");
}

TEST_CASE("where the leader has no vault each node is on its own at once", "[vault]") {
  node here;
  here.save("step-1");
  std::string told;
  here.shared->tell_to([&](ddprun::note_level, const std::string& text) { told += text + "\n"; });
  round_place place = here.place(2, 2, 0);
  place.has_leader_vault = false;
  CHECK(here.work.run(place, false, 1) == here.memory);
  CHECK(here.work.run(place, false, 1) == here.memory);
  here.shared->tell_to({});
  CHECK(here.has("step-1"));
  CHECK(told ==
        "vault: node 0 has no --vault, or an older ddprun: the nodes keep no copies for each "
        "other, and each goes on from its newest entry\n");
}

TEST_CASE("copies go to the next node that has a vault, and the others are named", "[vault]") {
  node here;
  here.save("step-1");
  std::string told;
  here.shared->tell_to([&](ddprun::note_level, const std::string& text) { told += text + "\n"; });
  auto other = std::async(std::launch::async, [&] {
    node_word word;
    word.address = "127.0.0.1";
    word.port = 4711;
    word.token = "abc";
    disagreement why;
    return agree(
               here.place(2, 3, 2), word, [] { return true; },
               [](const agreed&, const auto&) { return true; }, why)
        .has_value();
  });
  CHECK(say_without_vault(here.place(2, 3, 1)));
  CHECK(here.work.run(here.place(2, 3), false, 1) == here.memory);
  CHECK(other.get());
  here.shared->tell_to({});
  CHECK(here.has("step-1"));
  CHECK(here.shared->buddy == peer{2, "127.0.0.1", 4711, "abc"});
  CHECK(told == "vault: node 1 has no --vault: nothing that is saved there is kept or put back\n");
}

TEST_CASE("a node without a vault in memory has its part of no entry", "[vault]") {
  node here;
  const bool has_saved = GENERATE(true, false);
  if (has_saved) {
    here.save("step-1");
    const auto memory = *open_folder(here.memory);
    const auto saved = complete_entries(list_files(memory.get()));
    REQUIRE(keep_on_disk(memory.get(), saved.back(), here.disk + "/node-0", "test", [](auto) {
              return true;
            }).is_done());
  }
  here.shared->current.reset();  // that agent is gone, and its memory
  const auto shared = std::make_shared<desk>();
  shared->wanted = here.shared->wanted;
  shared->wanted.memory = "/proc";
  shared->mark = "without-" + std::to_string(::getpid());
  shared->ticket = 1;
  auto other = std::async(std::launch::async, [&] {
    node_word word;
    word.held = {{1, {10, "step-1"}, {}}};
    disagreement why;
    return agree(
        here.place(2, 2, 1), word, [] { return true; },
        [](const agreed&, const auto&) { return true; }, why);
  });
  preparation without(shared);
  CHECK(without.run(here.place(2, 2), false, 1).empty());
  const auto found = other.get();
  REQUIRE(found);
  if (has_saved) {
    CHECK(found->choice.savers == std::set<std::uint32_t>{0, 1});
    CHECK(found->choice.parts.empty());
  } else {
    CHECK(found->choice.key.name == "step-1");
  }
}

TEST_CASE("bytes that are put back from the disk are counted, and told", "[vault]") {
  node here;
  here.save("step-1", 3 << 20);
  const auto memory = *open_folder(here.memory);
  const auto saved = complete_entries(list_files(memory.get()));
  REQUIRE(keep_on_disk(memory.get(), saved.back(), here.disk + "/node-0", "test", [](auto) {
            return true;
          }).is_done());
  remove_entry(memory.get(), "step-1");
  std::string told;
  here.shared->tell_to([&](ddprun::note_level, const std::string& text) { told += text + "\n"; });
  const std::uint64_t before = here.shared->moved;
  here.work.run(here.place(2, 1), false, 1);
  here.shared->tell_to({});
  CHECK(here.has("step-1"));
  CHECK(here.shared->moved - before == 3 << 20);
  CHECK(told.find("restoring step-1 from " + here.disk + "/node-0: 0 KiB of 3") !=
        std::string::npos);
}

// Its disk has hung, and the workers have been started without waiting for it.
TEST_CASE("a preparation that was given up leaves what the workers say they resumed from",
          "[vault]") {
  node here;
  here.save("step-1");
  const std::string note = here.memory + "/.resumed-from";
  std::ofstream(note) << "step-1\n";
  here.shared->ticket = 2;
  here.work.run(here.place(2, 1), false, 1);
  CHECK(fs::file_size(note) == 7);
  here.work.run(here.place(3, 1), false, 2);
  CHECK(fs::file_size(note) == 0);
}

TEST_CASE("only what was resumed from is set aside", "[vault]") {
  node here;
  here.save("step-1");
  here.save("step-2");
  const std::string note = here.memory + "/.resumed-from";
  // Another entry, nothing, and workers that die before they have resumed.
  const std::string said = GENERATE("step-1\n", "", "never written");
  for (std::uint64_t round = 2; round < 6; ++round) {
    here.work.run(here.place(round, 1), round > 2, 1);
    if (said != "never written" || round == 2) std::ofstream(note) << said;
  }
  here.work.run(here.place(6, 1), true, 1);
  CHECK(here.has("step-2"));
  CHECK(fs::file_size(note) == 0);
  for (std::uint64_t round = 7; round < 9; ++round) {
    std::ofstream(note) << "step-2\n";
    CHECK(here.has("step-2"));
    here.work.run(here.place(round, 1), true, 1);
  }
  CHECK_FALSE(here.has("step-2"));
  CHECK(here.is_on_disk("set-aside-", "step-2"));
}
