// Lists of imports that are kept from one life of a script to the next.
#include "launcher/warm/learnt_imports.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <fstream>

using namespace ddprun;
using namespace ddprun::launcher::warm;

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Of a script with a module of its own, and of one installed package.
struct life {
  life() {
    write(python,
          "\x7f"
          "ELF and more");
    write(script, "import mine, package\n");
    write(own, "one\n");
    write(packages / "package.py", "\n");
  }

  learnt_imports of(const std::string& argument = "--epochs=3") const {
    return learnt_imports::of({"python", "-u", script, argument},
                              {"HOME=" + root.string(), "PYTHONPATH=/nowhere", "LANG=C"});
  }
  learnt_list list() const {
    return {python, "H 3.11.2\nI mine " + own.string() + "\nI package " +
                        (packages / "package.py").string() + "\nI math \n"};
  }

  tests::temporary_folder folder;
  fs::path root = folder.path;
  fs::path python = root / "bin/python";
  fs::path script = root / "work/train.py";
  fs::path own = root / "work/mine.py";
  fs::path packages = root / "lib/python3.11/site-packages";
};

}  // namespace

TEST_CASE("what a script has imported is known to its next life, and to that alone") {
  const life last;
  CHECK_FALSE(last.of().read());
  last.of().keep(last.list());
  const auto found = last.of().read();
  REQUIRE(found);
  CHECK(found->text == last.list().text);
  CHECK(found->program == last.python);
  CHECK_FALSE(last.of("--epochs=4").read());
  // A life that was cut short has learnt less.
  last.of().keep({last.python, "H 3.11.2\nI math \n"});
  CHECK(last.of().read()->text == last.list().text);
}

TEST_CASE("a list is out of date with any file that it depends on") {
  const life last;
  last.of().keep(last.list());
  REQUIRE(last.of().read());
  SECTION("the script") {
    write(last.script, "import mine, package, more\n");
  }
  SECTION("a module of its own") {
    write(last.own, "another\n");
  }
  SECTION("the interpreter") {
    write(last.python,
          "\x7f"
          "ELF of another version");
  }
  SECTION("the packages") {
    fs::create_directory(last.packages / "new-1.0.dist-info");
  }
  SECTION("a file that is gone") {
    fs::remove(last.own);
  }
  CHECK_FALSE(last.of().read());
}

TEST_CASE("a file that is no list is none, and what cannot be kept is not") {
  const life last;
  last.of().keep(last.list());
  const fs::path folder = last.root / ".cache/ddprun/imports";
  const fs::path file = fs::directory_iterator(folder)->path();
  for (const std::string text :
       {"", "ddprun-imports 1\n", "ddprun-imports 2\nK 00\n\n", "\n\n\n"}) {
    write(file, text);
    CHECK_FALSE(last.of().read());
  }
  fs::remove(file);
  // Which Python a script of the shell's starts is not known.
  write(last.python, "#!/bin/sh\n");
  last.of().keep(last.list());
  CHECK_FALSE(last.of().read());
  learnt_imports::of({"python"}, {}).keep(last.list());
  CHECK_FALSE(learnt_imports::of({"python"}, {}).read());
}

TEST_CASE("only so many lists are kept") {
  const life last;
  for (std::size_t index = 0; index < learnt_files_max + 5; ++index)
    last.of(std::to_string(index)).keep(last.list());
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       fs::directory_iterator(last.root / ".cache/ddprun/imports"))
    ++count;
  CHECK(count == learnt_files_max);
}
