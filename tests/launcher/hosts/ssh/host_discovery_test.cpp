#include "launcher/hosts/ssh/host_discovery.hpp"

#include "launcher/process/boost_spawner.hpp"
#include "tests/support/catch.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdlib>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::ssh;
using namespace std::chrono_literals;

namespace {

// The first answer of a shell command as the script.
host_discovery::answer first_answer(const std::string& line,
                                    std::chrono::milliseconds limit = discovery_limit) {
  boost::asio::io_context context;
  boost_spawner spawner(context.get_executor());
  std::optional<host_discovery::answer> first;
  host_discovery asking(
      context.get_executor(), spawner, {"/bin/sh", "-c", line}, {"PATH=/usr/bin:/bin"},
      [&](const host_discovery::answer& heard) {
        first = heard;
        asking.stop();
      },
      limit);
  asking.start();
  context.run();
  REQUIRE(first);
  return *first;
}

}  // namespace

TEST_CASE("what a script prints is its answer, whatever it says beside") {
  const auto heard = first_answer("echo a:4; echo b; echo noise >&2");
  CHECK(heard.text == "a:4\nb\n");
  CHECK(heard.problem.empty());
}

TEST_CASE("a script that fails is named by its last words") {
  CHECK(first_answer("echo a; exit 3").problem == "ended with exit code 3");
  CHECK(first_answer("echo first >&2; printf 'no cloud\\n\\n' >&2; exit 1").problem ==
        "ended with exit code 1: no cloud");
}

TEST_CASE("a script that hangs is ended with all that it has started") {
  CHECK(first_answer("echo a; sleep 1000 & sleep 1000", 200ms).problem ==
        "has not ended after 200 ms, and was stopped");
}

TEST_CASE("a child that outlives its script delays nothing") {
  const auto heard = first_answer("echo a; sleep 1000 &");
  CHECK(heard.text == "a\n");
  CHECK(heard.problem.empty());
}

TEST_CASE("a script that prints without end is stopped") {
  CHECK(first_answer("yes").problem == "prints more than a megabyte");
}

TEST_CASE("the command is a file as it is, else a line for the shell") {
  char folder[] = "/tmp/discovery-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string path = std::string(folder) + "/a script";
  std::ofstream(path) << "echo a\n";
  const auto command = [&] { return discovery_command("--host-discovery=x", path); };
  CHECK(command().error().text == "--host-discovery=x: this file may not be executed; chmod +x it");
  REQUIRE(::chmod(path.c_str(), 0700) == 0);
  CHECK(*command() == std::vector<std::string>{path});
  ::unlink(path.c_str());
  ::rmdir(folder);
  CHECK(*discovery_command("x", "scontrol show hostnames") ==
        std::vector<std::string>{"/bin/sh", "-c", "scontrol show hostnames"});
  CHECK(discovery_command("x", "/nowhere/at-all").error().text == "x: there is no such file");
  CHECK(discovery_command("x", " ").has_error());
}
