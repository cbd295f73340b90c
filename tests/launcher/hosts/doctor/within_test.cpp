#include "launcher/hosts/doctor/within.hpp"

#include "launcher/hosts/doctor/search_path.hpp"
#include "tests/launcher/hosts/doctor/doctor_support.hpp"
#include "tests/support/catch.hpp"

#include <stdexcept>

using namespace ddprun;
using namespace ddprun::launcher::doctor;
using namespace std::chrono_literals;

TEST_CASE("work that hangs is left behind, and other work gives its answer") {
  const auto gate = std::make_shared<std::promise<void>>();
  CHECK_FALSE(within(1ms, [opened = gate->get_future().share()] {
    opened.wait();
    return 7;
  }));
  gate->set_value();
  CHECK(within(1h, [] { return 7; }) == 7);
  CHECK_THROWS_AS(within(1h, []() -> int { throw std::runtime_error("no"); }), std::runtime_error);
}

TEST_CASE("folders that do not answer are named, and left out") {
  CHECK(judge_silent_folders({}).empty());
  const findings found = judge_silent_folders({".", "/nfs/bin"});
  REQUIRE(found.size() == 2);
  CHECK(found[0].seen == "the working directory gives no answer");
  CHECK(found[1].seen == "/nfs/bin, a folder of PATH, gives no answer");
  const environment_map environment = {{"PATH", "/nfs/bin:/usr/bin::/bin"}};
  CHECK(without_folders(environment, {}).at("PATH") == "/nfs/bin:/usr/bin::/bin");
  CHECK(without_folders(environment, {"/nfs/bin", "."}).at("PATH") == "/usr/bin:/bin");
  CHECK(find_silent_folders({{"PATH", "/usr/bin:/nonexistent"}}).empty());
}
