// The request is in the manifest, and mistakes are reported before a manifest is written.
// tests/cluster/test_kubernetes.py checks whole manifests against Kubernetes' own schemas.
#include "launcher/hosts/kubernetes/kubernetes_manifest.hpp"

#include "launcher/hosts/kubernetes/pod_template.hpp"
#include "tests/launcher/cli/parsed_options.hpp"

namespace ddprun::launcher::kubernetes {
namespace {

manifest_request request_of(const std::string& line) {
  const request_outcome outcome = read_request(tests::words(line));
  INFO(line);
  if (const auto* wrong = std::get_if<cli::usage_error>(&outcome)) FAIL(wrong->text);
  return std::get<manifest_request>(outcome);
}

std::string refusal_of(const std::string& line) {
  const request_outcome outcome = read_request(tests::words(line));
  const auto* wrong = std::get_if<cli::usage_error>(&outcome);
  return wrong == nullptr ? std::string() : wrong->text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the line of a pod has ddprun's options, the script and its arguments") {
  const manifest_request request = request_of(
      "--nnodes 4 --gpus 8 --image me/train:1 --max-restarts 3 --no-python train --lr 0.1 --nnodes "
      "9");
  CHECK(request.name == "train");
  CHECK(pod_arguments(request, {}) ==
        tests::words("--nnodes=4 --nproc-per-node=8 --health-port=29401 --drain-exit-code=143 "
                     "--max-restarts=3 --no-python train --lr 0.1 --nnodes 9"));
  pod_shape of_trainer;
  of_trainer.tells_size = false;
  CHECK(pod_arguments(request, of_trainer).front() == "--health-port=29401");
  const manifest_request elastic = request_of("--nnodes=2:4 --image=i train.py");
  CHECK(pod_arguments(elastic, of_trainer).front() == "--nnodes=2:4");
  CHECK(pod_arguments(elastic, {})[1] == "--nproc-per-node=1");
}

TEST_CASE("a pod has the time that its workers are given, and what ddprun needs to leave") {
  // drain_grace, kill_wait, node_timeout and linger, and a margin of 5 s.
  CHECK(request_of("--image=i a.py").grace == std::chrono::seconds(30 + 5 + 10 + 10 + 5));
  CHECK(request_of("--image=i --shutdown-timeout=300 a.py").grace ==
        std::chrono::seconds(300 + 5 + 10 + 10 + 5));
  CHECK(has(manifest_text(request_of("--image=i --rdzv-conf=linger=2 a.py")),
            "terminationGracePeriodSeconds: 52\n"));
}

TEST_CASE("the job is called by its script, unless it is given a name") {
  CHECK(request_of("--image=i /data/My_Train.v2.py").name == "my-train");
  CHECK(request_of("--image=i 01_train.py").name == "train");
  CHECK(request_of("--image=i 42.py").name == "ddprun");
  CHECK(request_of("--image=i --name=job-7 a.py").name == "job-7");
}

TEST_CASE("a job goes on as long as enough pods are left") {
  CHECK(has(manifest_text(request_of("--nnodes=4 --image=i a.py")), "maxFailedIndexes: 0\n"));
  const std::string elastic = manifest_text(request_of("--nnodes=2:4 --image=i a.py"));
  CHECK(has(elastic, "completions: 4\n"));
  CHECK(has(elastic, "maxFailedIndexes: 2\n"));
}

TEST_CASE("kinds differ in what they bring themselves") {
  const std::string line = " --nnodes=3 --image=i a.py";
  const std::string job = manifest_text(request_of("--kind=job" + line));
  CHECK(has(job, "kind: Service\n"));
  CHECK(has(job, "clusterIP: None\n"));
  CHECK(has(job, "publishNotReadyAddresses: true\n"));
  const std::string jobset = manifest_text(request_of("--kind=jobset" + line));
  CHECK_FALSE(has(jobset, "kind: Service\n"));
  CHECK(has(jobset, "publishNotReadyAddresses: true\n"));
  const std::string trainjob = manifest_text(request_of("--kind=trainjob" + line));
  CHECK(has(trainjob, "kind: TrainingRuntime\n"));
  CHECK_FALSE(has(trainjob, "--nnodes=3"));
  const std::string pytorchjob = manifest_text(request_of("--kind=pytorchjob" + line));
  CHECK(has(pytorchjob, "replicas: 2\n"));
  CHECK_FALSE(has(pytorchjob, "podFailurePolicy"));
}

TEST_CASE("what no manifest can be made of is told in a line") {
  const std::string image = " --image=i a.py";
  CHECK(refusal_of("--nnodes=4 --image=i") ==
        "no script given; usage: ddprun manifest kubernetes --nnodes N --image IMAGE SCRIPT "
        "[ARGUMENTS]");
  CHECK(refusal_of("--nnodes=4 a.py") ==
        "--image=IMAGE is missing: what the pods run, with ddprun in it");
  CHECK(refusal_of("--nnodes=0" + image).starts_with("--nnodes=0: "));
  CHECK(refusal_of("--nnodes=4:2" + image).starts_with("--nnodes=4:2: "));
  CHECK(refusal_of("--gpus=two" + image).starts_with("--gpus=two: "));
  CHECK(refusal_of("--name=Train" + image).starts_with("--name=Train: Kubernetes takes"));
  CHECK(refusal_of("--kind=pod" + image) ==
        "--kind=pod: write job, jobset, trainjob or pytorchjob");
  CHECK(refusal_of("--max-restarts=many" + image).starts_with("--max-restarts=many: "));
  CHECK(refusal_of("--rdzv-endpoint=h:1" + image) ==
        "--rdzv-endpoint=h:1: the pods know where they meet, and which one each of them is; leave "
        "it out");
  CHECK(refusal_of("--volume=data" + image).starts_with("--volume=data: write CLAIM:/PATH"));
  CHECK(refusal_of("--kind=trainjob --nproc-per-node=auto" + image) ==
        "--nproc-per-node=auto: a TrainJob has a number there; write it");
  CHECK(refusal_of("--image=i a.py \xff") ==
        "'\xef\xbf\xbd': a manifest is UTF-8, and this argument is not");
}

TEST_CASE("a name leaves room for the index of its pods") {
  const std::string name(61, 'a');
  CHECK(refusal_of("--nnodes=10 --image=i --name=" + name + " a.py").empty());
  CHECK(refusal_of("--nnodes=11 --image=i --name=" + name + " a.py") ==
        "--name=" + name + ": pods are called " + name +
            "-10, which has 64 characters, and a host name has at most 63; shorten it");
  CHECK_FALSE(refusal_of("--kind=jobset --nnodes=2 --image=i --name=" + name + " a.py").empty());
}

TEST_CASE("help shows the options of the manifest alone") {
  const request_outcome outcome = read_request({"--help"});
  REQUIRE(std::holds_alternative<cli::show_text>(outcome));
  const std::string& text = std::get<cli::show_text>(outcome).text;
  CHECK(has(text, "--image"));
  CHECK_FALSE(has(text, "--rdzv-endpoint"));
}

}  // namespace ddprun::launcher::kubernetes
