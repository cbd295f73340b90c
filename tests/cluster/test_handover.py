"""A daemon inside an agent ends with it. Another agent on that host opens the next one at the same
endpoint, whichever agent hosted it before, and the runs go on. If no agent can, the others say what
follows."""

import contextlib
import re
import signal
import socket

import pytest

from tests.support.cluster import LIMIT, LOST_SOON, NONE_IS_LOST, WORKER, Program, wait_for
from tests.support.ports import free_port

IN_THIS_PROCESS = r"the rendezvous daemon at \S+ is in this process from now on"
# The first of two jobs, which ends when the test says so, and then leaves at once.
UNTIL = 'until [ -e "$0" ]; do sleep 0.05; done'


def two_jobs(cluster, *arguments):
    """Two jobs of one node each at one endpoint; the daemon is in the agent of the first."""
    endpoint = f"localhost:{free_port()}"
    over = cluster.folder / "over"
    first = cluster.agent("first", endpoint=endpoint, run="one", conf="linger=0.2",
                          command=["--no-python", "sh", "-c", UNTIL, over])
    first.says("round 1 starts")
    second = cluster.agent("second", *arguments, endpoint=endpoint, run="two")
    cluster.started(1, 1)

    def end(how):
        if how == "killed":
            first.kill()
            return first.wait()
        over.touch()
        assert first.wait() == 0

    return end, second


def later_start(cluster):
    return wait_for("a second start", lambda: [event for event in cluster.events("start")
                                               if event.round != "1"])[0]


@pytest.mark.parametrize("how", ["over", "killed"])
def test_the_first_of_two_jobs_at_one_endpoint_ends_first(cluster, how):
    end, second = two_jobs(cluster)
    end(how)
    second.says(IN_THIS_PROCESS)
    cluster.finish(1)
    assert second.wait() == 0
    assert len(cluster.events("start")) == 1, "no worker was started anew"
    cluster.nothing_left()


@pytest.mark.parametrize("how", ["over", "killed"])
def test_a_job_that_is_done_when_the_daemon_has_gone_ends_well(cluster, how):
    end, second = two_jobs(cluster)
    end(how)
    cluster.finish(1)
    assert second.wait() == 0
    cluster.nothing_left()


@pytest.mark.parametrize("how", ["over", "killed"])
def test_a_failure_after_the_first_job_has_left_is_made_good(cluster, how):
    end, second = two_jobs(cluster, "--max-restarts", 1)
    end(how)
    cluster.order(0, "exit 3")
    assert later_start(cluster).restarts == "1"
    cluster.finish(1)
    assert second.wait() == 0
    cluster.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_other_nodes_of_that_host_agree_on_the_next_host_of_the_daemon(cluster, number):
    endpoint = f"127.0.0.1:{free_port()}"
    conf = f"{LOST_SOON},last_call_timeout=10,linger=0.2"
    # They belong to one job, although their arguments differ and they have no id.
    first, *others = [each for name in ("node-a", "node-b", "node-c")
                      for each in cluster.nodes(name, endpoint=endpoint, nnodes="2:3", conf=conf,
                                                run="none",
                                                command=["--no-python", WORKER, f"--of={name}"])]
    cluster.started(1, 3)
    first.kill(number)
    first.wait()
    wait_for("a daemon in one of the others",
             lambda: sum("in this process from now on" in one.err() for one in others) == 1)
    late = [event for event in cluster.events("start") if event.round != "1"] or [
        later_start(cluster)]
    assert late[0].world_size == "2"
    cluster.finish(2)
    assert [one.wait() for one in others] == [0, 0]
    assert sum("in this process from now on" in one.err() for one in others) == 1
    cluster.nothing_left()


NAMED = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"']


def with_names(cluster, host, names, name, **options):
    """Starts an agent on a host that knows these names."""
    line = cluster.agent_line(name, endpoint="pod-0:29400", **options)
    return Program(cluster, name, line, prefix=[*host.prefix, *NAMED, str(names)],
                   environment=cluster.state_of(host))


def test_a_name_that_is_known_only_later_makes_its_host_hold_the_daemon(cluster, make_hosts):
    hosts = make_hosts(2)
    names = cluster.folder / "hosts"
    names.write_text("127.0.0.1 localhost\n")
    agents = [with_names(cluster, host, names, f"node-{index}", nnodes=2)
              for index, host in enumerate(hosts)]
    for agent in agents:
        agent.says("cannot look up pod-0")
    with names.open("a") as file:
        file.write(f"{hosts[0].address} pod-0\n")
    agents[0].says(IN_THIS_PROCESS)
    cluster.started(1, 2)
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]
    assert "in this process" not in agents[1].err()
    cluster.nothing_left()


def test_where_no_daemon_can_be_the_others_say_at_once_for_how_long_they_wait(cluster, make_hosts):
    hosts = make_hosts(2)
    endpoint = f"{hosts[0].address}:29400"
    conf = f"{NONE_IS_LOST},last_call_timeout=30,linger=0.2"
    first, other = [cluster.agent(f"node-{index}", endpoint=endpoint, nnodes="1:2", conf=conf,
                                  host=host) for index, host in enumerate(hosts)]
    cluster.started(1, 2)
    first.kill(signal.SIGTERM)
    assert first.wait() == 0
    other.says(rf"lost the rendezvous daemon at {endpoint} .*: .*waits for a daemon to answer "
               r"there again, (9|10) min at most")
    assert other.running()
    other.kill(signal.SIGINT)
    other.says("SIGINT: leaving the run")
    other.kill(signal.SIGINT)  # otherwise it would look for the daemon for node_timeout
    other.wait()
    cluster.nothing_left()


def test_a_daemon_that_is_opened_later_has_room_for_other_jobs(cluster):
    end, second = two_jobs(cluster)
    port = int(re.search(r"localhost:(\d+)", " ".join(map(str, second.command)))[1])
    end("killed")
    second.says(IN_THIS_PROCESS)
    # This is more than a daemon of a job of one node has room for.
    with contextlib.ExitStack() as all_open:
        others = [all_open.enter_context(socket.create_connection(("127.0.0.1", port)))
                  for _ in range(150)]
        for one in others:
            one.settimeout(LIMIT)
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert one.recv(4096).startswith(b"HTTP/1.1 200")
    cluster.finish(1)
    assert second.wait() == 0
    cluster.nothing_left()


@pytest.mark.parametrize("how", ["goes on", "is started again"])
def test_a_killed_agent_that_held_the_daemon_is_waited_for_no_longer_than_its_workers_live(
        cluster, how):
    """Its guardian reports to the next daemon; otherwise two isolation limits would pass, which is
    longer than a test waits."""
    endpoint = f"127.0.0.1:{free_port()}"
    conf = f"node_timeout={2 * LIMIT},last_call_timeout=10,linger=0.2"
    nnodes = "1:2" if how == "goes on" else "2"
    first, other = cluster.nodes("node-a", "node-b", endpoint=endpoint, nnodes=nnodes, conf=conf)
    cluster.started(1, 2)
    first.kill()
    first.wait()
    if how == "is started again":
        first = cluster.agent("node-a", endpoint=endpoint, nnodes=nnodes, conf=conf)
    cluster.finish(int(later_start(cluster).world_size))
    assert other.wait() == 0
    if how == "is started again":
        assert first.wait() == 0
    cluster.nothing_left()
