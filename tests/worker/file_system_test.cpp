// Snapshots on a real disk: what has the name of a snapshot, and is none, does no harm.
#include "worker/file_system.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "worker/snapshot.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;
using test::temporary_folder;

}  // namespace

TEST_CASE("pipes and folders with names of ours are passed over", "[snapshot]") {
  const temporary_folder place;
  const std::string folder = place.path + "/a/b";
  std::vector<std::string> messages;
  snapshot_options options;
  options.folder = folder;
  options.keep = 1;
  options.instance = 7;
  options.on_message = [&](const std::string& line) { messages.push_back(line); };
  REQUIRE(snapshot_writer::open(posix_file_system(), options).has_value());
  REQUIRE(::mkfifo((folder + "/snapshot-000008-000001.ddprun").c_str(), 0600) == 0);
  REQUIRE(::mkdir((folder + "/snapshot-000009-000001.ddprun").c_str(), 0700) == 0);
  REQUIRE(::mkdir((folder + "/snapshot-000009-000002.ddprun.tmp").c_str(), 0700) == 0);
  REQUIRE(::mkfifo((folder + "/claim-000010").c_str(), 0600) == 0);

  const auto nothing = newest_snapshot(posix_file_system(), folder, options.on_message);
  REQUIRE(nothing.has_value());
  CHECK(!*nothing);
  CHECK(messages.back() ==
        "snapshot " + folder + "/snapshot-000008-000001.ddprun skipped: it is no file");
  auto writer = snapshot_writer::open(posix_file_system(), options);
  REQUIRE(writer.has_value());
  CHECK(writer->tenure() == 11);
  REQUIRE(writer->save(1, 1, "one").has_value());
  REQUIRE(writer->save(2, 2, "two").has_value());
  const auto found = newest_snapshot(posix_file_system(), folder, options.on_message);
  REQUIRE(found.has_value());
  CHECK((*found)->payload() == "two");
  CHECK(std::filesystem::exists(folder + "/snapshot-000009-000001.ddprun"));
  CHECK(!std::filesystem::exists(folder + "/snapshot-000011-000001.ddprun"));
}

TEST_CASE("a folder is made once, and a file in its place is named", "[snapshot]") {
  const temporary_folder place;
  file_system& files = posix_file_system();
  bool made = false;
  CHECK((!files.make_folder(place.path + "/new", made) && made));
  CHECK((!files.make_folder(place.path + "/new", made) && !made));
  std::ofstream(place.path + "/file").put('x');
  CHECK(files.make_folder(place.path + "/file", made) ==
        error_code(ENOTDIR, boost::system::system_category()));
  CHECK(files.read(place.path + "/new", 10).error() == errc::not_found);
  CHECK(files.read_head(place.path + "/file", 10)->file_bytes == 1);
}

}  // namespace ddprun::tests
