// A pod's index and names tell which node it is, whatever other variables it has.
#include "launcher/hosts/kubernetes/pod_placement.hpp"

#include "tests/support/catch.hpp"

namespace ddprun::launcher::kubernetes {
namespace {

using hosts::placement;
using hosts::placement_outcome;

// As kubelet writes a pod's /etc/hosts.
pod_facts pod_called(const std::string& name, const std::string& subdomain) {
  const std::string full =
      subdomain.empty() ? "" : name + "." + subdomain + ".research.svc.cluster.local\t";
  return {name,
          "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n"
          "10.1.0.7\t" +
              full + name + "\n"};
}

placement placed(const pod_facts& pod, const environment_map& environment) {
  const placement_outcome outcome = place_pod(pod, environment);
  if (const auto* wrong = std::get_if<cli::usage_error>(&outcome)) FAIL(wrong->text);
  REQUIRE(std::holds_alternative<placement>(outcome));
  return std::get<placement>(outcome);
}

std::string refusal_of_pod(const pod_facts& pod, const environment_map& environment) {
  const placement_outcome outcome = place_pod(pod, environment);
  const auto* wrong = std::get_if<cli::usage_error>(&outcome);
  return wrong == nullptr ? std::string() : wrong->text;
}

}  // namespace

TEST_CASE("a pod of an Indexed Job meets the others at the one with index 0") {
  const placement found = placed(pod_called("train-12", "train"), {{"JOB_COMPLETION_INDEX", "12"}});
  CHECK(found.engine == "Kubernetes Job train");
  CHECK(found.node_rank == 12);
  CHECK(found.nodes == 0);
  CHECK(found.meeting_host == "train-0.train");
  CHECK(found.meeting_port == 29400);
  CHECK(found.run_id == "train");
  CHECK_FALSE(found.workers);
  CHECK(found.notes.empty());
}

TEST_CASE("a pod of a JobSet is called by its group, too") {
  const placement found =
      placed(pod_called("llm-node-0-3", "workers"), {{"JOB_COMPLETION_INDEX", "3"}});
  CHECK(found.node_rank == 3);
  CHECK(found.meeting_host == "llm-node-0-0.workers");
}

TEST_CASE("without a Service pods do not know each other: an array of jobs") {
  CHECK(std::holds_alternative<std::monostate>(
      place_pod(pod_called("sweep-3", ""), {{"JOB_COMPLETION_INDEX", "3"}})));
  CHECK(std::holds_alternative<std::monostate>(place_pod(pod_called("web-7d9", "web"), {})));
}

TEST_CASE("the names of a node whose network a pod shares are no subdomain") {
  const std::string begin = "127.0.0.1 localhost\n10.0.0.5 ";
  for (const std::string names :
       {"gpu-7.corp.example gpu-7", "gpu-7.corp gpu-7", "gpu-7.a.b.c.example", "gpu-7.a.b.svc"}) {
    INFO(names);
    CHECK(subdomain_of({"gpu-7", begin + names + "\n"}).empty());
  }
  CHECK(subdomain_of({"gpu-7", begin + "gpu-7.corp.example gpu-7.train.ns.svc.example gpu-7\n"}) ==
        "train");
}

TEST_CASE("an index that is none, or fits no name, is told") {
  CHECK(refusal_of_pod(pod_called("train-1", "train"), {{"JOB_COMPLETION_INDEX", "one"}}) ==
        "JOB_COMPLETION_INDEX=one is not a pod index: check who sets it");
  CHECK(refusal_of_pod(pod_called("node7", "train"), {{"JOB_COMPLETION_INDEX", "1"}}) ==
        "JOB_COMPLETION_INDEX=1 does not fit this host's name, node7, so the other pods' names are "
        "unknown; write --rdzv-endpoint=HOST[:PORT], the name of the pod with index 0");
}

TEST_CASE("what a pod carries for another launcher is told where it contradicts") {
  const placement found = placed(pod_called("train-1", "train"), {{"JOB_COMPLETION_INDEX", "1"},
                                                                  {"RANK", "3"},
                                                                  {"LOCAL_RANK", "0"},
                                                                  {"MASTER_ADDR", "elsewhere"}});
  REQUIRE(found.notes.size() == 3);
  CHECK(found.notes[0] ==
        "RANK=3 of this pod contradicts its index 1, which counts; workers get ranks of their own");
  CHECK(placed(pod_called("train-1", "train"),
               {{"JOB_COMPLETION_INDEX", "1"}, {"RANK", "1"}, {"MASTER_ADDR", "train-0.train"}})
            .notes.empty());
}

TEST_CASE("a PyTorchJob without PET_* numbers its pods by RANK and WORLD_SIZE") {
  const environment_map worker = {{"RANK", "2"},
                                  {"WORLD_SIZE", "3"},
                                  {"MASTER_ADDR", "bert-master-0"},
                                  {"MASTER_PORT", "23456"}};
  const placement found = placed(pod_called("bert-worker-1", ""), worker);
  CHECK(found.nodes == 3);
  CHECK(found.node_rank == 2);
  CHECK(found.meeting_host == "bert-master-0");
  CHECK(found.meeting_port == 23456);
  CHECK(found.run_id == "bert");
  environment_map master = worker;
  master["RANK"] = "0";
  master["MASTER_ADDR"] = "localhost";
  CHECK(placed(pod_called("bert-master-0", ""), master).meeting_host == "bert-master-0");
  CHECK(placed(pod_called("bert-master-0", ""), master).run_id == "bert");
  master["RANK"] = "3";
  CHECK(
      refusal_of_pod(pod_called("bert-worker-2", ""), master).starts_with("RANK=3, WORLD_SIZE=3"));
  // In a pod without a subdomain, RANK is a worker's, set by whoever has created the pod.
  CHECK(std::holds_alternative<std::monostate>(place_pod(pod_called("box", ""), worker)));
}

}  // namespace ddprun::launcher::kubernetes
