// The cluster's engine fills in what the user left out, and nothing else.
#include "tests/launcher/cli/parsed_options.hpp"

namespace ddprun::launcher {
namespace {

using hosts::placement;
using hosts::placement_outcome;

placement second_of_four() {
  placement found;
  found.engine = "Slurm step 12.0";
  found.nodes = 4;
  found.node_rank = 1;
  found.meeting_host = "node01";
  found.meeting_port = 61452;
  found.run_id = "slurm-12.0";
  found.workers = 8;
  return found;
}

parse_outcome outcome_of(const std::string& line, const placement_outcome& found) {
  return parse_options(tests::words(line), {}, {}, [&] { return found; });
}

launch_options options_with(const std::string& line, const placement_outcome& found) {
  const parse_outcome outcome = outcome_of(line, found);
  if (const auto* wrong = std::get_if<cli::usage_error>(&outcome)) FAIL(wrong->text);
  return std::get<launch_options>(outcome);
}

std::string error_with(const std::string& line, const placement_outcome& found) {
  const parse_outcome outcome = outcome_of(line, found);
  const auto* wrong = std::get_if<cli::usage_error>(&outcome);
  return wrong == nullptr ? std::string() : wrong->text;
}

}  // namespace

TEST_CASE("a script alone runs on all nodes that the engine has given") {
  const launch_options options = options_with("train.py", second_of_four());
  CHECK(options.settings.nodes_min == 4);
  CHECK(options.settings.nodes_max == 4);
  CHECK(options.workers.number == 8);
  CHECK(to_text(options.endpoint) == "node01:61452");
  CHECK(options.run_id == "slurm-12.0");
  CHECK(options.node_rank == 1U);
  CHECK(options.embed == embed_policy::never);
  CHECK_FALSE(options.standalone);
  CHECK_FALSE(options.is_static);
}

TEST_CASE("the node with rank 0 holds the daemon") {
  placement first = second_of_four();
  first.node_rank = 0;
  CHECK(options_with("train.py", first).embed == embed_policy::always);
  CHECK(options_with("--embed-daemon=never train.py", first).embed == embed_policy::never);
}

TEST_CASE("where there are several ports only the node with rank 0 opens one") {
  placement second = second_of_four();
  second.more_meeting_ports = {62817, 64182};
  CHECK(options_with("train.py", second).more_ports == std::vector<std::uint16_t>{62817, 64182});
  CHECK(options_with("train.py", second).embed == embed_policy::never);
  placement first = second;
  first.node_rank = 0;
  CHECK(options_with("train.py", first).embed == embed_policy::always);
}

TEST_CASE("what is typed wins over the engine") {
  const launch_options options =
      options_with("--nnodes=2:8 --nproc-per-node=2 --rdzv-id=job train.py", second_of_four());
  CHECK(options.settings.nodes_min == 2);
  CHECK(options.settings.nodes_max == 8);
  CHECK(options.workers.number == 2);
  CHECK(options.run_id == "job");
  CHECK(to_text(options.endpoint) == "node01:61452");
}

TEST_CASE("if the options say where the nodes meet, the engine is not asked") {
  for (const std::string line : {"--nnodes=2 --rdzv-endpoint=h:1 a.py", "--standalone a.py",
                                 "--nnodes=2 --master-addr=h a.py", "--nnodes=1 a.py",
                                 "--nnodes=2 --node-rank=1 --master-addr=h a.py"}) {
    const auto find = [&]() -> placement_outcome {
      FAIL("asked for " + line);
      return {};
    };
    CHECK(std::holds_alternative<launch_options>(parse_options(tests::words(line), {}, {}, find)));
  }
}

TEST_CASE("one node of an engine has its daemon in its own process") {
  placement one;
  one.engine = "Slurm step 12.0";
  one.run_id = "slurm-12.0";
  one.workers = 2;
  const launch_options options = options_with("train.py", one);
  CHECK(options.standalone);
  CHECK(options.workers.number == 2);
}

TEST_CASE("more nodes than the engine has are refused with both numbers") {
  CHECK(error_with("--nnodes=8 train.py", second_of_four()) ==
        "--nnodes=8: Slurm step 12.0 has 4 nodes; ask it for more, or write what it has");
}

TEST_CASE("an engine that cannot work says so itself; none leaves all as it was") {
  CHECK(error_with("train.py", cli::usage_error{"two tasks on one node"}) ==
        "two tasks on one node");
  CHECK(options_with("train.py", {}).standalone);
}

TEST_CASE("an engine that does not tell its nodes needs their number") {
  placement pod;
  pod.engine = "Kubernetes Job train";
  pod.nodes = 0;
  pod.node_rank = 3;
  pod.meeting_host = "train-0.train";
  pod.meeting_port = 29400;
  CHECK(error_with("train.py", pod) ==
        "Kubernetes Job train does not tell its pods how many they are; write --nnodes=N, or "
        "--nnodes=1 if each is a job of its own");
  CHECK(options_with("--nnodes=2:4 train.py", pod).node_rank == 3U);
  CHECK(options_with("--nnodes=3 --spares=1 train.py", pod).node_rank == 3U);
  CHECK(error_with("--nnodes=3 train.py", pod) ==
        "--nnodes=3: this pod of Kubernetes Job train has index 3; write the number of its "
        "completions, or give it fewer");
}

TEST_CASE("the first node of an engine that does not tell their number is one alone") {
  placement pod;
  pod.engine = "Kubernetes Job train";
  pod.nodes = 0;
  pod.node_rank = 0;
  pod.meeting_host = "train-0.train";
  pod.meeting_port = 29400;
  const launch_options alone = options_with("train.py", pod);
  CHECK(alone.standalone);
  CHECK(alone.settings.nodes_max == 1);
  REQUIRE(alone.notes.size() == 1);
  CHECK(alone.notes[0] ==
        "Kubernetes Job train does not tell its pods how many they are: this one runs as one node; "
        "if the job has several pods, write --nnodes=N");
  CHECK(options_with("--nnodes=2 train.py", pod).notes.empty());
  CHECK(to_text(options_with("--nnodes=2 train.py", pod).endpoint) == "train-0.train:29400");
}

// As Kubeflow's Trainer sets them.
TEST_CASE("the static form of a pod is that of an elastic run where a range is typed") {
  const environment_map pod = {{"PET_NNODES", "4"},
                               {"PET_NODE_RANK", "2"},
                               {"PET_NPROC_PER_NODE", "8"},
                               {"PET_MASTER_ADDR", "llm-node-0-0.llm"},
                               {"PET_MASTER_PORT", "29500"}};
  const launch_options fixed = tests::options_of("train.py", pod);
  CHECK(fixed.is_static);
  CHECK(fixed.settings.nodes_max == 4);
  const launch_options elastic = tests::options_of("--nnodes=2:4 train.py", pod);
  CHECK_FALSE(elastic.is_static);
  CHECK(elastic.settings.nodes_min == 2);
  CHECK(to_text(elastic.endpoint) == "llm-node-0-0.llm:29500");
  CHECK(elastic.node_rank == 2U);
  CHECK(elastic.workers.number == 8);
  CHECK(elastic.embed == embed_policy::automatic);
  CHECK(elastic.master_port == 0);
  CHECK(elastic.notes.empty());
  environment_map first = pod;
  first["PET_NODE_RANK"] = "0";
  CHECK(tests::options_of("--nnodes=2:4 train.py", first).embed == embed_policy::always);
  // If both are typed, it is a contradiction, as always.
  CHECK(tests::usage_error_of("--nnodes=2:4 --node-rank=1 --master-addr=h train.py")
            .starts_with("--nnodes=2:4: nodes that meet at --master-addr are numbered by "));
}

}  // namespace ddprun::launcher
