"""Plays a manifest: pods as network, mount, process and name spaces, with the names, variables,
probes and life cycle that Kubernetes, JobSet, Kubeflow's Trainer and its training-operator give
them.

What a controller adds to the manifest follows its sources: pkg/controller/job of Kubernetes,
pkg/controllers of JobSet, pkg/runtime/framework/plugins/torch of Trainer.
"""

import re
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.cluster import BIN, ROOT, Program, wait_for

NAMESPACE = "research"
DOMAIN = f"{NAMESPACE}.svc.cluster.local"
# A pod has its own names, /proc, /etc/hosts and /etc/resolv.conf; its command is process 1 there.
POD = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
       'hostname "$1" && mount --bind "$2/hosts" /etc/hosts && '
       'mount --bind "$2/resolv.conf" /etc/resolv.conf && shift 2 && exec "$@"', "sh"]
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass
class PodPlan:
    """A pod before it has a node: what its controllers have made of the manifest."""

    hostname: str
    subdomain: str
    index: int
    spec: dict
    labels: dict
    variables: dict = field(default_factory=dict)  # added by a controller
    service: str = ""  # the pod's own, for a PyTorchJob

    @property
    def container(self):
        assert len(self.spec["containers"]) == 1
        return self.spec["containers"][0]


def of_kind(documents, kind):
    found = [one for one in documents if one["kind"] == kind]
    assert len(found) == 1, f"{len(found)} documents of kind {kind}"
    return found[0]


def job_pods(spec, name, subdomain, uid, variables=None):
    """The pods of an Indexed Job."""
    assert spec["completionMode"] == "Indexed" and spec["parallelism"] == spec["completions"]
    template = spec["template"]
    plans = []
    for index in range(spec["completions"]):
        labels = {**template.get("metadata", {}).get("labels", {}), INDEX: str(index),
                  "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
                  "job-name": name}
        plans.append(PodPlan(f"{name}-{index}", template["spec"].get("subdomain", subdomain), index,
                             template["spec"], labels,
                             {"JOB_COMPLETION_INDEX": str(index), **(variables or {})}))
    return plans


def trainer_pods(documents, uid):
    """Combines the runtime with the TrainJob, as the Trainer's controller does."""
    job, runtime = of_kind(documents, "TrainJob"), of_kind(documents, "TrainingRuntime")
    reference = job["spec"]["runtimeRef"]
    assert reference["kind"] == "TrainingRuntime"
    assert reference["name"] == runtime["metadata"]["name"]
    trainer, name = job["spec"]["trainer"], job["metadata"]["name"]
    group = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]
    labels = group["template"]["metadata"]["labels"]
    assert labels["trainer.kubeflow.org/trainjob-ancestor-step"] == "trainer"
    spec = {**group["template"]["spec"], "completions": trainer["numNodes"],
            "parallelism": trainer["numNodes"]}
    container = spec["template"]["spec"]["containers"][0]
    assert container["name"] == "node", "the Trainer looks for a container of that name"
    container.update(image=trainer["image"], command=trainer["command"], args=trainer["args"])
    first = f"{name}-{group['name']}-0"
    plans = job_pods(spec, first, name, uid)
    for plan in plans:
        plan.variables.update({
            "PET_NNODES": str(trainer["numNodes"]),
            "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]), "PET_NODE_RANK": str(plan.index),
            "PET_MASTER_ADDR": f"{first}-0.{name}", "PET_MASTER_PORT": "29500"})
    return plans


def pytorchjob_pods(documents):
    job = of_kind(documents, "PyTorchJob")
    name, roles = job["metadata"]["name"], job["spec"]["pytorchReplicaSpecs"]
    count = sum(role["replicas"] for role in roles.values())
    plans = []
    for role in ("Master", "Worker"):
        for replica in range(roles.get(role, {"replicas": 0})["replicas"]):
            host = f"{name}-{role.lower()}-{replica}"
            rank = replica + (role == "Worker")
            spec = roles[role]["template"]["spec"]
            assert spec["containers"][0]["name"] == "pytorch", "the operator looks for this name"
            per_node = job["spec"]["nprocPerNode"]
            variables = {
                "MASTER_PORT": "23456", "PET_MASTER_PORT": "23456",
                "MASTER_ADDR": f"{name}-master-0", "PET_MASTER_ADDR": f"{name}-master-0",
                "WORLD_SIZE": str(count * int(per_node)), "RANK": str(rank),
                "PET_NPROC_PER_NODE": per_node, "PET_NODE_RANK": str(rank),
                "PET_NNODES": str(count), "PYTHONUNBUFFERED": "1"}
            plans.append(PodPlan(host, "", rank, spec, {}, variables, service=host))
    return plans


