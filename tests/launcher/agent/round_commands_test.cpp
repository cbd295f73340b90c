#include "launcher/agent/round_commands.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

struct node_of_two {
  node_of_two() {
    options.program = "train.py";
    round.worker_count = 2;
    round.run_id = "job7";
    round.node = "b";
    round.assignment.rank_first = 4;
    round.assignment.world_size = 6;
  }
  std::vector<worker_command> commands(const std::vector<std::vector<int>>& processors = {}) const {
    return commands_of_round(options, round, {}, {}, processors);
  }
  launch_options options;
  worker_round round;
};

}  // namespace

TEST_CASE("each worker has its rank, its environment and its processors") {
  const node_of_two node;
  const std::vector<worker_command> commands = node.commands({{0, 1}, {2, 3}});
  REQUIRE(commands.size() == 2);
  CHECK(commands[1].local_rank == 1);
  CHECK(commands[1].rank == 5);
  CHECK(commands[1].processors == std::vector<int>{2, 3});
  const auto& variables = commands[1].environment;
  CHECK(std::count(variables.begin(), variables.end(), "RANK=5") == 1);
  CHECK(commands[0].argv == commands[1].argv);
  CHECK(node.commands()[1].processors.empty());
}

TEST_CASE("each worker gets a free port of its own where its arguments ask for one") {
  node_of_two node;
  node.options.arguments = {"--port={free_port}"};
  const std::vector<worker_command> commands = node.commands();
  CHECK(commands[0].argv.back().starts_with("--port="));
  CHECK(commands[0].argv.back() != "--port=0");
  CHECK(commands[0].argv.back() != commands[1].argv.back());
}

TEST_CASE("a worker's lines have the colour of its rank where colours are wanted") {
  node_of_two node;
  node.options.output.color = color_mode::always;
  const std::vector<worker_command> colored = node.commands();
  CHECK_FALSE(colored[0].output.prefix.empty());
  CHECK(colored[0].output.prefix != colored[1].output.prefix);
  CHECK(colored[1].output.prefix_color == color_of_rank(5));
  CHECK(colored[1].errors.prefix_color == color_of_rank(5));
  node.options.output.color = color_mode::never;
  CHECK_FALSE(node.commands()[1].output.prefix_color.has_value());
}

TEST_CASE("a terminal is used if a worker has one on either stream") {
  std::vector<worker_command> commands(2);
  CHECK_FALSE(uses_terminal(commands));
  commands[1].errors.terminal.emplace();
  CHECK(uses_terminal(commands));
}
