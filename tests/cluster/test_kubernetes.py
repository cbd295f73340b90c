"""`ddprun manifest kubernetes`: Kubernetes and Kubeflow accept what it writes, and what it promises
happens in simulated pods."""

import json
import re
import shutil
import signal
import subprocess

import pytest

from tests.support.cluster import BIN, LOST_SOON, ROOT, WORKER, wait_for
from tests.support.pods import Kubelet, expanded, plan_pods

yaml = pytest.importorskip("yaml", reason="PyYAML is missing: tests/setup installs it")

KINDS = ["job", "jobset", "trainjob", "pytorchjob"]
CORE_VERSION = "1.37"  # of the schemas of kubernetes-validate


def manifest(*words, kind="job", nnodes="3"):
    line = [BIN / "ddprun", "manifest", "kubernetes", "--kind", kind, "--nnodes", nnodes, "--image",
            "registry.example.org/train:1", "--name", "train", *words]
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def refused(*words):
    done = subprocess.run([BIN / "ddprun", "manifest", "kubernetes", *words], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


FULL = ["--gpus=8", "--cpu=96", "--memory=512Gi", "--shm-size=64Gi", "--rdma=rdma/hca",
        "--volume=data:/data", "--env=A=b", "--max-restarts=3", "train.py", "--lr", "0.1"]


def check_core(document):
    """Checks it against Kubernetes' own schema; unknown fields are errors."""
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is missing: "
                                                                 "tests/setup installs it")
    validate.validate(document, CORE_VERSION, strict=True)