def plan_pods(documents, uid):
    kinds = {one["kind"] for one in documents}
    if "TrainJob" in kinds:
        return trainer_pods(documents, uid)
    if "PyTorchJob" in kinds:
        return pytorchjob_pods(documents)
    if "JobSet" in kinds:
        jobset = of_kind(documents, "JobSet")
        name, (group,) = jobset["metadata"]["name"], jobset["spec"]["replicatedJobs"]
        network = jobset["spec"]["network"]
        assert network["enableDNSHostnames"] and group["replicas"] == 1
        return job_pods(group["template"]["spec"], f"{name}-{group['name']}-0",
                        network["subdomain"], uid)
    job = of_kind(documents, "Job")
    return job_pods(job["spec"], job["metadata"]["name"], "", uid)


def publishes_early(documents):
    """True if pods can be found before they are ready, which none of them ever is here."""
    for one in documents:
        spec = one["spec"]
        if one["kind"] == "Service":
            assert spec["clusterIP"] == "None" and spec["ports"]
            return spec.get("publishNotReadyAddresses", False)
        if one["kind"] == "TrainingRuntime":
            spec = spec["template"]["spec"]
        if "network" in spec:
            return spec["network"].get("publishNotReadyAddresses", True)
    return True  # the Services of a PyTorchJob


def expanded(text, variables):
    """Expands `$(NAME)` and `$$` as kubelet does."""
    def put(match):
        if match.group() == "$$":
            return "$"
        return variables.get(match.group(1), match.group())
    return re.sub(r"\$\$|\$\(([^)]*)\)", put, text)


class Pod(Program):
    """A started pod. Like kubelet's, `kill` signals the container's first process."""

    is_killed = False

    def __init__(self, kubelet, plan, host):
        self.plan, self.host, self.kubelet = plan, host, kubelet
        self.pod_name = f"{plan.hostname}-{uuid.uuid4().hex[:5]}"
        folder = kubelet.cluster.folder / self.pod_name
        folder.mkdir()
        full = f"{plan.hostname}.{plan.subdomain}.{DOMAIN}\t" if plan.subdomain else ""
        (folder / "hosts").write_text("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"
                                      f"{host.address}\t{full}{plan.hostname}\n")
        (folder / "resolv.conf").write_text(
            f"search {DOMAIN} svc.cluster.local cluster.local\nnameserver {kubelet.name_server}\n"
            "options ndots:5 timeout:1 attempts:2\n")
        variables = self.variables(folder)
        words = [expanded(word, variables) for word in
                 [*plan.container["command"], *plan.container["args"]]]
        clean = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
        super().__init__(kubelet.cluster, plan.hostname,
                         [*host.prefix, *POD, plan.hostname, folder, *clean, *words])

    def variables(self, folder):
        """The variables of the image, kubelet, the controllers and the manifest."""
        made = {"PATH": f"{BIN}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(folder),
                "DDPRUN_TEST_MARK": self.kubelet.cluster.mark,
                "DDPRUN_TEST_CONTROL": str(self.kubelet.cluster.folder),
                "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443",
                "HOSTNAME": self.plan.hostname}
        fields = {"metadata.name": self.pod_name, "status.podIP": self.host.address,
                  **{f"metadata.labels['{key}']": value for key, value in self.plan.labels.items()}}
        for one in self.plan.container.get("env", []):
            if "value" in one:
                made[one["name"]] = expanded(one["value"], made)
            else:
                made[one["name"]] = fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        return {**made, **self.plan.variables}

    def first_process(self):
        def look():
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            return children and int(children[0])
        return wait_for(f"the first process of {self.pod_name}", look)

    def kill(self, number=signal.SIGKILL):
        self.is_killed = number == signal.SIGKILL
        subprocess.run(["kill", f"-{int(number)}", str(self.first_process())], check=True)

    def exit_code(self, limit=None):
        """The exit code that kubelet would report. unshare has none of its own for a killed
        process."""
        code = self.wait(limit)
        return 137 if self.is_killed else code

    def probe(self, name):
        """The status that kubelet's probe of that name gets."""
        wanted = self.plan.container[name]["httpGet"]
        ports = {one["name"]: one["containerPort"] for one in self.plan.container["ports"]}
        url = f"http://{self.host.address}:{ports[wanted['port']]}{wanted['path']}"
        asked = subprocess.run(
            [*self.kubelet.host.prefix, sys.executable, "-c",
             "import sys, urllib.request as r; direct = r.build_opener(r.ProxyHandler({})); "
             "print(direct.open(sys.argv[1], timeout=300).status)",
             url], capture_output=True, text=True, check=False)
        return asked.stdout.strip() or asked.stderr.splitlines()[-1]


