#include "launcher/hosts/doctor/search_path.hpp"

#include "tests/launcher/hosts/doctor/doctor_support.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher::doctor;

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
