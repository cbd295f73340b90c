"""Command lines that people and schedulers use for torchrun, as they are typed or generated. Both
launchers run each of them, and the workers must see the same.

`{port}` is a free port, `{node}` the number of the node. The script and its arguments follow.
"""

import shlex
from dataclasses import dataclass, field

from torchrun_options import NO_ADDRESS, NO_ID, NO_LOGS


@dataclass(frozen=True)
class Line:
    words: str = ""
    variables: dict = field(default_factory=dict)
    nodes: int = 1
    script: str = "{probe} --epochs 3 -- local=${local_rank}"
    differs: frozenset = frozenset()  # workers' variables, in addition to those that always differ
    refused: bool = False  # by both launchers

    def typed(self, node, fills):
        """The command line and the variables of a node."""

        def filled(text):
            for name, value in {**fills, "node": node}.items():
                text = text.replace("{" + name + "}", str(value))
            return text

        line = [filled(word) for word in shlex.split(self.words + " " + self.script)]
        return line, {name: filled(value) for name, value in self.variables.items()}


ALONE = frozenset(NO_ID | NO_ADDRESS | NO_LOGS)
MEET = "--rdzv_backend c10d --rdzv_endpoint 127.0.0.1:{port} --rdzv_id app"
STATIC = "--nnodes=2 --nproc_per_node=1 --node_rank={node} --master_addr=127.0.0.1 " \
         "--master_port={port}"
# In the static form all nodes have one address; with c10d each launcher finds its own.
AT_AN_ENDPOINT = frozenset(NO_ADDRESS | NO_LOGS)
AT_THE_MASTER = frozenset(NO_LOGS)

LINES = {
    # The line of dist.ddp: `torchrun` with these, run by bash -c.
    "TorchX, one replica": Line(
        "--rdzv_backend c10d --rdzv_endpoint localhost:0 --rdzv_id app --nnodes 1 "
        "--nproc_per_node 2 --tee 3 --role ''", differs=AT_AN_ENDPOINT),
    "TorchX, two replicas": Line(f"{MEET} --nnodes 2 --nproc_per_node 1 --tee 3 --role ''",
                                 nodes=2, differs=AT_AN_ENDPOINT),
    "Kubeflow, PyTorchJob": Line(nodes=2, differs=AT_THE_MASTER, variables={
        "PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": "{node}",
        "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": "{port}", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "{node}", "PYTHONUNBUFFERED": "1"}),
    "Kubeflow, elastic PyTorchJob": Line(nodes=2, differs=AT_AN_ENDPOINT, variables={
        "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "127.0.0.1:{port}", "PET_RDZV_ID": "app",
        "PET_NNODES": "2:2", "PET_NPROC_PER_NODE": "1", "PET_MAX_RESTARTS": "3",
        "PET_RDZV_CONF": "join_timeout=600,timeout=900", "PYTHONUNBUFFERED": "0"}),
    "Kubeflow, TrainJob of one node": Line(differs=AT_THE_MASTER | NO_ID, variables={
        "PET_NNODES": "1", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": "0",
        "PET_MASTER_ADDR": "localhost", "PET_MASTER_PORT": "{port}"}),
    "SageMaker": Line(STATIC, nodes=2, differs=AT_THE_MASTER, variables={
        "SM_CURRENT_HOST": "algo-1", "SM_NUM_GPUS": "0", "NCCL_SOCKET_IFNAME": "eth0"}),
    "Lightning": Line(f"--nproc_per_node=1 --nnodes=2 --node_rank={{node}} {MEET}", nodes=2,
                      differs=AT_AN_ENDPOINT),
    "accelerate, one machine": Line(
        "--nnodes 1 --nproc_per_node 2 --node_rank 0 --master_addr 127.0.0.1 --master_port {port} "
        "--rdzv_backend static --max_restarts 0 --monitor_interval 0.1",
        differs=AT_THE_MASTER | NO_ID),
    "accelerate, two machines": Line(
        "--nnodes 2 --nproc_per_node 1 --node_rank {node} --rdzv_backend static --rdzv_conf '' "
        "--rdzv_endpoint 127.0.0.1:{port} --max_restarts 0", nodes=2, differs=AT_THE_MASTER),
    # A batch script uses one variable for both ports.
    "one port for the endpoint and the master": Line(
        f"{MEET} --nnodes 2 --node_rank {{node}} --master_addr 127.0.0.1 --master_port {{port}}",
        nodes=2, differs=AT_AN_ENDPOINT),
    "what is given twice": Line(
        "--nnodes 2 --nnodes 1 --nproc-per-node 3 --nproc_per_node=2 --role a --role b --rdzv-id x "
        "--rdzv-id y -r 3 -r 0", differs=ALONE),
    "typed and in the environment": Line("--nproc-per-node=2 --role typed", differs=ALONE,
                                         variables={"PET_NPROC_PER_NODE": "3", "PET_ROLE": "pod"}),
    "variables of a shell that are not set": Line(
        "--rdzv-endpoint= --rdzv-id= --rdzv-conf= --role= --log-dir= --local-addr= --master-addr= "
        "--log-line-prefix-template= --local-ranks-filter= --duplicate-stdout-filters= "
        "--duplicate-stderr-filters= --nproc-per-node 1", differs=ALONE),
    "numbers of a template, with blanks": Line(differs=AT_AN_ENDPOINT, variables={
        "PET_NNODES": " 1", "PET_NPROC_PER_NODE": "2\n", "PET_MAX_RESTARTS": "2 ",
        "PET_RDZV_ENDPOINT": " localhost:0\n", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ID": "app"}),
    "a flag in the environment": Line("--nproc-per-node 1", differs=ALONE,
                                      variables={"PET_STANDALONE": "1", "PET_NO_PYTHON": "0"}),
    "a number that is none": Line("--nproc-per-node 2.0", refused=True),
    "no nodes": Line("--nnodes 0", refused=True),
    "a restart less than none": Line("--max-restarts=-1", refused=True),
    "an empty port": Line("--master-port=", refused=True),
    "an empty address where several meet": Line("--nnodes=2 --node-rank=1 --master-addr=",
                                                variables={"PET_RDZV_CONF": "timeout=1"},
                                                refused=True),
}
