// What workers see of an MPI launcher: nothing of the agent's, and their own ranks if that is asked
// for.
#include "launcher/hosts/mpi/worker_variables.hpp"

#include "launcher/agent/worker_environment.hpp"
#include "launcher/hosts/mpi/member.hpp"
#include "tests/support/catch.hpp"

namespace ddprun::launcher::hosts::mpi {
namespace {

worker_round two_of_four() {
  worker_round round;
  round.worker_count = 2;
  round.node = "node-b";
  round.assignment.rank_first = 2;
  round.assignment.world_size = 4;
  return round;
}

}  // namespace

TEST_CASE("mpi: the launcher's words to the agent do not reach a worker, the person's do") {
  environment_map variables;
  for (const std::string name :
       {"OMPI_COMM_WORLD_RANK", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_ess", "OMPI_MCA_ess_base_vpid",
        "OMPI_UNIVERSE_SIZE", "PMI_FD", "PMI_SIZE", "PMI_PORT", "PMIX_NAMESPACE",
        "PMIX_SERVER_URI41", "HYDI_CONTROL_FD", "MPI_LOCALRANKID", "MV2_COMM_WORLD_RANK",
        "HYDRA_BSTRAP_UPSTREAM_FD", "JSM_NAMESPACE_RANK", "PALS_RANKID"}) {
    CHECK(is_launchers_variable(name));
    variables[name] = "1";
  }
  const environment_map own = {{"OMPI_MCA_btl", "tcp,self"},
                               {"OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"},
                               {"PMIX_MCA_gds", "hash"},
                               {"I_MPI_FABRICS", "ofi"},
                               {"MPICH_ASYNC_PROGRESS", "1"},
                               {"FLUX_URI", "local:///run/flux"},
                               {"PATH", "/bin"}};
  variables.insert(own.begin(), own.end());
  remove_launchers_variables(variables);
  CHECK(variables == own);
}

TEST_CASE("mpi: with --mpi-env a worker has its own ranks by the launchers' names") {
  launch_options options;
  options.mpi_env = true;
  const environment_map variables = worker_environment(options, two_of_four(), 1, {});
  const environment_map expected = {
      {"OMPI_COMM_WORLD_RANK", "3"},       {"PMI_RANK", "3"},
      {"OMPI_COMM_WORLD_SIZE", "4"},       {"PMI_SIZE", "4"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"MPI_LOCALRANKID", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"},
      {"OMPI_COMM_WORLD_NODE_RANK", "1"},  {std::string(own_variables_mark), "1"}};
  for (const auto& [name, value] : expected)
    CHECK(variable_or_empty(variables, name) == value);
  CHECK_FALSE(has_exchange(variables));
  for (const auto& [name, value] : worker_environment({}, two_of_four(), 1, {}))
    CHECK(expected.count(name) == 0);
}

TEST_CASE("mpi: a line that the launcher begins with the node's tag has no second one") {
  launch_options options;
  options.output.is_tagged = true;
  worker_round round = two_of_four();
  CHECK(worker_line_prefix(options, round, 1, "host") == "[3] ");
  round.worker_count = 1;
  CHECK(worker_line_prefix(options, round, 0, "host").empty());
  options.output.prefix_template = "<${rank}>";
  CHECK(worker_line_prefix(options, round, 0, "host") == "<2>");
}

}  // namespace ddprun::launcher::hosts::mpi
