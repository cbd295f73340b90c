#include "rendezvous/base/private_folders.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace ddprun;
namespace fs = std::filesystem;

namespace {

unsigned mode_of(const std::string& path) {
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  return found.st_mode & 0777U;
}

}  // namespace

TEST_CASE("a private folder and those above it are made, for this user alone") {
  const tests::temporary_folder at;
  const std::string path = at.path + "/a/b/c";
  REQUIRE_FALSE(make_private_folders(path));
  for (const char* const made : {"a", "a/b", "a/b/c"})
    CHECK(mode_of(at.path + "/" + made) == 0700);
  CHECK_FALSE(make_private_folders(at.path + "/a/b/c/d/"));
  CHECK(fs::is_directory(at.path + "/a/b/c/d"));
}

TEST_CASE("a folder that is there stays as it is") {
  const tests::temporary_folder at;
  fs::create_directory(at.path + "/open");
  fs::permissions(at.path + "/open", fs::perms(0755));
  fs::create_directory_symlink(at.path + "/open", at.path + "/link");
  for (const char* const name : {"open", "link", "link/"})
    CHECK_FALSE(make_private_folders(at.path + "/" + name));
  CHECK(mode_of(at.path + "/open") == 0755);
  CHECK_FALSE(make_private_folders("/"));
  CHECK_FALSE(make_private_folders("."));
  CHECK_FALSE(make_private_folders("/proc/self/fd"));  // no folder can be created there
}

TEST_CASE("what is in the way of a private folder is named") {
  const tests::temporary_folder at;
  std::ofstream(at.path + "/file") << "taken";
  fs::create_symlink(at.path + "/nowhere", at.path + "/dangling");
  CHECK(make_private_folders(at.path + "/file").value() == ENOTDIR);
  CHECK(make_private_folders(at.path + "/file/below").value() == ENOTDIR);
  CHECK(make_private_folders(at.path + "/dangling").value() == EEXIST);
  CHECK(make_private_folders("/proc/none/below"));
}

TEST_CASE("in another user's folder, and in the root's, none is made that is to be in an own one") {
  const tests::temporary_folder at;
  CHECK_FALSE(make_private_folders(at.path + "/own/below", folder_owner::this_user));
  CHECK(fs::is_directory(at.path + "/own/below"));
  CHECK(make_private_folders("/ddprun-test-of-none/x", folder_owner::this_user).value() == EPERM);
  CHECK_FALSE(fs::exists("/ddprun-test-of-none"));
  CHECK_FALSE(make_private_folders("/usr", folder_owner::this_user));  // nothing is missing
  if (::geteuid() != 0) return;
  REQUIRE(::chown((at.path + "/own").c_str(), 1, 1) == 0);
  CHECK(make_private_folders(at.path + "/own/other", folder_owner::this_user).value() == EPERM);
  CHECK_FALSE(make_private_folders(at.path + "/own/other"));
}