def is_kept(part, whole):
    """Whether all of `part` is in `whole`, which may also have defaults."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and is_kept(value, whole[key])
                                               for key, value in part.items())
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(is_kept, part, whole))
    return part == whole


def check_kubeflow(document):
    """Checks it against the models that the Trainer publishes, in which unknown fields get lost."""
    models = pytest.importorskip("kubeflow_trainer_api.models", reason="kubeflow-trainer-api is "
                                                                       "missing: tests/setup "
                                                                       "installs it")
    model = {"JobSet": "JobsetV1alpha2JobSet", "TrainJob": "TrainerV1alpha1TrainJob",
             "TrainingRuntime": "TrainerV1alpha1TrainingRuntime"}[document["kind"]]
    read = getattr(models, model).from_json(json.dumps(document))
    assert is_kept(document, json.loads(read.to_json())), "a field is unknown"


def check_replicas(document):
    """Checks the parts that are used of kubeflow.org/v1, for which no package has a schema."""
    spec = document["spec"]
    assert document["apiVersion"] == "kubeflow.org/v1"
    assert set(spec) <= {"runPolicy", "nprocPerNode", "pytorchReplicaSpecs", "elasticPolicy"}
    assert set(spec["runPolicy"]) <= {"backoffLimit", "cleanPodPolicy", "ttlSecondsAfterFinished"}
    assert isinstance(spec["nprocPerNode"], str)
    assert set(spec["pytorchReplicaSpecs"]) <= {"Master", "Worker"}
    for role in spec["pytorchReplicaSpecs"].values():
        assert set(role) == {"replicas", "restartPolicy", "template"}
        assert role["restartPolicy"] in ("Always", "OnFailure", "Never", "ExitCode")


def check_pod(template):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"],
           "spec": template["spec"]}
    check_core(pod)
    probes = template["spec"]["containers"][0]
    ports = {one["name"] for one in probes["ports"]}
    assert probes["startupProbe"]["httpGet"]["port"] in ports
    assert "readinessProbe" not in probes
    volumes = {one["name"]: one for one in template["spec"]["volumes"]}
    shared = next(one for one in probes["volumeMounts"] if one["mountPath"] == "/dev/shm")
    assert volumes[shared["name"]]["emptyDir"]["medium"] == "Memory"


def job_of(spec):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": spec}


@pytest.mark.parametrize("nnodes", ["1", "4", "2:4"])
@pytest.mark.parametrize("kind", KINDS)
def test_published_schemas_take_every_kind(kind, nnodes):
    extra = [] if kind == "pytorchjob" else ["--container-restarts"]
    kinds = []
    for document in manifest(*extra, *FULL, kind=kind, nnodes=nnodes):
        kinds.append(document["kind"])
        spec = document["spec"]
        if document["kind"] in ("Service", "Job"):
            check_core(document)
            if "template" in spec:
                check_pod(spec["template"])
        elif document["kind"] == "PyTorchJob":
            check_replicas(document)
            for role in spec["pytorchReplicaSpecs"].values():
                check_pod(role["template"])
        else:
            check_kubeflow(document)
            jobset = spec["template"]["spec"] if "mlPolicy" in spec else spec
            for group in jobset.get("replicatedJobs", []):
                check_core(job_of(group["template"]["spec"]))
                check_pod(group["template"]["spec"]["template"])
    assert kinds == {"job": ["Service", "Job"], "jobset": ["JobSet"], "pytorchjob": ["PyTorchJob"],
                     "trainjob": ["TrainingRuntime", "TrainJob"]}[kind]


HARD = ["", " ", "yes", "null", "~", "- a", "a: b", "x #y", "'", '"', "\\", "\n", "a\tb", "{a}",
        "[1]", "*a", "&a", "!a", "|", ">", "%", "@", "0x1f", "1e3", "2026-11-25", "=", "<<", "grüß",
        "\u2028", "\u0085", "\x01", "😀", "--", "-", "---", "$HOME", "a:", "12:30:45", "+.inf", "."]


@pytest.mark.parametrize("kind", KINDS)
def test_any_argument_arrives_as_it_was_typed(kind):
    arguments = [*HARD, "$(PET_NODE_ID)", "$$", "$$(A)", "a$$$b"]
    documents = manifest("--env", "A=$(B): \"x\"\ny", "train.py", *arguments, kind=kind)
    container = plan_pods(documents, "uid")[0].container
    defined = {"PET_NODE_ID": "pod", "A": "a", "B": "b"}
    words = [expanded(word, defined) for word in container["args"]]
    assert words[words.index("train.py") + 1:] == arguments
    value = next(one["value"] for one in container["env"] if one["name"] == "A")
    assert expanded(value, defined) == '$(B): "x"\ny'


def test_what_kubernetes_would_refuse_is_one_line():
    image = ["--image", "i", "train.py"]
    assert "--nnodes=0: " in refused("--nnodes", "0", *image)
    assert "--name=Train_1: Kubernetes takes" in refused("--name", "Train_1", *image)
    assert "write 512Mi" in refused("--memory", "512m", *image)
    assert "--image=IMAGE is missing" in refused("train.py")
    assert "no script given" in refused("--image", "i")


@pytest.mark.main_path
def test_the_line_that_readme_shows_writes_a_manifest():
    (line,) = re.findall(r"^\$ ddprun manifest kubernetes (.*) \| kubectl apply -f -$",
                         (ROOT / "README.md").read_text(), re.M)
    done = subprocess.run([BIN / "ddprun", "manifest", "kubernetes", *line.split()], check=True,
                          capture_output=True, text=True)
    service, job = yaml.safe_load_all(done.stdout)
    check_core(service)
    check_core(job)
    assert job["spec"]["completions"] == 4


@pytest.fixture
def play(cluster, make_hosts):
    def start(*words, kind="job", nnodes="3", nodes=3):
        if shutil.which("unshare") is None:
            pytest.skip("no unshare here, which pods are made with")
        documents = manifest(*words, "--no-python", WORKER, kind=kind, nnodes=nnodes)
        return Kubelet(cluster, make_hosts(nodes + 1), documents)
    return start


def stop(kubelet):
    kubelet.server.process.kill()
    kubelet.server.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_pods_meet_by_their_names_however_late_those_come(cluster, play, kind):
    kubelet = play("--nproc-per-node=2", kind=kind)
    kubelet.hold_names_back()
    pods = [kubelet.start(index) for index in (2, 0, 1)]
    for pod in pods:
        pod.says("train-.*(waiting|cannot|not known|no rendezvous|resolve)")
        wait_for(f"{pod.name} to answer probes", lambda pod=pod: pod.probe("startupProbe") == "200")
    kubelet.publish_names()
    workers = cluster.started(1, 6)
    # Each pod's index is its group rank, and no worker inherits the RANK of a pod.
    for rank, worker in enumerate(workers):
        assert int(worker.group_rank) == rank // 2 and worker.world_size == "6"
        plan = kubelet.plans[int(worker.group_rank)]
        assert worker.node.startswith(plan.hostname)
    cluster.finish(6)
    assert [kubelet.what_follows(pod) for pod in pods] == ["done"] * 3
    stop(kubelet)
    cluster.nothing_left()


def test_a_pod_stays_up_when_a_worker_fails_and_hangs(cluster, play):
    kubelet = play("--max-restarts=1", nnodes="2", nodes=2)
    pods = [kubelet.start(index) for index in range(2)]
    cluster.started(1, 2)
    cluster.order(1, "exit 3")
    workers = cluster.started(2, 2)
    assert all(pod.running() for pod in pods)
    assert [worker.restarts for worker in workers] == ["1", "1"]
    # A probe does not deal with a worker that hangs.
    cluster.order(0, "kill -STOP $$")
    assert [pod.probe("livenessProbe") for pod in pods] == ["200", "200"]
    # The budget is used up, and so is that of the Job: no outer loop starts it again.
    cluster.order(1, "exit 3")
    assert [kubelet.what_follows(pod) for pod in pods] == ["FailJob", "FailJob"]
    assert [pod.exit_code() for pod in pods] == [3, 3]
    stop(kubelet)
    cluster.nothing_left()


def test_what_a_pod_carries_for_another_launcher_reaches_no_worker(cluster, play):
    kubelet = play("--env=RANK=7", "--env=WORLD_SIZE=9", "--env=LOCAL_RANK=5",
                   "--env=MASTER_ADDR=nowhere", "--env=MASTER_PORT=1", nnodes="2", nodes=2)
    pods = [kubelet.start(index) for index in range(2)]
    workers = cluster.started(1, 2)
    assert [(one.rank, one.local_rank, one.world_size) for one in workers] == [("0", "0", "2"),
                                                                             ("1", "0", "2")]
    assert not any(one.master.startswith("nowhere") or one.master.endswith(":1") for one in workers)
    for index, pod in enumerate(pods):
        pod.says(f"RANK=7 of this pod contradicts its index {index}, which counts")
        pod.says("MASTER_ADDR=nowhere of this pod is ignored: nodes meet at train-0.train")
    cluster.finish(2)
    assert [kubelet.what_follows(pod) for pod in pods] == ["done"] * 2
    stop(kubelet)
    cluster.nothing_left()


# The pod with index 0 hosts the rendezvous daemon.
@pytest.mark.parametrize("kind, nnodes, lost", [
    ("job", "2:3", 0), ("job", "3", 1), ("trainjob", "3", 0),
    *(pytest.param(*values, marks=pytest.mark.slow) for values in (
        ("job", "2:3", 1), ("jobset", "2:3", 0), ("trainjob", "2:3", 0), ("trainjob", "3", 1),
        ("pytorchjob", "2:3", 1)))])
def test_a_killed_pods_successor_has_its_index_on_another_node(cluster, play, kind, nnodes, lost):
    kubelet = play("--rdzv-conf", LOST_SOON, "--on-join=restart", kind=kind, nnodes=nnodes, nodes=4)
    pods = [kubelet.start(index) for index in range(3)]
    first = cluster.started(1, 3)
    pods[lost].kill()
    assert kubelet.what_follows(pods[lost]) == "Count"
    pods[lost] = kubelet.start(lost)

    def whole_again():
        rounds = {int(one.round) for one in cluster.events("start") if int(one.round) > 1}
        for number in rounds:
            found = {one.rank: one for one in cluster.events("start") if one.round == str(number)}
            if len(found) == 3:
                return list(found.values())
        return None

    again = wait_for("a round of all three pods", whole_again)
    assert {worker.instance for worker in again} == {first[0].instance}, "it is the same run"
    assert any(worker.node == pods[lost].pod_name for worker in again)
    cluster.finish(3)
    assert [kubelet.what_follows(pod) for pod in pods] == ["done"] * 3
    stop(kubelet)
    cluster.nothing_left()


@pytest.mark.parametrize("nnodes, evicted", [
    ("3", 0), ("2:3", 2), *(pytest.param(*values, marks=pytest.mark.slow)
                            for values in (("3", 2), ("2:3", 0)))])
def test_an_evicted_pod_drains_and_its_successor_joins(cluster, play, nnodes, evicted):
    kubelet = play("--on-join=restart", nnodes=nnodes, nodes=4)
    pods = [kubelet.start(index) for index in range(3)]
    cluster.started(1, 3)
    pods[evicted].kill(signal.SIGTERM)
    grace = pods[evicted].plan.spec["terminationGracePeriodSeconds"]
    # With exit code 0 its index would count as done, and no pod would replace it.
    assert pods[evicted].exit_code(grace) == 143
    assert kubelet.what_follows(pods[evicted], is_disrupted=True) == "Ignore"
    assert kubelet.what_follows(pods[evicted]) == "Count"
    pods[evicted] = kubelet.start(evicted)

    def joined():
        found = [one for one in cluster.events("start") if one.node == pods[evicted].pod_name]
        return found and found[0].world_size == "3"

    wait_for("the successor's worker", joined)
    newest = max(int(one.round) for one in cluster.events("start"))
    cluster.started(newest, 3)
    cluster.finish(3)
    assert [kubelet.what_follows(pod) for pod in pods] == ["done"] * 3
    stop(kubelet)
    cluster.nothing_left()


@pytest.mark.parametrize("kind", ["job", "jobset", "trainjob"])
def test_an_elastic_job_is_complete_though_a_pod_was_away_at_its_end(cluster, play, kind):
    kubelet = play(kind=kind, nnodes="2:3")
    pods = [kubelet.start(index) for index in range(3)]
    cluster.started(1, 3)
    pods[2].kill(signal.SIGTERM)
    assert pods[2].exit_code() == 143
    cluster.started(2, 2)
    cluster.finish(2)
    done = [kubelet.what_follows(pod) for pod in pods].count("done")
    assert done == 2 and kubelet.succeeds_with(done) and not kubelet.succeeds_with(1)
    kubelet.documents = manifest("train.py", kind=kind, nnodes="3")
    assert not kubelet.succeeds_with(2), "a fixed number is all or nothing"
    stop(kubelet)
    cluster.nothing_left()


def test_the_table_of_exit_codes_decides_what_follows(cluster, play):
    kubelet = play()

    class Ended:
        plan = kubelet.plans[0]

        def __init__(self, code):
            self.code = code

        def exit_code(self):
            return self.code

    decided = {code: kubelet.what_follows(Ended(code)) for code in
               (0, 1, 2, 3, 68, 69, 78, 134, 137, 139, 143)}
    assert decided == {0: "done", 1: "FailJob", 2: "FailJob", 3: "FailJob", 68: "Count",
                       69: "Count", 78: "Count", 134: "FailJob", 137: "Count", 139: "FailJob",
                       143: "Count"}
    stop(kubelet)


def test_a_pod_that_cannot_know_its_part_says_so_in_a_line(cluster, play):
    kubelet = play(nnodes="2", nodes=2)
    arguments = kubelet.plans[1].container["args"]
    arguments[:] = [word for word in arguments if not word.startswith("--nnodes")]
    pod = kubelet.start(1)
    assert pod.exit_code() == 2
    assert pod.err().startswith("ddprun: Kubernetes Job train does not tell its pods how many")
    assert pod.err().count("\n") == 1
    stop(kubelet)
