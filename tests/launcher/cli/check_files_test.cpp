#include "launcher/cli/check_files.hpp"

#include "launcher/cli/own_environment.hpp"
#include "tests/support/catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace {

// A folder of its own for each test, removed at its end.
class folder {
 public:
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ddprun-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~folder() { std::filesystem::remove_all(path_); }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;

  std::string write(const std::string& name, const std::string& text, mode_t mode) const {
    const std::string file = path_ + "/" + name;
    std::ofstream(file) << text;
    chmod(file.c_str(), mode);
    return file;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string check(const std::string& program, bool no_python,
                  const ddprun::environment_map& environment) {
  ddprun::launcher::launch_options options;
  options.program = program;
  options.no_python = no_python;
  options.python = ddprun::launcher::python_program(environment);
  const ddprun::cli::checked wrong = check_files(options, environment);
  return wrong ? wrong->text : std::string();
}

}  // namespace

TEST_CASE("Python is PYTHON_EXEC, else the virtual environment's, else the first in PATH") {
  CHECK(ddprun::launcher::python_program({{"PATH", "/none"}}) == "python3");
  CHECK(ddprun::launcher::python_program({{"VIRTUAL_ENV", "/venv"}}) == "/venv/bin/python");
  CHECK(ddprun::launcher::python_program({{"VIRTUAL_ENV", "/venv"}, {"PYTHON_EXEC", "py"}}) ==
        "py");
  CHECK(ddprun::launcher::python_program(
            {{"VIRTUAL_ENV", ""}, {"PYTHON_EXEC", ""}, {"PATH", "/none"}}) == "python3");
}

TEST_CASE("of several environments that are active the one counts that the shell finds first") {
  const folder venv, conda, plain, old;
  for (const folder* const one : {&venv, &conda}) {
    std::filesystem::create_directory(one->path() + "/bin");
    one->write("bin/python", "", 0755);
    one->write("bin/python3", "", 0755);
  }
  plain.write("python3", "", 0755);
  old.write("python3", "", 0644);  // not to be executed
  old.write("python", "", 0755);
  const auto python = [&](const std::string& path) {
    return ddprun::launcher::python_program({{"VIRTUAL_ENV", venv.path()}, {"PATH", path}});
  };
  const std::string of_venv = venv.path() + "/bin";
  const std::string of_conda = conda.path() + "/bin";
  CHECK(python(of_conda + ":" + of_venv) == of_conda + "/python3");
  CHECK(python(of_venv + ":" + of_conda) == of_venv + "/python3");
  CHECK(python(of_conda) == of_venv + "/python");
  CHECK(ddprun::launcher::python_program({{"PATH", "/none:" + plain.path()}}) ==
        plain.path() + "/python3");
  CHECK(ddprun::launcher::python_program({{"PATH", old.path() + ":" + plain.path()}}) ==
        old.path() + "/python");
}

TEST_CASE("a script that cannot be read is refused") {
  const folder here;
  const ddprun::environment_map environment = {{"PYTHON_EXEC", "/bin/true"}};
  const std::string script = here.write("a.py", "pass\n", 0644);
  CHECK(check(script, false, environment).empty());
  CHECK(check(here.path() + "/none.py", false, environment) ==
        here.path() +
            "/none.py: the script cannot be read: No such file or directory; check the "
            "path (-m for a Python module)");
  CHECK(check(here.path(), false, environment) ==
        here.path() + ": that is a folder without a __main__.py; name a script");
  here.write("__main__.py", "pass\n", 0644);
  CHECK(check(here.path(), false, environment).empty());
  CHECK(check("/bin/true", false, environment) ==
        "/bin/true: that is a program, not a Python script; add --no-python");
  CHECK(check(script, false, {{"PYTHON_EXEC", "/none/python"}}) ==
        "/none/python: Python cannot be executed: No such file or directory; set PYTHON_EXEC to "
        "the one to use (--no-python for a plain program)");
}

TEST_CASE("a program that cannot be executed is refused") {
  const folder here;
  CHECK(check("/bin/true", true, {}).empty());
  CHECK(check("true", true, {{"PATH", "/none:/bin"}}).empty());
  CHECK(check("no-such-program", true, {{"PATH", "/bin"}}) ==
        "no-such-program: the program cannot be executed: No such file or directory; it is not in "
        "PATH");
  const std::string plain = here.write("a.sh", "#!/bin/sh\n", 0644);
  CHECK(check(plain, true, {}) ==
        plain +
            ": the program cannot be executed: Permission denied; chmod +x, or leave "
            "--no-python out if it is a Python script");
  CHECK(check("a.sh", true, {{"PATH", here.path()}})
            .starts_with("a.sh: the program cannot be executed: Permission denied"));
  CHECK(check(here.path(), true, {}) ==
        here.path() + ": the program cannot be executed: Is a directory");
}

TEST_CASE("Python is that beside the program in an environment, and nowhere else") {
  using ddprun::launcher::python_beside;
  const folder environment;
  const std::string& path = environment.path();
  std::filesystem::create_directory(path + "/bin");
  environment.write("bin/python", "", 0755);
  CHECK(python_beside(path + "/bin/ddprun").empty());  // as /usr/bin is none
  environment.write("pyvenv.cfg", "", 0644);
  CHECK(python_beside(path + "/bin/ddprun") == path + "/bin/python");
  CHECK(python_beside(path + "/bin/../bin/./ddprun") == path + "/bin/python");
  std::filesystem::remove(path + "/pyvenv.cfg");
  std::filesystem::create_directory(path + "/conda-meta");
  CHECK(python_beside(path + "/bin/ddprun") == path + "/bin/python");
  std::filesystem::permissions(path + "/bin/python", std::filesystem::perms::owner_read);
  CHECK((python_beside(path + "/bin/ddprun").empty() || ::geteuid() == 0));
  std::filesystem::remove(path + "/bin/python");
  CHECK(python_beside(path + "/bin/ddprun").empty());
}
