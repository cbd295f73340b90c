#include "launcher/warm/imported_files.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher::warm;
using namespace ddprun::tests;

namespace {

namespace fs = std::filesystem;

// An entry as ddprun_files.py writes it.
std::string entry(const std::string& kind, const std::string& path) {
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  const auto time = std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
  return kind + " " + std::to_string(time) + " " + std::to_string(found.st_size) + " " +
         std::to_string(found.st_ino) + " " + path + '\0';
}

std::string changed(const std::string& text) {
  const auto files = imported_files::read(text);
  REQUIRE(files.has_value());
  return files->changed();
}

}  // namespace

TEST_CASE(
    "an imported file has changed if its time, its size or its number has, or if it is gone") {
  const temporary_folder folder;
  const std::string path = folder.file("a module.py", "text = 1\n", 0600);
  const std::string text = entry("F", path);
  CHECK(changed(text).empty());
  const auto time = fs::last_write_time(path);
  SECTION("its time") {
    fs::last_write_time(path, time + std::chrono::nanoseconds(1000));
  }
  SECTION("an earlier time") {
    fs::last_write_time(path, time - std::chrono::hours(1));
  }
  SECTION("its size") {
    folder.file("a module.py", "text = 11\n", 0600);
    fs::last_write_time(path, time);
  }
  SECTION("its number") {
    const std::string other = folder.file("other", "text = 2\n", 0600);
    fs::last_write_time(other, time);
    fs::rename(other, path);
  }
  SECTION("it is gone") {
    fs::remove(path);
  }
  CHECK(changed(text) == path);
}

TEST_CASE("a folder of a package has changed if other modules are in it") {
  const temporary_folder folder;
  const std::string path = folder.path + "/package";
  fs::create_directories(path + "/part");
  const std::string text = [&] {
    for (const char* name : {"__init__.py", "b.so", "a.pyc", "data.json"})
      folder.file(std::string("package/") + name, "", 0600);
    return entry("D", path) + "__init__.py/a.pyc/b.so/part/" + '\0';
  }();
  CHECK(changed(text).empty());
  std::string found = path;
  SECTION("a module is added") {
    folder.file("package/c.py", "", 0600);
  }
  SECTION("a module is removed") {
    fs::remove(path + "/a.pyc");
  }
  SECTION("a package is added") {
    fs::create_directory(path + "/d");
  }
  SECTION("it is gone") {
    fs::remove_all(path);
  }
  SECTION("what is no module comes and goes") {
    fs::create_directory(path + "/__pycache__");
    fs::remove(path + "/data.json");
    folder.file("package/c.txt", "", 0600);
    found.clear();
  }
  CHECK(changed(text) == found);
}

TEST_CASE("of many imported files each one is looked at") {
  const temporary_folder folder;
  std::string text;
  std::vector<std::string> paths;
  for (int index = 0; index < 700; ++index) {
    paths.push_back(folder.file("m" + std::to_string(index) + ".py", "", 0600));
    text += entry("F", paths.back());
  }
  const auto files = imported_files::read(text);
  REQUIRE(files);
  CHECK(files->size() == paths.size());
  CHECK(files->changed().empty());
  for (const std::size_t index : {0, 63, 64, 350, 511, 512, 699}) {
    const auto time = fs::last_write_time(paths[index]);
    fs::last_write_time(paths[index], time - std::chrono::hours(1));
    CHECK(files->changed() == paths[index]);
    fs::last_write_time(paths[index], time);
  }
  fs::remove(paths[100]);
  fs::remove(paths[600]);
  const std::string named = files->changed();
  CHECK((named == paths[100] || named == paths[600]));
}

TEST_CASE("a list of imported files that is not whole is none") {
  using namespace std::string_literals;
  CHECK(imported_files::read("")->size() == 0);
  const std::string good = "F -5 10 7 /a b/c.py\0D 1 2 3 /p\0x.py/\0"s;
  REQUIRE(imported_files::read(good));
  CHECK(imported_files::read(good)->size() == 2);
  for (const std::string& bad :
       {"F 1 2 3 /a"s, "F 1 2 3 \0"s, "F 1 2 3\0"s, "F 1 2 /a\0"s, "F 1 -2 3 /a\0"s,
        "F 1x 2 3 /a\0"s, "F  1 2 3 /a\0"s, "X 1 2 3 /a\0"s, "\0"s, "D 1 2 3 /p\0"s,
        "D 1 2 3 /p\0x.py/"s, "F 99999999999999999999 2 3 /a\0"s}) {
    CAPTURE(bad);
    CHECK_FALSE(imported_files::read(bad));
  }
}
