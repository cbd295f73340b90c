"""With --nnodes 1:2 a node that cannot reach the endpoint waits, and says so: it never starts a
world of its own. Hosts are network namespaces, each with its own name and hosts file."""

import pytest

from tests.support.cluster import Program

NAMED = ["unshare", "--uts", "--mount", "sh", "-c",
         'hostname "$0"; mount --bind "$1" /etc/hosts; shift; exec "$@"']


def agent_at(cluster, host, name, hosts_file, endpoint, conf=None):
    """Starts an agent on a host with this name and with these names in its hosts file."""
    file = cluster.folder / f"hosts-{host.name}"
    file.write_text("127.0.0.1 localhost\n" + hosts_file)
    line = cluster.agent_line(f"at-{host.address}", endpoint=endpoint, nnodes="1:2", conf=conf)
    return Program(cluster, f"at-{host.address}", line,
                   prefix=[*host.prefix, *NAMED, name, str(file)],
                   environment=cluster.state_of(host))


@pytest.mark.parametrize("names", [("one", "two"), ("twin", "twin")], ids=["names", "one name"])
def test_the_endpoint_is_another_host_that_does_not_answer(cluster, make_hosts, names):
    first, second = make_hosts(2)
    known = f"{first.address} {names[0]}\n"
    late = agent_at(cluster, second, names[1], known, f"{names[0]}:29400")
    late.says(f"{names[0]}:29400.*(refused|unreachable|No route)")
    assert not cluster.events("start")
    early = agent_at(cluster, first, names[0], known, f"{names[0]}:29400")
    late.says("(here:|round 1 starts:).*at-10.77.0.1")
    assert late.running()
    for event in cluster.started(1, 2):
        assert event.world_size == "2"
    cluster.finish(2)
    assert [early.wait(), late.wait()] == [0, 0]


def test_the_endpoint_is_a_name_that_does_not_resolve(cluster, make_hosts):
    (host,) = make_hosts(1)
    agent = agent_at(cluster, host, "two", "", "nowhere:29400")
    agent.says("nowhere.*not")
    assert not cluster.events("start")
    agent.kill(2)
    assert agent.wait() == 130


def test_the_endpoint_is_this_host_by_a_name_that_leads_nowhere(cluster, make_hosts):
    (host,) = make_hosts(1)
    agent = agent_at(cluster, host, "lonely", "", "lonely:29400",
                     conf="last_call_timeout=0.2")
    agent.says("the endpoint's host name, lonely, does not resolve, but it is this host's name: "
               "the daemon runs here")
    cluster.started(1, 1)
    cluster.finish(1)
    assert agent.wait() == 0
