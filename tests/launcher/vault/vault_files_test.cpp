#include "launcher/vault/vault_files.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <fcntl.h>
#include <filesystem>
#include <set>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace ddprun::launcher::vault;
using ddprun::tests::content_of;
using ddprun::tests::temporary_folder;
namespace fs = std::filesystem;

namespace {

bool go_on(std::uint64_t) {
  return true;
}

// A vault in one folder, and a disk in another.
struct two_folders {
  two_folders() {
    fs::create_directories(memory);
    fs::create_directories(disk);
    opened = *open_folder(memory);
  }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(memory + "/" + path).parent_path());
    std::ofstream(memory + "/" + path) << text;
  }
  std::vector<entry> complete() const { return complete_entries(list_files(opened.get())); }
  std::string keep() const {
    const auto found = complete();
    REQUIRE_FALSE(found.empty());
    return keep_on_disk(opened.get(), found.back(), disk, "test", go_on).problem;
  }
  std::string newest() const {
    const auto kept = kept_folders(disk);
    REQUIRE_FALSE(kept.empty());
    return disk + "/" + kept.front();
  }
  outcome put_back() const {
    const auto wanted = read_manifest(newest());
    REQUIRE(wanted);
    return put_back_from(newest(), *wanted, opened.get(), go_on);
  }

  temporary_folder both;
  std::string memory = both.path + "/memory";
  std::string disk = both.path + "/disk";
  ddprun::unique_fd opened;
};

}  // namespace

TEST_CASE("an entry goes to disk and comes back as it was", "[vault]") {
  const two_folders here;
  here.write("out/step-1/model.pt", std::string(3'000'000, 'm'));
  here.write("out/step-1/empty", "");
  here.write("out/step-1/.complete", "");
  const version before = here.complete().back().what;
  CHECK(here.keep().empty());
  CHECK(here.keep().empty());  // it is there already
  CHECK(kept_folders(here.disk).size() == 1);
  CHECK(content_of(here.newest() + "/files/out/step-1/model.pt") == std::string(3'000'000, 'm'));

  fs::remove_all(here.memory + "/out");
  CHECK(here.put_back().problem.empty());
  REQUIRE(here.complete().size() == 1);
  CHECK(here.complete().back().what == before);
  CHECK(content_of(here.memory + "/out/step-1/model.pt") == std::string(3'000'000, 'm'));
}

TEST_CASE("what is put back takes the place of a half of it", "[vault]") {
  const two_folders here;
  here.write("last.pt", "good");
  here.write("last.pt.complete", "");
  CHECK(here.keep().empty());
  fs::remove(here.memory + "/last.pt.complete");
  here.write("last.pt", "hal");
  CHECK(here.put_back().problem.empty());
  CHECK(content_of(here.memory + "/last.pt") == "good");
  CHECK(here.complete().size() == 1);
}

TEST_CASE("a damaged copy is known by its checksum, and leaves nothing behind", "[vault]") {
  const two_folders here;
  here.write("step-1/a.pt", "first");
  here.write("step-1/b.pt", "second");
  here.write("step-1/.complete", "");
  CHECK(here.keep().empty());
  fs::remove_all(here.memory + "/step-1");
  const std::string file = here.newest() + "/files/step-1/b.pt";
  const auto outcome_of = [&](const std::string& text) {
    std::ofstream(file) << text;
    const outcome done = here.put_back();
    CHECK(done.is_damaged);
    CHECK(list_files(here.opened.get()).empty());
    return done.problem;
  };
  CHECK(outcome_of("secone") == "step-1/b.pt does not have its checksum");
  CHECK(outcome_of("second and more") == "step-1/b.pt has another size");
  CHECK(outcome_of("") == "step-1/b.pt has another size");
  fs::remove(file);
  CHECK(here.put_back().problem == "step-1/b.pt is missing");
  fs::create_symlink("/etc/passwd", file);
  CHECK(here.put_back().is_damaged);
  CHECK(list_files(here.opened.get()).empty());
}

TEST_CASE("a manifest is whole, or none", "[vault]") {
  const manifest without{{17, "out/step-1"},
                         {{"out/step-1/a b.pt", 3, 0xabc, 16}, {"out/step-1/.complete", 0, 1, 17}},
                         {}};
  CHECK(to_text(without).find("saved") == std::string::npos);
  CHECK(parse_manifest(to_text(without)) == without);
  manifest whole = without;
  whole.from = {"7319.4", 2};
  const std::string text = to_text(whole);
  CHECK(parse_manifest(text) == whole);
  for (std::size_t length = 0; length < text.size(); ++length)
    CHECK_FALSE(parse_manifest(std::string_view(text).substr(0, length)));
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string other = text;
    other[at] ^= 1;
    CHECK_FALSE(parse_manifest(other));
  }
  // A manifest that was written with bad intent.
  manifest hostile = whole;
  hostile.files[0].path = "../../etc/cron.d/x";
  CHECK_FALSE(parse_manifest(to_text(hostile)));
  hostile = whole;
  hostile.what.name = "/etc";
  CHECK_FALSE(parse_manifest(to_text(hostile)));
  hostile = whole;
  hostile.from.round = "4 more";
  CHECK_FALSE(parse_manifest(to_text(hostile)));
}

