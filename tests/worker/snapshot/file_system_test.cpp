// Snapshots on a real disk: files that have the name of a snapshot but are none do no harm.
#include "worker/snapshot/file_system.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/worker/snapshot/small_job.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;
using tests::temporary_folder;

}  // namespace

TEST_CASE("pipes, files and folders with names of ours are passed over", "[snapshot]") {
  const temporary_folder place;
  const std::string folder = place.path + "/a/b";
  message_list messages;
  snapshots_options options;
  options.folder = folder;
  options.keep = 1;
  options.on_message = messages.handler();
  std::string problem;
  const auto open = [&](round_number round) {
    auto opened = snapshots::open(lone_rank(round), options, problem);
    INFO(problem);
    REQUIRE(opened.has_value());
    return std::move(*opened);
  };
  open(1);
  REQUIRE(::mkfifo((folder + "/snapshot-000008-000001").c_str(), 0600) == 0);
  REQUIRE(::mkdir((folder + "/snapshot-000009-000001").c_str(), 0700) == 0);
  REQUIRE(::mkfifo((folder + "/snapshot-000009-000001/manifest.json").c_str(), 0600) == 0);
  REQUIRE(::mkfifo((folder + "/claim-000010").c_str(), 0600) == 0);
  std::filesystem::create_directories(folder + "/claim-000007/x");

  const auto job = open(2);
  CHECK(!job->resumed());
  CHECK(job->generation() == 11);
  for (const std::uint64_t step : {1, 2}) {
    CHECK_FALSE(job->save(step, step, small_state(step).view()));
    CHECK_FALSE(job->wait());
  }
  const auto next = open(3);
  REQUIRE(next->resumed().has_value());
  CHECK(small_state(2).compare(*next->resumed()) == "");
  CHECK(std::filesystem::exists(folder + "/snapshot-000009-000001/manifest.json"));
  CHECK(!std::filesystem::exists(folder + "/snapshot-000011-000001"));
}

TEST_CASE("a folder is made once, and a file in its place is named", "[snapshot]") {
  const temporary_folder place;
  file_system& files = posix_file_system();
  bool made = false;
  CHECK((!files.make_folder(place.path + "/new", made) && made));
  CHECK((!files.make_folder(place.path + "/new", made) && !made));
  std::ofstream(place.path + "/file").put('x');
  CHECK(files.make_folder(place.path + "/file", made) == system_error(ENOTDIR));
  CHECK(files.read(place.path + "/new", 10).error() == errc::not_found);
  CHECK(files.size(place.path + "/new").error() == errc::not_found);
  CHECK(files.map(place.path + "/new").error() == errc::not_found);
  CHECK(*files.size(place.path + "/file") == 1);
}

TEST_CASE("a file is renamed only if its new name is free", "[snapshot]") {
  const temporary_folder place;
  file_system& files = posix_file_system();
  const auto path = [&](const char* name) { return place.path + "/" + name; };
  REQUIRE_FALSE(write_whole(files, path("mine"), "mine"));
  REQUIRE_FALSE(write_whole(files, path("theirs"), "theirs"));
  CHECK(files.rename_to_new(path("mine"), path("theirs")) == system_error(EEXIST));
  CHECK(*files.read(path("mine"), 10) == "mine");
  CHECK(*files.read(path("theirs"), 10) == "theirs");
  CHECK_FALSE(files.rename_to_new(path("mine"), path("new")));
  CHECK(files.size(path("mine")).error() == system_error(ENOENT));
  CHECK(*files.read(path("new"), 10) == "mine");
  CHECK(files.rename_to_new(path("mine"), path("other")) == system_error(ENOENT));

  // As on NFS, if the server has renamed it but its reply was lost.
  REQUIRE(::link(path("new").c_str(), path("done").c_str()) == 0);
  CHECK_FALSE(files.rename_to_new(path("new"), path("done")));
  CHECK(files.size(path("new")).error() == system_error(ENOENT));
  CHECK(*files.read(path("done"), 10) == "mine");
}

TEST_CASE("a file is read by mapping and in pieces as it was written", "[snapshot]") {
  const temporary_folder place;
  file_system& files = posix_file_system();
  const std::string path = place.path + "/file";
  std::string bytes(20'000'000, 'a');
  for (std::size_t at = 0; at < bytes.size(); at += 4099)
    bytes[at] = static_cast<char>(at);
  auto file = files.create(path);
  REQUIRE(file.has_value());
  CHECK(files.create(path).error() == system_error(EEXIST));
  CHECK_FALSE((*file)->write(std::string_view(bytes).substr(0, 7)));
  CHECK_FALSE((*file)->write(std::string_view(bytes).substr(7)));
  CHECK_FALSE((*file)->finish());
  const auto mapped = files.map(path);
  REQUIRE(mapped.has_value());
  CHECK(((*mapped)->bytes() == bytes));
  std::string scanned;
  CHECK_FALSE(files.scan(path, [&](std::string_view piece) { scanned += piece; }));
  CHECK((scanned == bytes));
  CHECK(files.remove_folder(place.path) == system_error(ENOTEMPTY));
  CHECK_FALSE(write_whole(files, place.path + "/empty", ""));
  CHECK((*files.map(place.path + "/empty"))->bytes().empty());
}

}  // namespace ddprun::tests
