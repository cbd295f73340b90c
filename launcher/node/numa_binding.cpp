#include "launcher/node/numa_binding.hpp"

#include "rendezvous/base/counted.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace ddprun::launcher {
namespace {

using processors = std::vector<numa_topology::processor>;

// A worker's position among those that share a NUMA node, in order of their ranks.
struct position_in_node {
  int node = 0;
  std::size_t index = 0;
  std::size_t of = 1;
};

std::vector<int> nodes_of_ranks(std::size_t workers, const numa_topology& topology) {
  std::vector<int> nodes = topology.gpus;
  const std::size_t gpus = nodes.size();
  for (std::size_t rank = gpus; rank < workers; ++rank) {
    nodes.push_back(gpus > 0 ? nodes[rank % gpus]
                             : std::next(topology.nodes.begin(),
                                         static_cast<std::ptrdiff_t>(rank % topology.nodes.size()))
                                   ->first);
  }
  return nodes;
}

std::vector<int> numbers_of(const processors& some) {
  std::vector<int> numbers;
  for (const numa_topology::processor& one : some)
    numbers.push_back(one.number);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Groups by core or cache, which are named by their lowest processor.
std::map<int, processors> grouped(const processors& some, int numa_topology::processor::*by) {
  std::map<int, processors> groups;
  for (const numa_topology::processor& one : some)
    groups[one.*by].push_back(one);
  return groups;
}

processors of_socket(const numa_topology& topology, const processors& node) {
  const auto socket_of = [](const processors& some) {
    return std::min_element(
               some.begin(), some.end(),
               [](const auto& left, const auto& right) { return left.number < right.number; })
        ->socket;
  };
  processors all;
  for (const auto& [number, its] : topology.nodes) {
    if (socket_of(its) == socket_of(node)) all.insert(all.end(), its.begin(), its.end());
  }
  return all;
}

processors own_cores(const processors& node, const position_in_node& where) {
  const auto cores = grouped(node, &numa_topology::processor::core);
  const std::size_t each = cores.size() / where.of;
  const std::size_t rest = cores.size() % where.of;
  if (each == 0) return {};
  const std::size_t first = where.index * each + std::min(where.index, rest);
  const std::size_t count = each + (where.index < rest ? 1 : 0);
  processors own;
  auto core = std::next(cores.begin(), static_cast<std::ptrdiff_t>(first));
  for (std::size_t taken = 0; taken < count; ++taken, ++core)
    own.insert(own.end(), core->second.begin(), core->second.end());
  return own;
}

processors own_cache(const processors& node, const position_in_node& where) {
  std::vector<processors> caches;
  for (auto& [first, its] : grouped(node, &numa_topology::processor::cache))
    caches.push_back(its);
  std::stable_sort(
      caches.begin(), caches.end(),
      [](const processors& left, const processors& right) { return left.size() > right.size(); });
  return caches[where.index % caches.size()];
}

processors bind(numa_mode mode, const numa_topology& topology, const processors& node,
                const position_in_node& where) {
  switch (mode) {
    case numa_mode::off:
    case numa_mode::node:
      break;
    case numa_mode::socket:
      return of_socket(topology, node);
    case numa_mode::exclusive:
      return own_cores(node, where);
    case numa_mode::core_complex:
      return own_cache(node, where);
  }
  return node;
}

}  // namespace

cli::parsed<std::vector<std::vector<int>>> bind_workers(numa_mode mode, std::uint32_t workers,
                                                        const numa_topology& topology) {
  std::vector<std::vector<int>> bound;
  if (mode == numa_mode::off) return bound;
  const std::string words = "--numa-binding=" + std::string(to_string(mode));
  if (topology.nodes.empty()) return cli::usage_error{words + ": no processor found"};
  const std::vector<int> nodes = nodes_of_ranks(workers, topology);
  for (std::size_t rank = 0; rank < workers; ++rank) {
    const auto begin = nodes.begin();
    const position_in_node where{
        nodes[rank],
        static_cast<std::size_t>(
            std::count(begin, begin + static_cast<std::ptrdiff_t>(rank), nodes[rank])),
        static_cast<std::size_t>(std::count(begin, nodes.end(), nodes[rank]))};
    const auto node = topology.nodes.find(where.node);
    if (node == topology.nodes.end()) {
      return cli::usage_error{words + ": the GPU of local rank " + std::to_string(rank) +
                              " is at NUMA node " + std::to_string(where.node) +
                              ", but this process may not use any of its processors; check taskset "
                              "and cpusets, or leave the option out"};
    }
    const processors own = bind(mode, topology, node->second, where);
    if (own.empty()) {
      const std::size_t cores = grouped(node->second, &numa_topology::processor::core).size();
      return cli::usage_error{words + ": NUMA node " + std::to_string(where.node) + " has " +
                              counted(cores, "core") + " for " + counted(where.of, "worker") +
                              "; start fewer, or write --numa-binding=node"};
    }
    bound.push_back(numbers_of(own));
  }
  return bound;
}

std::string_view to_string(numa_mode mode) {
  switch (mode) {
    case numa_mode::off:
      return "off";
    case numa_mode::node:
      return "node";
    case numa_mode::socket:
      return "socket";
    case numa_mode::exclusive:
      return "exclusive";
    case numa_mode::core_complex:
      return "core-complex";
  }
  return "unknown";
}

}  // namespace ddprun::launcher
