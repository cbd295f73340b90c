#include "launcher/vault/memory_guard.hpp"

#include "tests/support/catch.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace ddprun::launcher::vault;
namespace fs = std::filesystem;

namespace {

found_file written(std::string path, std::uint64_t size, bool is_hollow = false) {
  return {std::move(path), file_kind::regular, size, size, 1, is_hollow};
}

// Not every file system can punch holes.
struct folder_in_memory {
  folder_in_memory() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~folder_in_memory() { fs::remove_all(path); }

  std::string path = "/dev/shm/ddprun-test-XXXXXX";
};

std::string paths_of(const std::vector<found_file>& files) {
  std::string text;
  for (const found_file& one : files)
    text += one.path + " ";
  return text;
}

}  // namespace

TEST_CASE("what is being written gives way, the largest first, and no whole entry does",
          "[vault]") {
  const std::vector<found_file> found = {
      written("step-1/model", 50), written("step-1/.complete", 0), written("step-2/model", 30),
      written("step-2/optimizer", 60), written("log", 1)};
  CHECK(paths_of(to_hollow(found, 141)).empty());
  CHECK(paths_of(to_hollow(found, 140)) == "step-2/optimizer ");
  CHECK(paths_of(to_hollow(found, 80)) == "step-2/optimizer step-2/model ");
  CHECK(paths_of(to_hollow(found, 0)) == "step-2/optimizer step-2/model log ");
}

// Without it the launcher would count a failure against an entry that no worker has resumed from.
TEST_CASE("what workers say that they resumed from does not give way", "[vault]") {
  const std::vector<found_file> found = {written(".resumed-from", 4096),
                                         written("out/.resumed-from", 4096),
                                         written("out/step-2/model", 30)};
  CHECK(paths_of(to_hollow(found, 0)) == "out/step-2/model ");
}

TEST_CASE("what is hollow stays so, whatever is written to it", "[vault]") {
  std::vector<found_file> found = {written("step-2/model", 30, true), written("other", 10)};
  CHECK(paths_of(to_hollow(found, 1000)) == "step-2/model ");
  CHECK(paths_of(to_hollow(found, 10)) == "step-2/model ");
  found.push_back(written("step-2/.complete", 0));
  CHECK(paths_of(to_hollow(found, 1000)) == "step-2/model ");
  found[0].occupied = 0;
  CHECK(paths_of(to_hollow(found, 1000)).empty());
}

TEST_CASE("a hollow file takes no memory, its writer goes on, and its entry is never whole",
          "[vault]") {
  const folder_in_memory folder;
  fs::create_directories(folder.path + "/step-1");
  const std::string path = folder.path + "/step-1/model";
  ddprun::unique_fd writer(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string megabyte(1 << 20, 'm');
  REQUIRE(::write(writer.get(), megabyte.data(), megabyte.size()) == 1 << 20);
  const auto memory = *open_folder(folder.path);
  const auto look = [&] {
    for (const found_file& one : list_files(memory.get())) {
      if (one.path == "step-1/model") return one;
    }
    return found_file{};
  };
  CHECK(look().occupied >= 1 << 20);
  REQUIRE(make_hollow(memory.get(), look()));
  CHECK((look().is_hollow && look().occupied == 0 && look().size == 1 << 20));
  REQUIRE(::write(writer.get(), megabyte.data(), megabyte.size()) == 1 << 20);
  CHECK((look().is_hollow && look().occupied >= 1 << 20));
  REQUIRE(make_hollow(memory.get(), look()));
  CHECK(look().occupied == 0);
  std::ofstream(folder.path + "/step-1/.complete");
  const auto complete = complete_entries(list_files(memory.get()));
  REQUIRE(complete.size() == 1);
  CHECK(complete[0].problem == "it had no room in memory");
  remove_hollow(memory.get());
  CHECK(list_files(memory.get()).empty());
  CHECK_FALSE(make_hollow(memory.get(), written("step-1/model", 1)));
}
