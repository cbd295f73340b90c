#include "launcher/hosts/ssh/said_once.hpp"

#include "launcher/hosts/ssh/own_program.hpp"
#include "launcher/hosts/ssh/remote_script.hpp"
#include "tests/support/catch.hpp"

#include <gnu/libc-version.h>
#include <sys/utsname.h>

using namespace ddprun::launcher::ssh;

TEST_CASE("what all hosts say is shown once, and again when one says it again") {
  said_once said;
  CHECK(said.is_new(0, "round 1 starts"));
  CHECK_FALSE(said.is_new(1, "round 1 starts"));
  CHECK_FALSE(said.is_new(2, "round 1 starts"));
  CHECK(said.is_new(2, "round 1 starts"));
  CHECK_FALSE(said.is_new(0, "round 1 starts"));
  CHECK(said.is_new(0, "round 2 starts"));
}

TEST_CASE("of very many lines the newest are remembered") {
  said_once said;
  CHECK(said.is_new(0, "first"));
  for (std::size_t line = 0; line < said_once::lines_max; ++line)
    CHECK(said.is_new(0, std::to_string(line)));
  CHECK_FALSE(said.is_new(1, "999"));
  CHECK(said.is_new(1, "first"));
}

TEST_CASE("the first command means the same to every login shell") {
  const std::string command = first_command("ddprun-0123");
  CHECK(command.find('!') == std::string::npos);
  CHECK(command.find('\\') == std::string::npos);
  CHECK(command.find('\n') == std::string::npos);
  CHECK(std::count(command.begin(), command.end(), '\'') == 2);
}

TEST_CASE("paths are quoted for the shell, and each script is one line") {
  CHECK(quoted("it's") == "'it'\\''s'");
  for (const std::string& script :
       {find_script("m", {"/a b/ddprun"}, true),
        copy_script("m", {{"ddprun", std::string(64, 'a'), 10}, {"b", std::string(64, 'b'), 5}})}) {
    CHECK(script.find('\n') == script.size() - 1);
  }
}

TEST_CASE("where this program cannot run it is not copied") {
  utsname own{};
  ::uname(&own);
  const std::string glibc = std::string("glibc ") + ::gnu_get_libc_version();
  CHECK(why_it_cannot_run(own.machine, glibc).empty());
  CHECK(why_it_cannot_run(own.machine, "glibc 9.0").empty());
  CHECK(why_it_cannot_run(own.machine, "").find("not glibc") != std::string::npos);
  CHECK(why_it_cannot_run(own.machine, "glibc 2.9").find("too old") != std::string::npos);
  CHECK(why_it_cannot_run("sparc", glibc).find("another architecture (sparc") != std::string::npos);
}
