// A CPU mask that mpirun sets by default is told from one that the user has asked for.
#include "launcher/hosts/mpi/binding.hpp"

#include "tests/support/catch.hpp"

namespace ddprun::launcher::hosts::mpi {
namespace {

ancestors below_mpirun(std::vector<std::string> options) {
  options.insert(options.begin(), "mpirun");
  options.push_back("ddprun");
  return {{1, "mpirun", std::move(options)}};
}

}  // namespace

TEST_CASE("mpi: a part of mpirun's own processors that begins where they do is its default") {
  CHECK(is_default_binding({{0}, {0, 1}, false, true}));
  CHECK(is_default_binding({{2, 3}, {2, 3, 4, 5}, false, false}));
}

TEST_CASE("mpi: a mask that mpirun has not made stays") {
  CHECK_FALSE(is_default_binding({{0, 1}, {0, 1}, false, false}));    // none
  CHECK_FALSE(is_default_binding({{3}, {0, 1, 2, 3}, false, true}));  // mpirun taskset -c 3 ddprun
  CHECK_FALSE(is_default_binding({{0, 7}, {0, 1}, false, false}));    // of another cpuset
  CHECK_FALSE(is_default_binding({{0}, {}, false, true}));            // mpirun is not seen
  CHECK_FALSE(is_default_binding({{}, {0, 1}, false, true}));
}

TEST_CASE("mpi: a binding that was asked for stays; where that is not seen, all but one core") {
  CHECK_FALSE(is_default_binding({{0}, {0, 1}, true, true}));
  CHECK(is_default_binding({{0}, {0, 1}, std::nullopt, true}));
  CHECK_FALSE(is_default_binding({{0, 1}, {0, 1, 2, 3}, std::nullopt, false}));
}

TEST_CASE("mpi: options and variables by which mpirun is told how to bind") {
  for (const char* const variable :
       {"OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy"}) {
    CHECK(asks_for_binding({{variable, "core"}}, {}) == true);
  }
  CHECK(asks_for_binding({{"OMPI_MCA_rmaps_base_mapping_policy", "ppr:1:node:PE=4"}}, {}) == true);
  CHECK(asks_for_binding({{"OMPI_MCA_orte_bound_at_launch", "1"},
                          {"OMPI_MCA_rmaps_base_mapping_policy", "ppr:1:node"}},
                         {}) == false);
  CHECK(asks_for_binding({}, below_mpirun({"--bind-to", "none"})) == true);
  CHECK(asks_for_binding({}, below_mpirun({"--map-by", "ppr:1:node:pe=2"})) == true);
  CHECK(asks_for_binding({}, below_mpirun({"-np", "2", "--map-by", "ppr:1:node"})) == false);
  CHECK_FALSE(asks_for_binding({}, {{1, "prted", {"prted"}}}));
}

}  // namespace ddprun::launcher::hosts::mpi
