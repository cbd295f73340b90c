#include "launcher/hosts/mpi/member.hpp"

#include "launcher/base/text.hpp"
#include "rendezvous/base/counted.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace ddprun::launcher::hosts::mpi {
namespace {

using names = std::initializer_list<std::string_view>;

// The traces of a launcher; the order decides if ancestors are not visible.
struct launcher_row {
  launcher_kind kind;
  std::string_view launcher;
  names ranks;  // the first that is set
  std::string_view size;
  std::string_view beside;  // must be set too, because other launchers use the same rank
  std::string_view local_rank;
  std::string_view local_size;
  names processes;
  std::string_view one_a_node;  // beginning of the command that starts one process on each node
};

const std::initializer_list<launcher_row> launchers = {
    {launcher_kind::open_mpi,
     "OpenMPI's mpirun",
     {"OMPI_COMM_WORLD_RANK"},
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"mpirun", "mpiexec", "orterun", "prterun", "mpirun.openmpi", "mpiexec.openmpi", "orted",
      "prted", "prte"},
     "mpirun --map-by ppr:1:node"},
    {launcher_kind::hydra,
     "hydra's mpiexec",
     {"PMI_RANK", "PMI_ID"},
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     {"hydra_pmi_proxy"},
     "mpiexec -ppn 1 -n NODES"},
    {launcher_kind::mvapich,
     "MVAPICH2's launcher",
     {"MV2_COMM_WORLD_RANK"},
     "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE",
     {"mpispawn", "hydra_pmi_proxy"},
     "mpiexec -ppn 1 -n NODES"},
    {launcher_kind::pals,
     "PALS",
     {"PALS_RANKID"},
     "PMI_SIZE",
     "PALS_RANKID",
     "PALS_LOCAL_RANKID",
     "PALS_LOCAL_SIZE",
     {"palsd"},
     "mpiexec --ppn 1 -n NODES"},
    {launcher_kind::jsm,
     "LSF's jsrun",
     {"JSM_NAMESPACE_RANK"},
     "JSM_NAMESPACE_SIZE",
     "JSM_NAMESPACE_SIZE",
     "JSM_NAMESPACE_LOCAL_RANK",
     "JSM_NAMESPACE_LOCAL_SIZE",
     {"jsmd"},
     "jsrun -r 1 -a 1 -c ALL_CPUS -g ALL_GPUS"},
    {launcher_kind::flux,
     "Flux",
     {"FLUX_TASK_RANK"},
     "FLUX_JOB_SIZE",
     "FLUX_JOB_SIZE",
     "FLUX_TASK_LOCAL_ID",
     "",
     {"flux-shell"},
     "flux run --tasks-per-node=1 -N NODES --exclusive"},
};

// A batch system's process, which has its own row among the engines: if it is nearer than all
// launchers above, it has started this process.
constexpr std::string_view batch_process = "slurmstepd";

bool is_set(const environment_map& environment, std::string_view name) {
  return !name.empty() && find_variable(environment, name) != nullptr;
}

std::string_view rank_variable(const launcher_row& row, const environment_map& environment) {
  for (const std::string_view name : row.ranks) {
    if (is_set(environment, name)) return name;
  }
  return {};
}

bool has_left_its_rank(const launcher_row& row, const environment_map& environment) {
  return !rank_variable(row, environment).empty() && is_set(environment, row.beside);
}

bool is_process_of(const launcher_row& row, const ancestor& process) {
  for (const std::string_view name : row.processes) {
    if (is_named(process, name)) return true;
  }
  return false;
}

std::optional<std::uint32_t> read_number(const environment_map& environment,
                                         std::string_view name) {
  const std::string* const text = name.empty() ? nullptr : find_variable(environment, name);
  if (text == nullptr) return {};
  return whole_number<std::uint32_t>(*text);
}

std::string said(const environment_map& environment, std::string_view name) {
  return std::string(name) + "=" + variable_or_empty(environment, name);
}