class Kubelet:
    """Starts the pods of a manifest, each on a host of its own. The last host serves the names."""

    def __init__(self, cluster, hosts, documents):
        self.cluster, self.documents = cluster, documents
        self.nodes, self.host = list(hosts[:-1]), hosts[-1]
        self.name_server = self.host.address
        self.zone = cluster.folder / "zone"
        self.records = {}
        self.is_late = False
        self.write_zone()
        self.plans = plan_pods(documents, str(uuid.uuid4()))
        line = [sys.executable, ROOT / "tests/support/name_server.py", self.name_server, self.zone]
        server = Program(cluster, "name-server", line, prefix=self.host.prefix)
        server.says("ready")
        self.server = server

    def write_zone(self):
        text = "" if self.is_late else "".join(f"{k} {v}\n" for k, v in self.records.items())
        part = self.zone.with_suffix(".part")
        part.write_text(text)
        part.replace(self.zone)

    def start(self, index):
        """Starts a pod on the next free node, to which its name resolves from now on."""
        plan, host = self.plans[index], self.nodes.pop(0)
        name = f"{plan.hostname}.{plan.subdomain}" if plan.subdomain else plan.service
        if publishes_early(self.documents):
            self.records[f"{name}.{DOMAIN}".lower()] = host.address
        self.write_zone()
        return Pod(self, plan, host)

    def hold_names_back(self):
        self.is_late = True
        self.write_zone()

    def publish_names(self):
        self.is_late = False
        self.write_zone()

    def what_follows(self, pod, is_disrupted=False):
        """What the Job controller does when a pod has ended: "done", or an action of its rules."""
        code = pod.exit_code()
        if code == 0:
            return "done"
        if "PyTorchJob" in {one["kind"] for one in self.documents}:
            return "Count" if code >= 128 else "FailJob"
        for rule in self.rules():
            if "onPodConditions" in rule:
                if is_disrupted and rule["onPodConditions"][0]["type"] == "DisruptionTarget":
                    return rule["action"]
                continue
            wanted = rule["onExitCodes"]
            assert wanted["containerName"] == pod.plan.container["name"]
            if (code in wanted["values"]) == (wanted["operator"] == "In"):
                return rule["action"]
        return "Count"

    def succeeds_with(self, count):
        """True if the Job is complete when `count` of its indexes are done."""
        rules = self.job_spec().get("successPolicy", {"rules": []})["rules"]
        return count >= min([len(self.plans), *(rule["succeededCount"] for rule in rules)])

    def rules(self):
        return self.job_spec()["podFailurePolicy"]["rules"]

    def job_spec(self):
        for one in self.documents:
            spec = one["spec"]
            if one["kind"] == "TrainingRuntime":
                spec = spec["template"]["spec"]
            if "replicatedJobs" in spec:
                spec = spec["replicatedJobs"][0]["template"]["spec"]
            if "podFailurePolicy" in spec:
                return spec
        raise AssertionError("no podFailurePolicy")
