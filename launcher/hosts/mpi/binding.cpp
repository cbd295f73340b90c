#include "launcher/hosts/mpi/binding.hpp"

#include "launcher/hosts/mpi/front_end.hpp"
#include "launcher/node/numa_topology.hpp"

#include <algorithm>
#include <memory>
#include <sched.h>
#include <strings.h>

namespace ddprun::launcher::hosts::mpi {
namespace {

// The process that starts processes on this node; no option binds it.
const ancestor* starter(const ancestors& above) {
  for (const ancestor& process : above) {
    if (is_front_end(process)) return &process;
    for (const std::string_view name : {"orted", "prted", "prte"}) {
      if (is_named(process, name)) return &process;
    }
  }
  return nullptr;
}

// "ppr:1:node:PE=4" requests that many processors for each process.
bool says_processors(std::string_view mapping) {
  for (std::size_t begin = mapping.find(':'); begin != std::string_view::npos;
       begin = mapping.find(':', begin + 1)) {
    const std::string word(mapping.substr(begin + 1, 3));
    if (strncasecmp(word.c_str(), "pe=", 3) == 0 || strncasecmp(word.c_str(), "pe-", 3) == 0)
      return true;
  }
  return false;
}

bool is_binding_option(std::string_view argument) {
  while (argument.starts_with('-'))
    argument.remove_prefix(1);
  for (const std::string_view option :
       {"bind-to", "bind-to-core", "bind-to-socket", "cpu-set", "cpu-list", "cpus-per-proc",
        "cpus-per-rank", "rankfile", "rf"}) {
    if (argument.substr(0, argument.find('=')) == option) return true;
  }
  return false;
}

bool is_one_core(const std::vector<int>& processors) {
  const numa_topology topology = read_numa_topology("/", processors, {});
  std::vector<int> cores;
  for (const auto& [number, node] : topology.nodes) {
    for (const numa_topology::processor& each : node)
      cores.push_back(each.core);
  }
  return std::adjacent_find(cores.begin(), cores.end(), std::not_equal_to<>()) == cores.end();
}

bool run_on(const std::vector<int>& processors) {
  const auto count = static_cast<std::size_t>(processors.back()) + 1;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(
      CPU_ALLOC(count), [](cpu_set_t* set) { CPU_FREE(set); });
  if (!mask) return false;
  const std::size_t bytes = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(bytes, mask.get());
  for (const int number : processors)
    CPU_SET_S(static_cast<std::size_t>(number), bytes, mask.get());
  return ::sched_setaffinity(0, bytes, mask.get()) == 0;
}

}  // namespace

bool is_default_binding(const binding_facts& facts) {
  if (facts.own.empty() || facts.own.size() >= facts.launcher.size()) return false;
  const bool is_part = std::includes(facts.launcher.begin(), facts.launcher.end(),
                                     facts.own.begin(), facts.own.end());
  if (!is_part || facts.own.front() != facts.launcher.front()) return false;
  // An agent with all its workers on one core is never intended.
  return facts.is_asked_for ? !*facts.is_asked_for : facts.is_one_core;
}

std::optional<bool> asks_for_binding(const environment_map& environment, const ancestors& above) {
  for (const std::string_view variable :
       {"OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_hwloc_base_cpu_list",
        "OMPI_MCA_rmaps_rank_file_path", "PRTE_MCA_hwloc_default_binding_policy",
        "PRTE_MCA_hwloc_default_cpu_list"}) {
    if (find_variable(environment, variable) != nullptr) return true;
  }
  if (says_processors(variable_or_empty(environment, "OMPI_MCA_rmaps_base_mapping_policy")))
    return true;
  if (const ancestor* const front = front_end(above)) {
    const std::vector<std::string> options = options_of(*front);
    return std::any_of(options.begin(), options.end(), [](const std::string& option) {
      return is_binding_option(option) || says_processors(option);
    });
  }
  // OpenMPI 4 passes its options to all nodes as variables.
  if (find_variable(environment, "OMPI_MCA_orte_bound_at_launch") != nullptr) return false;
  return {};
}

std::string take_binding_back(const environment_map& environment, const ancestors& above) {
  const ancestor* const process = starter(above);
  if (process == nullptr) return {};
  binding_facts facts;
  facts.own = allowed_processors();
  facts.launcher = allowed_processors(process->pid);
  facts.is_asked_for = asks_for_binding(environment, above);
  facts.is_one_core = is_one_core(facts.own);
  if (!is_default_binding(facts) || !run_on(facts.launcher)) return {};
  return "mpirun had bound this process to " +
         std::string(facts.own.size() == 1 ? "processor " : "processors ") +
         number_list(facts.own) + " of " + number_list(facts.launcher) +
         ": workers may use all of them, as with --bind-to none (--bind-to core keeps it)";
}

}  // namespace ddprun::launcher::hosts::mpi
