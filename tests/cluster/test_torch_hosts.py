"""PyTorch's gloo on hosts that find each other only by address: names that cannot be resolved, one
name for two hosts, and a name that is 127.0.1.1, as on Debian."""

import re
import sys
import textwrap

import pytest

from tests.support.cluster import BIN, Program

LIMIT = 240  # PyTorch is imported
SCRIPT = textwrap.dedent("""
    import os, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    print("sum", int(total), os.environ.get("GLOO_SOCKET_IFNAME"))
    dist.destroy_process_group()
""")
# It has its own mount and name.
NAMED = ["unshare", "--uts", "--mount", "sh", "-c",
         'hostname "$0"; mount --bind "$1" /etc/hosts; shift; exec "$@"']


@pytest.mark.parametrize("names, hosts_file", [
    (["twin", "twin"], "127.0.0.1 localhost\n"),
    (["one", "other"], "127.0.0.1 localhost\n127.0.1.1 one\n127.0.1.1 other\n"),
    (["twin", "twin"], "127.0.0.1 localhost\n10.77.0.1 twin\n"),
], ids=["unknown", "loopback", "the other's"])
def test_ranks_meet_whatever_their_hosts_are_called(cluster, make_hosts, tmp_path, names,
                                                    hosts_file):
    hosts = make_hosts(2)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "hosts").write_text(hosts_file)
    agents = [Program(cluster, f"node-{index}",
                      [*host.prefix, *NAMED, name, tmp_path / "hosts", BIN / "ddprun",
                       "--nnodes=2", f"--rdzv-endpoint={hosts[0].address}", "--node-id",
                       f"node-{index}", tmp_path / "train.py"],
                      environment={"PYTHON_EXEC": sys.executable})
              for index, (host, name) in enumerate(zip(hosts, names))]
    assert [agent.wait(LIMIT) for agent in agents] == [0, 0], agents[0].err() + agents[1].err()
    for agent, host in zip(agents, hosts):
        is_known = "10.77.0.1" in hosts_file and host is hosts[0]
        assert f"sum 2 {None if is_known else 'eth0'}" in agent.out()
        told = re.search(r"this host's own name \w+ .*GLOO_SOCKET_IFNAME=eth0", agent.err())
        assert bool(told) != is_known, agent.err()


def test_ranks_meet_by_the_network_that_was_asked_for(cluster, make_hosts, tmp_path):
    hosts = make_hosts(2)
    (tmp_path / "train.py").write_text(SCRIPT)
    for index, host in enumerate(hosts):
        host.add_interface("eth1", f"10.78.0.{index + 1}/24")
    agents = [cluster.agent(f"node-{index}", "--network=10.78.0.0/24", nnodes=2, host=host,
                            endpoint=f"{hosts[0].address}:29400", command=[tmp_path / "train.py"],
                            environment={"PYTHON_EXEC": sys.executable})
              for index, host in enumerate(hosts)]
    assert [agent.wait(LIMIT) for agent in agents] == [0, 0], agents[0].err() + agents[1].err()
    assert all("sum 2 eth1" in agent.out() for agent in agents)
