"""What a worker uses of its node: the network, and the GPUs and processors that were asked for."""

import os

import pytest

from tests.support.cluster import BIN, Program
from tests.support.gpus import visible_gpus

TALKER = ["--no-python", "sh", "-c",
          "echo $MASTER_ADDR $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME"]


def ddprun(cluster, *words, environment):
    """Starts it without other options, because the number of workers follows from these."""
    return Program(cluster, "agent", [BIN / "ddprun", *words], environment=environment)


@pytest.fixture
def hosts(make_hosts):
    """Two hosts with a second network, whose interface has another name on each of them."""
    made = make_hosts(2)
    made[0].add_interface("eth1", "10.78.0.1/24")
    made[1].add_interface("fast0", "10.78.0.2/24")
    return made


def test_workers_meet_by_the_network_that_was_asked_for(cluster, hosts):
    endpoint = f"{hosts[0].address}:29400"
    lines = [["--network", "10.78.0.0/16"], ["--network=ib0,fast0,eth0"]]
    agents = []
    for index, (host, line) in enumerate(zip(hosts, lines)):
        agents.append(cluster.agent(f"node-{index}", *line, endpoint=endpoint, nnodes=2, host=host,
                                    command=TALKER))
        agents[-1].says(r"here: node-0")
    assert [agent.wait() for agent in agents] == [0, 0]
    assert "10.78.0.1 =eth1 eth1" in agents[0].out()
    assert "10.78.0.1 =fast0 fast0" in agents[1].out()
    assert not any("host's own name" in agent.err() for agent in agents)


def test_what_the_person_has_set_stays(cluster, hosts):
    one = cluster.agent("", "--network=eth1", host=hosts[0], command=TALKER,
                        environment={"NCCL_SOCKET_IFNAME": "eth0"})
    other = cluster.agent("", "--network=eth1", host=hosts[0], command=TALKER,
                          environment={"GLOO_SOCKET_IFNAME": "lo"})
    assert (one.wait(), other.wait()) == (0, 0)
    assert one.out() == "127.0.0.1 eth0 eth1\n"
    assert other.out() == "127.0.0.1 =eth1 lo\n"


def test_a_network_that_is_not_here_is_refused_before_anything_starts(cluster, hosts):
    agent = cluster.agent("node-b", "--network=172.16.0.0/12,eth7", endpoint="10.77.0.1:29400",
                          nnodes=2, host=hosts[1], command=TALKER)
    assert agent.wait() == 2
    assert agent.err() == ("ddprun: --network=172.16.0.0/12,eth7: this node has no such network; "
                           "it has eth0 10.77.0.2; fast0 10.78.0.2; lo 127.0.0.1, ::1\n")
    agent = cluster.agent("node-b", "--network=fast0", "--local-addr=10.77.0.2",
                          endpoint="10.77.0.1:29400", nnodes=2, host=hosts[1], command=TALKER)
    assert agent.wait() == 2
    assert agent.err() == ("ddprun: --network=fast0: this node was given the address 10.77.0.2, "
                           "which is on eth0 and in none of these networks; leave one of the two "
                           "out\n")


@pytest.mark.parametrize("words, seen", [
    (["--gpus=2,4,7"], ["0 2,4,7", "1 2,4,7", "2 2,4,7"]),
    (["--gpus=0-1", "--nproc-per-node=gpu"], ["0 4,GPU-6", "1 4,GPU-6"]),
    (["--gpus=2,4", "--nproc-per-node=1"], ["0 2,4"]),
    (["--gpus=4,2", "--virtual-local-rank"], ["0 2", "0 4"]),
], ids=["all", "within", "fewer", "one each"])
def test_workers_see_the_gpus_that_were_asked_for(cluster, words, seen):
    environment = {"CUDA_VISIBLE_DEVICES": "4,GPU-6"} if "--gpus=0-1" in words else {}
    if not environment and 0 < visible_gpus() < 8:
        pytest.skip("this machine has GPUs, and no GPU 7")
    agent = ddprun(cluster, *words, "--no-python", "sh", "-c",
                   "echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES", environment=environment)
    assert agent.wait() == 0
    lines = sorted(line.rsplit("] ", 1)[-1] for line in agent.out().splitlines())
    assert lines == seen


def test_gpus_where_none_are_visible_are_a_line(cluster):
    if visible_gpus() > 0:
        pytest.skip("this machine has GPUs")
    agent = ddprun(cluster, "--gpus=2", "--no-python", "true", environment={})
    assert agent.wait() == 0
    assert "--gpus: no GPU is visible on this node" in agent.err()


@pytest.mark.parametrize("words, wrong", [
    (["--gpus=0,1", "--nproc-per-node=3"],
     "--gpus names 2 GPUs, and --nproc-per-node asks for 3 workers: start fewer, or name more"),
    (["--gpus=0,2"],
     "--gpus=0,2: there is no GPU 2 in CUDA_VISIBLE_DEVICES=4,5: 2 GPUs are visible, 0 to 1"),
    (["--gpus=1,1"], "--gpus=1,1: GPU 1 is given twice; name each once"),
])
def test_gpus_that_cannot_be_had_are_refused(cluster, words, wrong):
    agent = ddprun(cluster, *words, "--no-python", "true",
                   environment={"CUDA_VISIBLE_DEVICES": "4,5"})
    assert agent.wait() == 2
    assert agent.err() == f"ddprun: {wrong}\n"


@pytest.mark.parametrize("mode", ["node", "socket", "exclusive", "core-complex"])
def test_workers_run_on_the_processors_that_torchrun_would_choose(cluster, monkeypatch, mode):
    # This machine has no GPU, which torchrun refuses; so the test has one for each worker, all at
    # the only NUMA node.
    if os.path.exists("/sys/devices/system/node/node1"):
        pytest.skip("more than one NUMA node, and no GPU to say which")
    workers = 2 if mode != "exclusive" or len(physical_cores()) > 1 else 1
    binding = pytest.importorskip("torch.numa.binding", reason="PyTorch is not installed here")
    monkeypatch.setattr(binding, "_get_device_count", lambda: workers)
    monkeypatch.setattr(binding, "_get_numa_node_index_for_device_index",
                        lambda *, device_index: 0)
    options = binding.NumaOptions(affinity_mode=binding.AffinityMode(mode))
    wanted = [binding._get_logical_cpus_to_bind_to(device_index=rank, numa_options=options)
              for rank in range(workers)]
    agent = cluster.agent("", f"--numa-binding={mode}", workers=workers, command=[
        "--no-python", "sh", "-c", "echo $RANK $(grep Cpus_allowed_list /proc/self/status)"],
        environment={"CUDA_VISIBLE_DEVICES": ""})
    assert agent.wait() == 0
    found = {}
    for line in agent.out().splitlines():
        rank, _, processors = line.rsplit("] ", 1)[-1].split()
        found[int(rank)] = binding._get_set_of_int_from_ranges_str(processors)
    assert [found[rank] for rank in range(workers)] == wanted


def physical_cores():
    cores = set()
    for number in os.sched_getaffinity(0):
        with open(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list") as file:
            cores.add(file.read())
    return cores


def test_more_workers_than_cores_cannot_each_have_one(cluster):
    agent = cluster.agent("", "--numa-binding=exclusive", workers=4000,
                          command=["--no-python", "true"])
    assert agent.wait() == 2
    assert "; start fewer, or write --numa-binding=node\n" in agent.err()
