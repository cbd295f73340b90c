#include "launcher/output/log_folder.hpp"

#include "rendezvous/base/utf8.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>

using namespace ddprun;
using namespace ddprun::launcher;
using ddprun::tests::temporary_folder;

namespace {

namespace fs = std::filesystem;
constexpr auto to_output = log::output_stream::output;
constexpr auto to_errors = log::output_stream::errors;

struct folder_to_fill {
  log_folder make() {
    const environment_map environment = {{"TMPDIR", folder.path}};
    auto made = log_folder::make(options, "job/7", "node-a", "00ab", environment);
    REQUIRE(made.has_value());
    return *made;
  }

  temporary_folder folder;
  output_options options;
};

}  // namespace

TEST_CASE("a log folder is made in the one that was named, with run and node in its name") {
  folder_to_fill at;
  at.options.log_dir = at.folder.path + "/new/logs";
  const log_folder one = at.make();
  const log_folder other = at.make();
  CHECK(fs::path(one.path()).parent_path() == at.options.log_dir);
  CHECK(fs::path(one.path()).filename().string().starts_with("job_7_node-a_"));
  CHECK(one.path() != other.path());
  CHECK((fs::status(one.path()).permissions() & fs::perms::group_read) != fs::perms::none);
}

TEST_CASE(
    "a log folder's name is short enough for a file system, and ends no letter in its middle") {
  folder_to_fill at;
  at.options.log_dir = at.folder.path;
  std::string id;
  for (int letter = 0; letter < 200; ++letter)
    id += "\u00e9";  // two bytes each
  const auto made = log_folder::make(at.options, "j" + id, std::string(300, 'n'), "00ab", {});
  REQUIRE(made.has_value());
  CHECK(is_valid_utf8(made->path()));
  CHECK(fs::is_directory(made->path()));
}

TEST_CASE("a log folder in one of a group (setgid) hands the group on") {
  folder_to_fill at;
  at.options.log_dir = at.folder.path + "/of_group";
  fs::create_directory(at.options.log_dir);
  REQUIRE(::chmod(at.options.log_dir.c_str(), 02775) == 0);
  CHECK((fs::status(at.make().path()).permissions() & fs::perms::set_gid) != fs::perms::none);
}

TEST_CASE("a round's folder has torchrun's name, and no round takes that of another") {
  folder_to_fill at;
  at.options.log_dir = at.folder.path;
  log_folder folder = at.make();
  folder.begin_round(1, 0);
  CHECK(folder.attempt() == folder.path() + "/attempt_0");
  CHECK(folder.worker_folders(2) ==
        std::vector<std::string>{folder.attempt() + "/0", folder.attempt() + "/1"});
  CHECK(folder.error_files(2) == std::vector<std::string>{folder.attempt() + "/0/error.json",
                                                          folder.attempt() + "/1/error.json"});
  folder.begin_round(2, 1);
  CHECK(folder.attempt() == folder.path() + "/attempt_1");
  // A node has joined: the number of restarts is the same.
  folder.begin_round(5, 1);
  CHECK(folder.attempt() == folder.path() + "/attempt_1_round_5");
}

TEST_CASE("streams go to files, to ours, or to both") {
  folder_to_fill at;
  at.options.redirects = *read_streams("", "1:3");
  at.options.tee = *read_streams("", "2:1");
  at.options.stdout_filters = {"loss"};
  at.options.stderr_filters = {"error"};
  log_folder folder = at.make();
  folder.begin_round(1, 0);
  const auto route = [&](std::uint32_t rank, log::output_stream stream) {
    return folder.route(at.options, rank, stream, "[p] ");
  };
  CHECK(route(0, to_output).is_shown);
  CHECK(route(0, to_output).prefix == "[p] ");
  CHECK(route(0, to_output).file.empty());
  CHECK_FALSE(route(1, to_errors).is_shown);
  CHECK(route(1, to_errors).file == folder.attempt() + "/1/stderr.log");
  CHECK(route(1, to_errors).needles.empty());
  CHECK(route(2, to_output).is_shown);
  CHECK(route(2, to_output).file == folder.attempt() + "/2/stdout.log");
  CHECK(route(2, to_output).needles == std::vector<std::string>{"loss"});
  CHECK(route(2, to_output).matches_file == folder.attempt() + "/filtered_stdout.log");
  CHECK(route(2, to_errors).file.empty());
  CHECK(route(2, to_errors).needles.empty());
}

TEST_CASE("local ranks that are filtered out have their files, and are not shown") {
  folder_to_fill at;
  at.options.tee = *read_streams("", "1");
  at.options.stdout_filters = {"loss"};
  at.options.shown = {0};
  log_folder folder = at.make();
  folder.begin_round(1, 0);
  CHECK(folder.route(at.options, 0, to_output, "").is_shown);
  const log_route hidden = folder.route(at.options, 1, to_output, "");
  CHECK_FALSE(hidden.is_shown);
  CHECK_FALSE(hidden.file.empty());
  CHECK(hidden.needles.empty());
  CHECK_FALSE(folder.route(at.options, 1, to_errors, "").is_shown);
}

TEST_CASE("with /dev/null there are no files, and the filter holds") {
  folder_to_fill at;
  at.options.log_dir = "/dev/null";
  at.options.redirects = *read_streams("", "3");
  at.options.shown = {0};
  log_folder folder = at.make();
  folder.begin_round(1, 0);
  CHECK(folder.path().empty());
  CHECK(folder.worker_folders(3).empty());
  CHECK(folder.route(at.options, 0, to_output, "").is_shown);
  CHECK(folder.route(at.options, 0, to_output, "").file.empty());
  CHECK_FALSE(folder.route(at.options, 1, to_output, "").is_shown);
  CHECK(folder.error_files(3).empty());
}

TEST_CASE("a run that asks for no files has no folder, and names for error files") {
  folder_to_fill at;
  log_folder folder = at.make();
  folder.begin_round(3, 1);
  CHECK(folder.path().empty());
  CHECK(folder.worker_folders(2).empty());
  CHECK(folder.route(at.options, 0, to_output, "").file.empty());
  const std::string start = at.folder.path + "/ddprun_00ab_round_3_error_";
  CHECK(folder.error_files(2) == std::vector<std::string>{start + "0.json", start + "1.json"});
  CHECK(fs::is_empty(at.folder.path));
}

TEST_CASE("files that are asked for without a folder are in a temporary one") {
  folder_to_fill at;
  at.options.redirects = *read_streams("", "3");
  const log_folder folder = at.make();
  CHECK(folder.path().starts_with(at.folder.path + "/ddprun_job_7_node-a_"));
  CHECK(fs::is_directory(folder.path()));
}

TEST_CASE("a log folder that cannot be made is refused if it was asked for") {
  folder_to_fill at;
  const std::string taken = at.folder.path + "/taken";
  const auto problem = [&] {
    const auto made = log_folder::make(at.options, "job", "a", "00ab", {{"TMPDIR", taken}});
    if (made) CHECK(made->error_files(1).empty());
    return made ? made->path() : made.error().text;
  };
  at.folder.file("taken", "x", 0600);
  CHECK(problem().empty());
  at.options.log_dir = taken;
  CHECK(problem() == "--log-dir=" + taken + ": cannot create a folder in " + taken +
                         ": Not a directory; name one that this node can write, with --log-dir");
  at.options.log_dir.clear();
  at.options.tee = *read_streams("", "3");
  CHECK(problem() == "log files: cannot create a folder in " + taken +
                         ": Not a directory; name one that this node can write, with --log-dir");
}
