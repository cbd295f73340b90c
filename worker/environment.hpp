// The environment is what the launcher tells a worker: who it is, how many there are, where they
// meet, and in which round of which run.
//
// Read from the variables that torchrun sets too (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,
// MASTER_ADDR, MASTER_PORT, and, when present, GROUP_RANK, GROUP_WORLD_SIZE, TORCHELASTIC_*) and,
// under ddprun, DDPRUN_ROUND, DDPRUN_INSTANCE and DDPRUN_NODE_ID. So a program that uses it runs
// under either launcher.
//
// `read_environment` calls getenv: call it before starting threads that
// change the environment.
// Errors: a variable that is missing, no number or out of range throws `environment_error`, whose
// text names the variable, its value, and what to do. It is a start-up error: let main print it.
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
  std::uint32_t rank = 0;        // 0 to world_size - 1, each once in a round
  std::uint32_t world_size = 1;  // workers in the round, on all nodes
  std::uint32_t local_rank = 0;  // 0 to local_world_size - 1 on this node
  std::uint32_t local_world_size = 1;
  std::uint32_t group_rank = 0;        // of the node; 0 when not told
  std::uint32_t group_world_size = 1;  // nodes; 1 when not told
  std::string master_address;          // name or numeric address of the round's store
  std::uint16_t master_port = 0;
  bool agent_store = false;         // true: the launcher serves the store, every rank is a client
  std::uint32_t restart_count = 0;  // charged restarts of this run so far
  std::uint32_t restarts_max = 0;
  std::string run_id;   // empty when not told
  std::string node_id;  // the node's label for people; empty when not told
  // Under torchrun, which has none: restart_count + 1, in which nodes may differ once membership
  // has changed.
  std::uint64_t round = 1;
  std::uint64_t instance = 0;  // 0: the launcher has no such notion (torchrun)
};

// Looks one variable up; none when it is not set.
using variable_lookup = std::function<std::optional<std::string>(const char* name)>;

environment read_environment(const variable_lookup& lookup);

// The same from this process's own variables.
environment read_environment();

// A place that is given by hand, as to PyTorch's init_process_group(init_method="tcp://IP:PORT",
// rank=, world_size=): all three, or "env://" alone, which is read_environment(). Of the variables
// count those that do not speak of it: whose the store is, the round, restarts, LOCAL_RANK.
struct place_by_hand {
  std::string init_method = "env://";
  std::optional<std::uint32_t> rank;
  std::optional<std::uint32_t> world_size;
};
environment read_environment(const place_by_hand& place, const variable_lookup& lookup);
environment read_environment(const place_by_hand& place);

}  // namespace ddprun::worker
