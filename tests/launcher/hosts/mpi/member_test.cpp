// Which MPI launcher has started this process, from the variables that all of them leave.
#include "launcher/hosts/mpi/member.hpp"

#include "tests/support/catch.hpp"

namespace ddprun::launcher::hosts::mpi {
namespace {

environment_map of_open_mpi(std::string rank = "1", std::string size = "2") {
  return {{"OMPI_COMM_WORLD_RANK", rank},       {"OMPI_COMM_WORLD_SIZE", size},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},  {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
          {"PMIX_NAMESPACE", "prterun-a-12@1"}, {"PMIX_RANK", rank}};
}

environment_map of_hydra(std::string rank = "3", std::string size = "4") {
  return {{"PMI_RANK", rank},
          {"PMI_SIZE", size},
          {"PMI_FD", "9"},
          {"MPI_LOCALRANKID", "0"},
          {"MPI_LOCALNRANKS", "1"}};
}

environment_map both(environment_map first, const environment_map& second) {
  first.insert(second.begin(), second.end());
  return first;
}

member found_in(const environment_map& environment, const ancestors& above = {}) {
  const member_outcome outcome = find_member(environment, above);
  if (const auto* wrong = std::get_if<cli::usage_error>(&outcome)) FAIL(wrong->text);
  REQUIRE(std::holds_alternative<member>(outcome));
  return std::get<member>(outcome);
}

bool is_nothing(const environment_map& environment, const ancestors& above = {}) {
  return std::holds_alternative<std::monostate>(find_member(environment, above));
}

std::string error_in(const environment_map& environment) {
  const member_outcome outcome = find_member(environment, {});
  const auto* const wrong = std::get_if<cli::usage_error>(&outcome);
  return wrong == nullptr ? std::string() : wrong->text;
}

ancestors named(std::initializer_list<const char*> names) {
  ancestors above;
  for (const char* const name : names)
    above.push_back({1, name, {}});
  return above;
}

}  // namespace

TEST_CASE("mpi: each launcher's variables say rank, size and place on the node") {
  struct row {
    environment_map environment;
    launcher_kind kind;
    std::uint32_t rank, size;
  };
  const row rows[] = {
      {of_open_mpi(), launcher_kind::open_mpi, 1, 2},
      {of_hydra(), launcher_kind::hydra, 3, 4},
      {{{"MV2_COMM_WORLD_RANK", "1"}, {"MV2_COMM_WORLD_SIZE", "8"}}, launcher_kind::mvapich, 1, 8},
      {{{"PALS_RANKID", "2"}, {"PMI_SIZE", "3"}, {"PALS_LOCAL_RANKID", "0"}},
       launcher_kind::pals,
       2,
       3},
      {{{"JSM_NAMESPACE_RANK", "0"}, {"JSM_NAMESPACE_SIZE", "2"}}, launcher_kind::jsm, 0, 2},
      {{{"FLUX_TASK_RANK", "1"},
        {"FLUX_JOB_SIZE", "2"},
        {"PMI_RANK", "1"},
        {"PMI_SIZE", "2"},
        {"PMI_FD", "7"}},
       launcher_kind::flux,
       1,
       2},
  };
  for (const row& each : rows) {
    const member self = found_in(each.environment);
    CHECK(self.kind == each.kind);
    CHECK(self.rank == each.rank);
    CHECK(self.size == each.size);
    CHECK(self.outer.empty());
  }
}

TEST_CASE("mpi: hydra at a port says only an id; the size comes from its exchange") {
  const member self = found_in({{"PMI_PORT", "a:1"}, {"PMI_ID", "1"}, {"MPI_LOCALRANKID", "0"}});
  CHECK(self.kind == launcher_kind::hydra);
  CHECK(self.rank == 1);
  CHECK(self.size == 0);
}

TEST_CASE("mpi: nothing without a launcher, nor with a batch system's PMI variables alone") {
  CHECK(is_nothing({}));
  CHECK(is_nothing({{"OMPI_MCA_btl", "tcp"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}));
  CHECK(is_nothing({{"OMPI_COMM_WORLD_RANK", "0"}}));
}

TEST_CASE("mpi: of nested launchers the nearest one counts, and the other is named") {
  const environment_map nested = both(of_open_mpi("1", "2"), of_hydra("3", "4"));
  const member inner =
      found_in(nested, named({"bash", "hydra_pmi_proxy", "mpiexec.hydra", "orted"}));
  CHECK(inner.kind == launcher_kind::hydra);
  CHECK(inner.outer == "OpenMPI's mpirun is further out: OMPI_COMM_WORLD_RANK=1 is not used");
  CHECK(found_in(nested, named({"prted", "hydra_pmi_proxy"})).kind == launcher_kind::open_mpi);
  // If ancestors are hidden, the order of the table decides.
  CHECK(found_in(nested, named({"sh"})).kind == launcher_kind::open_mpi);
  CHECK(found_in(nested).outer == "hydra's mpiexec is further out: PMI_RANK=3 is not used");
}

TEST_CASE("mpi: a step of a batch system within mpirun is the batch system's") {
  CHECK(is_nothing(of_open_mpi(), named({"slurmstepd", "srun", "mpirun"})));
  CHECK(found_in(of_open_mpi(), named({"orted", "slurmstepd"})).kind == launcher_kind::open_mpi);
}

TEST_CASE("mpi: variables that contradict each other are named") {
  CHECK(error_in(of_open_mpi("2", "2")) ==
        "OMPI_COMM_WORLD_RANK=2 and OMPI_COMM_WORLD_SIZE=2 are not a valid rank and number "
        "of processes: unset them, or start ddprun with OpenMPI's mpirun itself");
  CHECK(error_in(of_open_mpi("", "2")).starts_with("OMPI_COMM_WORLD_RANK= and "));
  CHECK(error_in(of_hydra("-1", "4")).starts_with("PMI_RANK=-1 and PMI_SIZE=4 "));
  CHECK(error_in(of_hydra("1", "many")).starts_with("PMI_RANK=1 and PMI_SIZE=many "));
}

TEST_CASE("mpi: what --mpi-env has set for a worker starts nothing below it") {
  environment_map worker = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {std::string(own_variables_mark), "1"}};
  CHECK(is_nothing(worker));
  worker["PMIX_NAMESPACE"] = "1";  // mpirun, started by that worker
  CHECK(found_in(worker).size == 4);
}

TEST_CASE("mpi: several processes on a node are told what to type") {
  environment_map two = of_open_mpi("1", "4");
  two["OMPI_COMM_WORLD_LOCAL_RANK"] = "1";
  two["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  CHECK(check_alone_on_node(found_in(two), two)->text ==
        "OpenMPI's mpirun has started 2 ddprun on this node, and one starts all workers of a node: "
        "mpirun --map-by ppr:1:node ddprun --nproc-per-node 2 ...");
  environment_map flux = {{"FLUX_TASK_RANK", "0"},
                          {"FLUX_JOB_SIZE", "4"},
                          {"FLUX_TASK_LOCAL_ID", "0"},
                          {"FLUX_JOB_NNODES", "2"}};
  CHECK(check_alone_on_node(found_in(flux), flux)->text ==
        "Flux has started several ddprun on this node, and one starts all workers of a node: "
        "flux run --tasks-per-node=1 -N NODES --exclusive ddprun --nproc-per-node N ...");
  flux["FLUX_JOB_NNODES"] = "4";
  CHECK_FALSE(check_alone_on_node(found_in(flux), flux));
  CHECK_FALSE(check_alone_on_node(found_in(of_hydra()), of_hydra()));
}

}  // namespace ddprun::launcher::hosts::mpi