TEST_CASE("no link in a vault is followed", "[vault]") {
  const two_folders here;
  fs::create_directories(here.memory + "/step-1");
  fs::create_symlink("/etc/passwd", here.memory + "/step-1/model.pt");
  here.write("step-1/.complete", "");
  CHECK(here.keep() == "step-1/model.pt is neither a file nor a folder");
  CHECK(kept_folders(here.disk).empty());
  CHECK(fs::is_empty(here.disk));

  // Replaced after the look.
  fs::remove(here.memory + "/step-1/model.pt");
  here.write("step-1/model.pt", "mine");
  here.write("step-1/.complete", "now");
  const auto looked = here.complete();
  REQUIRE(looked.size() == 1);
  fs::remove(here.memory + "/step-1/model.pt");
  fs::create_symlink("/etc/passwd", here.memory + "/step-1/model.pt");
  const outcome done = keep_on_disk(here.opened.get(), looked[0], here.disk, "test", go_on);
  CHECK(done.has_changed);
  CHECK(fs::is_empty(here.disk));

  // A link to another folder is neither followed nor are files removed behind it.
  const temporary_folder elsewhere;
  elsewhere.file("precious", "text", 0600);
  fs::create_symlink(elsewhere.path, here.memory + "/out");
  for (const found_file& one : list_files(here.opened.get()))
    CHECK(one.path.find("precious") == std::string::npos);
  remove_entry(here.opened.get(), "out/precious");
  CHECK(content_of(elsewhere.path + "/precious") == "text");
}

TEST_CASE("a pipe in a vault delays nothing", "[vault]") {
  const two_folders here;
  here.write("step-1/model.pt", "x");
  here.write("step-1/.complete", "");
  const auto looked = here.complete();
  fs::remove(here.memory + "/step-1/model.pt");
  REQUIRE(::mkfifo((here.memory + "/step-1/model.pt").c_str(), 0600) == 0);
  CHECK(keep_on_disk(here.opened.get(), looked[0], here.disk, "test", go_on).has_changed);
}

TEST_CASE("what is written to while it is copied is not kept", "[vault]") {
  const two_folders here;
  here.write("step-1/model.pt", std::string(4'000'000, 'a'));
  here.write("step-1/.complete", "");
  const auto looked = here.complete();
  const outcome done =
      keep_on_disk(here.opened.get(), looked[0], here.disk, "test", [&](std::uint64_t) {
        here.write("step-1/model.pt", std::string(4'000'001, 'b'));
        return true;
      });
  CHECK(done.has_changed);
  CHECK(fs::is_empty(here.disk));
}

TEST_CASE("a copy that is given up leaves nothing", "[vault]") {
  const two_folders here;
  here.write("step-1/model.pt", std::string(4'000'000, 'a'));
  here.write("step-1/.complete", "");
  const auto looked = here.complete();
  const auto never = [](std::uint64_t) { return false; };
  CHECK(keep_on_disk(here.opened.get(), looked[0], here.disk, "test", never).is_abandoned);
  CHECK(fs::is_empty(here.disk));
  CHECK(here.keep().empty());
  const auto wanted = read_manifest(here.newest());
  CHECK(put_back_from(here.newest(), *wanted, here.opened.get(), never).is_abandoned);
  CHECK(list_files(here.opened.get()).empty());
}

TEST_CASE("so many stay on disk, and what is set aside is not found again", "[vault]") {
  const two_folders here;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    here.write(std::string(name) + "/x", name);
    here.write(std::string(name) + "/.complete", name);
    const auto found = here.complete();
    CHECK(keep_on_disk(here.opened.get(), found.back(), here.disk, "test", go_on).is_done());
  }
  const auto names = [&] {
    std::string all;
    for (const std::string& one : kept_folders(here.disk))
      all += one.substr(21);
    return all;
  };
  CHECK(names() == "edcba");
  remove_older(here.disk, 3);
  CHECK(names() == "edc");
  CHECK(set_aside_on_disk(here.disk, here.complete().back().what));
  CHECK_FALSE(set_aside_on_disk(here.disk, here.complete().back().what));
  CHECK(names() == "dc");
  const std::string first = set_aside_in(here.disk)[0].name;
  CHECK(first == "e");
  // An entry that was set aside earlier is still known, though its files are gone, because copies
  // may be elsewhere.
  const auto older = read_manifest(here.newest());
  REQUIRE(older);
  CHECK(set_aside_on_disk(here.disk, older->what));
  std::set<std::string> aside;
  std::size_t whole = 0;
  for (const version& one : set_aside_in(here.disk))
    aside.insert(one.name);
  for (const auto& each : fs::directory_iterator(here.disk)) {
    if (each.path().filename().string().starts_with("set-aside-"))
      whole += fs::exists(each.path() / "files") ? 1 : 0;
  }
  CHECK(aside == std::set<std::string>{"d", "e"});
  CHECK(whole == 1);
  CHECK(names() == "c");
  fs::create_directories(here.disk + "/.unfinished-of-a-dead-agent/files");
  remove_unfinished(here.disk);
  CHECK_FALSE(fs::exists(here.disk + "/.unfinished-of-a-dead-agent"));
  CHECK(names() == "c");
}
