// The environment is what the launcher tells a worker: its rank, the number of workers, the address
// of the round's store, and the round and run that it belongs to.
//
// It is read from the variables that torchrun sets too (RANK, LOCAL_RANK, WORLD_SIZE,
// LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and if present GROUP_RANK, GROUP_WORLD_SIZE,
// TORCHELASTIC_*) and, under ddprun, from DDPRUN_ROUND, DDPRUN_INSTANCE and DDPRUN_NODE_ID. A
// program that uses it therefore runs under either launcher.
//
// Thread rule: `read_environment` calls getenv, so no other thread may change the environment
// meanwhile.
// Errors: a variable that is missing, not a number or out of range throws `environment_error`,
// whose text names the variable, its value, and what to do. It is a start-up error that main should
// print.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace ddprun::worker {

class environment_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct environment {
  std::uint32_t rank = 0;        // 0 to world_size - 1, unique in a round
  std::uint32_t world_size = 1;  // workers in the round, on all nodes
  std::uint32_t local_rank = 0;  // 0 to local_world_size - 1 on this node
  std::uint32_t local_world_size = 1;
  std::uint32_t group_rank = 0;        // the node's, 0 if not set
  std::uint32_t group_world_size = 1;  // nodes in the round, 1 if not set
  std::string master_address;          // name or numeric address of the round's store
  std::uint16_t master_port = 0;
  bool agent_store = false;         // the launcher serves the store; all ranks are clients
  std::uint32_t restart_count = 0;  // restarts so far, those that count against the limit
  std::uint32_t restarts_max = 0;
  std::string run_id;   // empty if not set
  std::string node_id;  // the node's label for people; empty if not set
  // torchrun does not number rounds, so under it this is restart_count + 1, on which nodes may
  // disagree once membership has changed.
  std::uint64_t round = 1;
  std::uint64_t instance = 0;  // 0 under torchrun, which has no instances
};

// Looks up one variable; none if it is not set.
using variable_lookup = std::function<std::optional<std::string>(const char* name)>;

environment read_environment(const variable_lookup& lookup);

// Reads this process's own variables.
environment read_environment();

// Rank, world size and address given by hand, as to PyTorch's
// init_process_group(init_method="tcp://IP:PORT", rank=, world_size=). All three are required,
// except with "env://", which is the same as read_environment(). Everything else (who serves the
// store, the round, restarts, LOCAL_RANK) still comes from the variables.
struct place_by_hand {
  std::string init_method = "env://";
  std::optional<std::uint32_t> rank;
  std::optional<std::uint32_t> world_size;
};
environment read_environment(const place_by_hand& place, const variable_lookup& lookup);
environment read_environment(const place_by_hand& place);

}  // namespace ddprun::worker
