// Lists of imports that are kept from one run of a script to the next.
#include "launcher/warm/learnt_imports.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher::warm;

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A run of a script with a module of its own, and with one installed package.
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
    return learnt_imports::of({python, "-u", script, argument},
                              {"HOME=" + root.string(), "PYTHONPATH=/nowhere", "LANG=C"});
  }
  fs::path kept() const { return fs::directory_iterator(root / ".cache/ddprun/imports")->path(); }
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
  CHECK_FALSE(last.of().read().list);
  CHECK(last.of().read().complaint.empty());
  CHECK(last.of().keep(last.list()).empty());
  const auto found = last.of().read().list;
  REQUIRE(found);
  CHECK(found->text == last.list().text);
  CHECK(found->program == last.python);
  CHECK_FALSE(last.of("--epochs=4").read().list);
  // A run that was cut short has recorded less.
  CHECK(last.of().keep({last.python, "H 3.11.2\nI math \n"}).empty());
  CHECK(last.of().read().list->text == last.list().text);
  last.of().forget();
  CHECK_FALSE(last.of().read().list);
}

TEST_CASE("a list is out of date with any file that it depends on") {
  const life last;
  CHECK(last.of().keep(last.list()).empty());
  REQUIRE(last.of().read().list);
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
  CHECK_FALSE(last.of().read().list);
  CHECK(last.of().read().complaint.empty());
}

TEST_CASE("a list is of no use to another Python than the one that starts the workers") {
  const life last;
  CHECK(last.of().keep(last.list()).empty());
  const fs::path file = last.kept();
  std::string text = tests::content_of(file);
  const fs::path other = last.root / "bin/other";
  fs::copy_file(last.python, other);
  const std::string line = "P " + last.python.string() + "\n";
  text.replace(text.find(line), line.size(), "P " + other.string() + "\n");
  write(file, text);
  CHECK_FALSE(last.of().read().list);
}

TEST_CASE("a list that was cut off or spoilt is not taken, a line says so, and it is replaced") {
  const life last;
  CHECK(last.of().keep(last.list()).empty());
  const fs::path file = last.kept();
  const std::string whole = tests::content_of(file);
  std::vector<std::string> spoilt = {"\n\n\n", "ddprun 3\nK 00\n\n", std::string(3, '\0')};
  for (std::size_t length = 0; length < whole.size(); length += 7)
    spoilt.push_back(whole.substr(0, length));
  for (const std::string list :
       {"J mine\n", "I \n", "I ../mine \n", "E 4 41\n", "E 41\n", "U 4g\n", "I math", "\n", "H"})
    spoilt.push_back(whole.substr(0, whole.find("\nB ") + 1) + "B " + std::to_string(list.size()) +
                     "\n\n" + list);
  for (const std::string& text : spoilt) {
    CAPTURE(text);
    write(file, text);
    const auto answer = last.of().read();
    CHECK_FALSE(answer.list);
    CHECK(answer.complaint == file.string() + " is not whole");
  }
  CHECK(last.of().keep(last.list()).empty());
  CHECK(last.of().read().list);
}

TEST_CASE("what is no plain file of this user's alone is not read") {
  const life last;
  CHECK(last.of().keep(last.list()).empty());
  const fs::path file = last.kept();
  const fs::path aside = last.root / "aside";
  std::string why = file.string();
  SECTION("others may write to the file") {
    fs::permissions(file, fs::perms::group_write, fs::perm_options::add);
    why += " may be written by other users";
  }
  SECTION("others may write to the folder") {
    fs::permissions(file.parent_path(), fs::perms::others_write, fs::perm_options::add);
    why = file.parent_path().string() + " may be written by other users";
  }
  SECTION("a link to one that has no end") {
    fs::remove(file);
    fs::create_symlink("/dev/zero", file);
    why += ": ";
  }
  SECTION("a pipe without a writer") {
    fs::remove(file);
    REQUIRE(::mkfifo(file.c_str(), S_IRUSR | S_IWUSR) == 0);
    why += " is not a file";
  }
  SECTION("a folder") {
    fs::remove(file);
    fs::create_directory(file);
    why += " is not a file";
  }
  SECTION("a file that is longer than any list") {
    fs::resize_file(file, 4 * learnt_bytes_max);
    why += " is too long";
  }
  SECTION("another user's") {
    if (::geteuid() != 0) return;  // only root can give a file away
    REQUIRE(::chown(file.c_str(), 65534, 65534) == 0);
    why += " belongs to another user";
  }
  const auto answer = last.of().read();
  CHECK_FALSE(answer.list);
  CHECK_THAT(answer.complaint, Catch::Matchers::StartsWith(why));
}

TEST_CASE("where a list cannot be kept, nothing is left and a line says why") {
  const life last;
  const fs::path cache = last.root / ".cache";
  std::string why;
  SECTION("a file stands in the way") {
    write(cache, "no folder");
    why = "Not a directory";
  }
  SECTION("HOME is another user's, as sudo leaves it") {
    if (::geteuid() != 0) return;
    REQUIRE(::chown(last.root.c_str(), 65534, 65534) == 0);
    why = "Operation not permitted";
  }
  CHECK_THAT(last.of().keep(last.list()), Catch::Matchers::EndsWith(why));
  CHECK_FALSE(last.of().read().list);
  CHECK_FALSE(fs::exists(cache / "ddprun/imports"));
}

TEST_CASE("a list of which not all can be written is not kept") {
  const life last;
  // A limit of the process stands in for a full disk: the write fails half-way. SIGXFSZ is blocked,
  // as on the thread that writes the lists.
  sigset_t held, before;
  ::sigemptyset(&held);
  ::sigaddset(&held, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &held, &before);
  struct rlimit old {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  struct rlimit small = old;
  small.rlim_cur = 100;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string problem = last.of().keep(last.list());
  ::setrlimit(RLIMIT_FSIZE, &old);
  struct timespec at_once {};
  ::sigtimedwait(&held, nullptr, &at_once);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  CHECK_THAT(problem, Catch::Matchers::EndsWith("File too large"));
  CHECK(fs::is_empty(last.root / ".cache/ddprun/imports"));
}

TEST_CASE("two runs that keep their lists at once leave one of the two, whole") {
  const life last;
  const auto keep_often = [&last](const std::string& module) {
    for (int count = 0; count < 50; ++count) {
      last.of().forget();
      last.of().keep({last.python, last.list().text + "I " + module + " \n"});
    }
  };
  std::thread one(keep_often, "one"), other(keep_often, "other");
  for (int count = 0; count < 50; ++count)
    CHECK(last.of().read().complaint.empty());
  one.join();
  other.join();
  last.of().keep(last.list());
  CHECK(last.of().read().list);
  CHECK(std::distance(fs::directory_iterator(last.root / ".cache/ddprun/imports"), {}) == 1);
}

TEST_CASE("what another Python is started by, or has no home, is not kept") {
  const life last;
  // It is not known which Python a shell script starts.
  write(last.python, "#!/bin/sh\n");
  CHECK(last.of().keep(last.list()).empty());
  CHECK_FALSE(last.of().read().list);
  CHECK(learnt_imports::of({"python"}, {}).keep(last.list()).empty());
  CHECK_FALSE(learnt_imports::of({"python"}, {}).read().list);
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
