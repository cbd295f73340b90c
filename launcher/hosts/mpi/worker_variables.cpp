#include "launcher/hosts/mpi/worker_variables.hpp"

#include <string>

namespace ddprun::launcher::hosts::mpi {
namespace {

bool begins_as_launchers(std::string_view name) {
  if (name.starts_with("PMIX_MCA_")) return false;  // set by the user
  for (const std::string_view prefix :
       {"OMPI_COMM_WORLD_", "OMPI_MCA_ess_base_", "OMPI_MCA_orte_ess_", "OMPI_WORLD_", "PMI_",
        "PMIX_", "HYDI_", "HYDRA_BSTRAP_", "MV2_COMM_WORLD_", "JSM_NAMESPACE_", "PALS_",
        "MPI_LOCAL", "I_MPI_INFO_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

bool is_launchers_variable(std::string_view name) {
  if (begins_as_launchers(name)) return true;
  for (const std::string_view whole : {"OMPI_APP_CTX_NUM_PROCS",
                                       "OMPI_APP_SIZES",
                                       "OMPI_ARGV",
                                       "OMPI_COMMAND",
                                       "OMPI_FILE_LOCATION",
                                       "OMPI_FIRST_RANKS",
                                       "OMPI_MCA_ess",
                                       "OMPI_MCA_initial_wdir",
                                       "OMPI_MCA_mpi_oversubscribe",
                                       "OMPI_MCA_num_procs",
                                       "OMPI_MCA_orte_app_num",
                                       "OMPI_MCA_orte_bound_at_launch",
                                       "OMPI_MCA_orte_hnp_uri",
                                       "OMPI_MCA_orte_jobfam_session_dir",
                                       "OMPI_MCA_orte_launch",
                                       "OMPI_MCA_orte_node_regex",
                                       "OMPI_MCA_orte_parent_uri",
                                       "OMPI_MCA_orte_local_daemon_uri",
                                       "OMPI_MCA_orte_num_nodes",
                                       "OMPI_MCA_orte_precondition_transports",
                                       "OMPI_MCA_orte_tag_output",
                                       "OMPI_MCA_orte_tmpdir_base",
                                       "OMPI_MCA_orte_top_session_dir",
                                       "OMPI_MCA_pmix",
                                       "OMPI_NUM_APP_CTX",
                                       "OMPI_TOOL_NAME",
                                       "OMPI_UNIVERSE_SIZE",
                                       "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
                                       "PRTE_LAUNCHED",
                                       "I_MPI_HYDRA_UUID",
                                       "I_MPI_PIN_MAPPING",
                                       "I_MPI_PIN_INFO"}) {
    if (name == whole) return true;
  }
  return false;
}

void remove_launchers_variables(environment_map& variables) {
  std::erase_if(variables, [](const auto& each) { return is_launchers_variable(each.first); });
}

void set_mpi_variables(environment_map& variables, const worker_rank& worker) {
  const auto set = [&](std::string_view name, std::uint32_t number) {
    variables.insert_or_assign(std::string(name), std::to_string(number));
  };
  for (const std::string_view name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    set(name, worker.rank);
  for (const std::string_view name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    set(name, worker.size);
  for (const std::string_view name :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_NODE_RANK", "MPI_LOCALRANKID"})
    set(name, worker.local_rank);
  for (const std::string_view name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
    set(name, worker.local_size);
  set("DDPRUN_MPI_ENV", 1);
}

}  // namespace ddprun::launcher::hosts::mpi
