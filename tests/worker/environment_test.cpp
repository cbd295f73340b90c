#include "worker/environment.hpp"

#include "tests/support/catch.hpp"

#include <map>

namespace ddprun::tests {
namespace {

using variables = std::map<std::string, std::string>;

variables of_torchrun() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "5"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "3"},
          {"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "10.0.0.7"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_RESTART_COUNT", "2"},
          {"TORCHELASTIC_MAX_RESTARTS", "4"},
          {"TORCHELASTIC_RUN_ID", "job"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

worker::environment environment_of(const variables& set) {
  return worker::read_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = set.find(name);
    return found == set.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string environment_problem(variables set, const std::string& name,
                                std::optional<std::string> value) {
  set.erase(name);
  if (value) set[name] = *value;
  try {
    environment_of(set);
  } catch (const worker::environment_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a worker knows its place from torchrun's variables", "[environment]") {
  const auto environment = environment_of(of_torchrun());
  CHECK(environment.rank == 3);
  CHECK(environment.world_size == 5);
  CHECK(environment.local_rank == 1);
  CHECK(environment.local_world_size == 3);
  CHECK(environment.group_rank == 1);
  CHECK(environment.group_world_size == 2);
  CHECK(environment.master_address == "10.0.0.7");
  CHECK(environment.master_port == 29500);
  CHECK(environment.restart_count == 2);
  CHECK(environment.restarts_max == 4);
  CHECK(environment.run_id == "job");
  CHECK(environment.agent_store);
  CHECK(environment.round == 3);
  CHECK(environment.instance == 0);
}

TEST_CASE("ddprun's own variables are used where they are set", "[environment]") {
  auto set = of_torchrun();
  set["DDPRUN_ROUND"] = "9";
  set["DDPRUN_INSTANCE"] = "ffffffffffffffff";
  set["DDPRUN_NODE_ID"] = "node-a";
  const auto environment = environment_of(set);
  CHECK(environment.round == 9);
  CHECK(environment.instance == ~std::uint64_t{0});
  CHECK(environment.node_id == "node-a");
}

TEST_CASE("variables that a launcher may omit have defaults", "[environment]") {
  const auto environment = environment_of({{"RANK", "0"},
                                           {"WORLD_SIZE", "1"},
                                           {"LOCAL_RANK", "0"},
                                           {"LOCAL_WORLD_SIZE", "1"},
                                           {"MASTER_ADDR", "::1"},
                                           {"MASTER_PORT", "1"}});
  CHECK(environment.group_rank == 0);
  CHECK(environment.group_world_size == 1);
  CHECK(environment.round == 1);
  CHECK(!environment.agent_store);
  CHECK(environment.run_id.empty());
}

TEST_CASE("a missing variable is named with what to do", "[environment]") {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    CHECK(environment_problem(of_torchrun(), name, std::nullopt) ==
          std::string(name) +
              " is not set: start this program with ddprun or torchrun, which set it");
    CHECK(environment_problem(of_torchrun(), name, "") ==
          std::string(name) +
              " is empty: start this program with ddprun or torchrun, which set it");
  }
}

TEST_CASE("a value that is not a number is named", "[environment]") {
  for (const char* value : {"three", "3x", " 3", "-1", "+1", "0x3", "3.0"}) {
    CHECK(environment_problem(of_torchrun(), "RANK", value) ==
          std::string("RANK='") + value +
              "' is not a number: start this program with ddprun or torchrun, and do not set it by "
              "hand");
  }
}

TEST_CASE("a value out of range is named with the range", "[environment]") {
  const auto set = of_torchrun();
  CHECK(environment_problem(set, "RANK", "5") ==
        "RANK='5' is out of range: it must be 0 to 4; start this program with ddprun or torchrun, "
        "and do not set it by hand");
  CHECK(environment_problem(set, "WORLD_SIZE", "0").starts_with("WORLD_SIZE='0' is out of range"));
  CHECK(environment_problem(set, "LOCAL_RANK", "3").starts_with("LOCAL_RANK='3' is out of range"));
  CHECK(environment_problem(set, "LOCAL_WORLD_SIZE", "6")
            .starts_with("LOCAL_WORLD_SIZE='6' is out of range"));
  CHECK(environment_problem(set, "MASTER_PORT", "65536")
            .starts_with("MASTER_PORT='65536' is out of range"));
  CHECK(
      environment_problem(set, "MASTER_PORT", "0").starts_with("MASTER_PORT='0' is out of range"));
  CHECK(environment_problem(set, "DDPRUN_ROUND", "0")
            .starts_with("DDPRUN_ROUND='0' is out of range"));
  CHECK(environment_problem(set, "DDPRUN_ROUND", "99999999999999999999")
            .starts_with("DDPRUN_ROUND='99999999999999999999' is out of range"));
}

TEST_CASE("with rank and address given by hand, the rest comes from the variables",
          "[environment]") {
  const auto at = [](worker::place_by_hand place, const variables& set) {
    return worker::read_environment(place, [&](const char* name) -> std::optional<std::string> {
      const auto found = set.find(name);
      return found == set.end() ? std::nullopt : std::optional(found->second);
    });
  };
  const auto alone = at({"tcp://10.1.2.3:29501", 2, 4}, {});
  CHECK(alone.rank == 2);
  CHECK(alone.world_size == 4);
  CHECK(alone.local_rank == 0);
  CHECK(alone.master_address == "10.1.2.3");
  CHECK(alone.master_port == 29501);
  CHECK_FALSE(alone.agent_store);
  CHECK(alone.round == 1);
  const auto launched = at({"tcp://[fe80::1]:29501", 4, 5}, of_torchrun());
  CHECK(launched.rank == 4);
  CHECK(launched.local_rank == 1);
  CHECK(launched.master_address == "fe80::1");
  CHECK(launched.agent_store);
  CHECK(launched.round == 3);
  CHECK(at({"env://", 1, 2}, of_torchrun()).rank == 3);

  const auto refusal = [&](const worker::place_by_hand& place) {
    try {
      at(place, {});
    } catch (const worker::environment_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal({"file:///tmp/x", 0, 1}) ==
        "init method 'file:///tmp/x' is neither env:// nor tcp://IP:PORT");
  for (const char* method : {"tcp://", "tcp://host", "tcp://:1"})
    CHECK(refusal({method, 0, 1}).starts_with("init method '" + std::string(method) + "' "));
  for (const char* method : {"tcp://host:0", "tcp://host:65536", "tcp://host:x", "tcp://host:"})
    CHECK(refusal({method, 0, 1}) == "init method '" + std::string(method) +
                                         "' has no address, or no port of 1 to 65535 behind it");
  CHECK(refusal({"tcp://host:1", std::nullopt, 2}) ==
        "init method 'tcp://host:1' needs a rank and a world size with it");
  CHECK(refusal({"tcp://host:1", 2, 2}) ==
        "rank 2 of 2 does not exist: ranks are 0 to the world size minus one");
}

}  // namespace ddprun::tests
