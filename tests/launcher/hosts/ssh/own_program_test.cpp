#include "launcher/hosts/ssh/own_program.hpp"

#include "tests/support/catch.hpp"

#include <gnu/libc-version.h>
#include <sys/utsname.h>

using namespace ddprun::launcher::ssh;

TEST_CASE("a copy runs where the machine and the C library allow it") {
  utsname own{};
  ::uname(&own);
  const std::string here = std::string("glibc ") + ::gnu_get_libc_version();
  CHECK(why_it_cannot_run(own.machine, here).empty());
  CHECK(why_it_cannot_run(own.machine, "glibc 3.0").empty());
  CHECK(why_it_cannot_run(own.machine, "glibc 2.17")
            .starts_with("its glibc 2.17 is too old: this one needs 2."));
  CHECK(why_it_cannot_run(own.machine, "") == "its C library is not glibc");
  CHECK(why_it_cannot_run("vax", here).starts_with("it is of another architecture (vax, here "));
}