// The launcher that has started this process; null: none of these.
const launcher_row* innermost(const std::vector<const launcher_row*>& found,
                              const ancestors& above) {
  for (const ancestor& process : above) {
    if (is_named(process, batch_process)) return nullptr;
    for (const launcher_row* row : found) {
      if (is_process_of(*row, process)) return row;
    }
  }
  return found.front();
}

member_outcome read_member(const launcher_row& row, const environment_map& environment) {
  const std::string_view rank_name = rank_variable(row, environment);
  const auto rank = read_number(environment, rank_name);
  const auto size = read_number(environment, row.size);
  const bool says_size = is_set(environment, row.size);
  if (!rank || (says_size && (!size || *rank >= *size))) {
    const std::string also = says_size ? " and " + said(environment, row.size) : std::string();
    return cli::usage_error{said(environment, rank_name) + also +
                            " are not a valid rank and number of processes: unset them, or start "
                            "ddprun with " +
                            std::string(row.launcher) + " itself"};
  }
  member self;
  self.kind = row.kind;
  self.launcher = row.launcher;
  self.rank = *rank;
  self.size = size.value_or(0);
  self.local_rank = read_number(environment, row.local_rank);
  self.local_size = read_number(environment, row.local_size);
  return self;
}

}  // namespace

bool has_exchange(const environment_map& environment) {
  for (const std::string_view name : {"PMI_FD", "PMI_PORT", "PMIX_NAMESPACE"}) {
    if (is_set(environment, name)) return true;
  }
  return false;
}

bool has_rank(const environment_map& environment) {
  return std::any_of(launchers.begin(), launchers.end(),
                     [&](const launcher_row& row) { return has_left_its_rank(row, environment); });
}

int launcher_process(const ancestors& above) {
  for (const ancestor& process : above) {
    for (const launcher_row& row : launchers) {
      if (is_process_of(row, process)) return process.pid;
    }
  }
  return 0;
}

member_outcome find_member(const environment_map& environment, const ancestors& above) {
  if (is_set(environment, own_variables_mark) && !has_exchange(environment)) return {};
  std::vector<const launcher_row*> found;
  for (const launcher_row& row : launchers) {
    if (has_left_its_rank(row, environment)) found.push_back(&row);
  }
  if (found.empty()) return {};
  const launcher_row* const chosen = innermost(found, above);
  if (chosen == nullptr) return {};
  member_outcome outcome = read_member(*chosen, environment);
  auto* const self = std::get_if<member>(&outcome);
  if (self == nullptr) return outcome;
  for (const launcher_row* other : found) {
    // Flux's own PMI sets hydra's variables too, with the same values.
    const auto rank = read_number(environment, rank_variable(*other, environment));
    if (other == chosen || rank == self->rank) continue;
    self->outer = std::string(other->launcher) +
                  " is further out: " + said(environment, rank_variable(*other, environment)) +
                  " is not used";
    break;
  }
  return outcome;
}

cli::checked check_alone_on_node(const member& self, const environment_map& environment) {
  const auto flux_nodes = read_number(environment, "FLUX_JOB_NNODES");
  const bool is_crowded_flux =
      self.kind == launcher_kind::flux && flux_nodes && *flux_nodes < self.size;
  const bool is_alone = self.local_rank.value_or(0) == 0 && self.local_size.value_or(1) == 1;
  if (is_alone && !is_crowded_flux) return {};
  std::string_view line;
  for (const launcher_row& row : launchers) {
    if (row.kind == self.kind) line = row.one_a_node;
  }
  const std::string count = self.local_size ? std::to_string(*self.local_size) : "several";
  return cli::usage_error{
      self.launcher + " has started " + count +
      " ddprun on this node, and one starts all workers of a node: " + std::string(line) +
      " ddprun --nproc-per-node " + (self.local_size ? count : "N") + " ..."};
}

}  // namespace ddprun::launcher::hosts::mpi
