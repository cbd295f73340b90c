// Slurm's compressed lists: "node[001-003,007],gpu5" for names, "2(x3),1" for a number per node.
//
// Source of the forms: scontrol(1) "show hostnames" and srun(1) SLURM_TASKS_PER_NODE, Slurm 22.05.
// Lists are expanded as scontrol does (tests/cluster/test_slurm.py compares); a suffix after the
// last bracket, which scontrol 22.05 refuses, is accepted.
//
// Errors: empty if it is not such a list, or has more than `names_max` names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::slurm {

inline constexpr std::size_t names_max = 65'536;  // Slurm's limit of nodes

// In the order of the list; duplicates are kept. An empty list has no names.
std::optional<std::vector<std::string>> expand_node_list(std::string_view list);

// One number for each node, in the order of the node list.
std::optional<std::vector<std::uint32_t>> expand_counts(std::string_view list);

// node2 comes before node10: digits are compared as numbers, everything else by bytes.
bool is_before(std::string_view left, std::string_view right);

}  // namespace ddprun::launcher::slurm
