#include "launcher/evidence/server_folder.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

namespace fs = std::filesystem;

environment_map in_folder(const std::string& path) {
  return {{"TMPDIR", path}};
}

std::string above_in(const std::string& place) {
  return place + "/ddprun-servers-" + std::to_string(::geteuid());
}

}  // namespace

TEST_CASE("the folder of workers' servers is private, and gone with its agent") {
  const tests::temporary_folder place;
  std::optional<server_folder> folder(in_folder(place.path));
  REQUIRE(folder->path().starts_with(above_in(place.path) + "/"));
  struct stat found {};
  REQUIRE(::stat(folder->path().c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0700);
  std::ofstream(server_socket(folder->path(), 4711)) << "x";
  folder->empty();
  CHECK(fs::is_empty(folder->path()));
  std::ofstream(server_socket(folder->path(), 4712)) << "x";
  folder.reset();
  CHECK_FALSE(fs::exists(above_in(place.path)));
}

TEST_CASE("what a killed agent has left the next one removes, and nothing of one that lives") {
  const tests::temporary_folder place;
  std::optional<server_folder> living(in_folder(place.path));
  const std::string left = above_in(place.path) + "/abcdef";
  fs::create_directory(left);
  std::ofstream(left + "/4711") << "x";
  std::optional<server_folder> next(in_folder(place.path));
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(living->path()));
  CHECK(next->path() != living->path());
  next.reset();
  CHECK(fs::exists(living->path()));
}

TEST_CASE("where folders cannot be locked, none is used and none stays") {
  const tests::temporary_folder place;
  const auto fails_there = [&place](int error) {
    return [&place, error](int folder) {
      const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(folder));
      if (!path.string().starts_with(place.path)) return lock_folder(folder);
      errno = error;
      return -1;
    };
  };
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS, EIO}) {
    const server_folder elsewhere(in_folder(place.path), fails_there(error));
    CHECK_FALSE(elsewhere.path().starts_with(place.path));
    CHECK(fs::is_empty(place.path));
  }
}

TEST_CASE("a folder that others may enter, or a long path, is not used") {
  const tests::temporary_folder place;
  fs::create_directory(above_in(place.path));
  fs::permissions(above_in(place.path), fs::perms::all);
  const server_folder elsewhere(in_folder(place.path));
  CHECK_FALSE(elsewhere.path().starts_with(place.path));
  const std::string deep = place.path + "/" + std::string(120, 'd');
  fs::create_directory(deep);
  CHECK_FALSE(server_folder(in_folder(deep)).path().starts_with(deep));
  CHECK_FALSE(server_folder(in_folder("relative")).path().starts_with("relative"));
}

}  // namespace ddprun::launcher::evidence
