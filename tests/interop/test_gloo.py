"""Unmodified process groups on gloo, with our store or daemon in place of the launcher's."""

import sys

import pytest
import torch_versions
from store_client import renew

from torchrun import ForkServer

from tests.support.cluster import Program
from tests.support.hosts import Switch, available

WORKER = """
import sys, torch, torch.distributed as dist
from datetime import timedelta
rank, world, method = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
limit = timedelta(seconds=300)
if method == "env":
    dist.init_process_group("gloo", timeout=limit)
elif method.startswith("tcp:"):
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world, timeout=limit)
else:
    job, host, port = method.split()
    store = dist.PrefixStore(job, dist.TCPStore(host, int(port), is_master=False))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=limit)
for step in range(3):
    tensor = torch.full((1000,), float(dist.get_rank() + 1 + step))
    dist.all_reduce(tensor)
    assert tensor.eq(world * (world + 1) / 2 + step * world).all(), tensor
group = dist.new_group(list(range(world)))
dist.barrier(group)
gathered = [None] * world
dist.all_gather_object(gathered, (dist.get_rank(), method))
assert gathered == [(rank, method) for rank in range(world)], gathered
dist.destroy_process_group()
print("done", rank)
"""
TOLD = {"TORCH_CPP_LOG_LEVEL": "WARNING", "OMP_NUM_THREADS": "1"}
AS_CLIENT = {"TORCHELASTIC_USE_AGENT_STORE": "True"}  # rank 0 opens no store of its own


@pytest.fixture(scope="module")
def forked():
    """Starts ranks that need not import PyTorch; they print their warnings."""
    server = ForkServer(TOLD)
    yield server
    server.close()


@pytest.fixture
def start_group(cluster, forked):
    """Starts the ranks of a group, forked here or on hosts of their own."""

    def start(world, method, environment, hosts=None):
        def one(rank):
            name, words = f"rank{rank}", [str(rank), str(world), method]
            variables = {"RANK": str(rank), "WORLD_SIZE": str(world), **TOLD, **environment}
            if hosts is None:
                return forked.start(cluster, name, words, variables, script=WORKER)
            return Program(cluster, name, [sys.executable, "-c", WORKER, *words],
                           hosts[rank].prefix, variables)

        return [one(rank) for rank in range(world)]

    return start


def finish(workers):
    codes = [worker.wait() for worker in workers]
    for rank, (worker, code) in enumerate(zip(workers, codes)):
        output = worker.out() + worker.err()
        assert code == 0, output
        assert f"done {rank}" in output
        assert "Broken pipe" not in output


def as_client_of(port):
    return {**AS_CLIENT, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


@pytest.mark.parametrize("world", [2, 3])
def test_env_rendezvous(server, start_group, world):
    finish(start_group(world, "env", as_client_of(server.port)))


def test_two_rounds_on_one_port(server, start_group):
    """The second round must find no key of the first, which would have addresses of dead ranks."""
    finish(start_group(2, "env", as_client_of(server.port)))
    renew(server)
    finish(start_group(2, "env", as_client_of(server.port)))


def test_a_tcp_script_without_launcher_meets_at_the_daemon(cluster, start_group):
    """With USE_AGENT_STORE every rank of that tcp:// address is a client, including rank 0."""
    daemon = cluster.daemon()
    finish(start_group(2, f"tcp://127.0.0.1:{daemon.port}", as_client_of(daemon.port)))


@pytest.mark.parametrize("variables", [
    {"MASTER_PORT": None}, {"MASTER_PORT": "1"}, {"MASTER_ADDR": "localhost"},
], ids=["no port", "another port", "another spelling"])  # fmt: skip
def test_which_tcp_address_counts_as_the_agents(server, start_group, variables):
    """Otherwise rank 0 serves the store itself, which fails if the port already has one."""
    told = {**as_client_of(server.port), **variables}
    environment = {name: value for name, value in told.items() if value is not None}
    group = start_group(1, f"tcp://127.0.0.1:{server.port}", environment)
    # With another spelling rank 0 tries to serve, and goes on as a client if it cannot.
    if "MASTER_PORT" in variables and torch_versions.has("agent store by address"):
        assert group[0].wait() != 0
        assert "EADDRINUSE" in group[0].out() + group[0].err()
    else:
        finish(group)


def test_a_tcp_script_on_other_hosts_than_the_daemons_needs_no_variable(cluster, start_group):
    """Rank 0 opens a store there that is not used: its own client, too, uses the daemon's."""
    if not available():
        pytest.skip("this machine does not allow network namespaces (needs root)")
    switch = Switch(3)
    cluster.hosts.append(switch)
    daemon = cluster.daemon(29400, host=switch.hosts[0], bind="0.0.0.0")
    method = f"tcp://{switch.hosts[0].address}:{daemon.port}"
    finish(start_group(2, method, {"GLOO_SOCKET_IFNAME": "eth0"}, switch.hosts[1:]))


def test_jobs_with_prefixes_share_the_daemon(cluster, start_group):
    """They run at the same time, and neither takes an address of the other for one of its own."""
    daemon = cluster.daemon()
    jobs = [f"job{index} 127.0.0.1 {daemon.port}" for index in range(2)]
    for group in [start_group(2, job, {}) for job in jobs]:
        finish(group)
