"""Ctrl-C and SIGTERM at every stage: workers end, agents leave with 128 + signal, nothing is
left."""

import signal
import sys

import pytest

from tests.cluster.test_group_signals import catches_usr1
from tests.support.cluster import Program, variables_of, wait_for
from tests.support.ports import free_port


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_waiting_for_nodes(cluster, number):
    daemon = cluster.daemon()
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2)
    agent.says("1 of 2 nodes")
    agent.kill(number)
    assert agent.wait() == 128 + number
    cluster.nothing_left(but=[daemon])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_no_daemon_answers(cluster, number):
    agent = cluster.agent("node-a", endpoint="127.0.0.1:1", nnodes=2, conf="is_host=0")
    agent.says("127.0.0.1:1")
    agent.kill(number)
    assert agent.wait() == 128 + number
    cluster.nothing_left()


DEAF_NAME_SERVER = """
import socket, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("deaf", flush=True)
while server.recv(4096):
    print("asked", flush=True)
"""


def test_while_a_name_is_looked_up(cluster, make_hosts):
    host, = make_hosts(1)
    server = Program(cluster, "dns", [sys.executable, "-c", DEAF_NAME_SERVER], prefix=host.prefix)
    server.says("deaf")
    resolv = cluster.folder / "resolv.conf"
    # Its answer would take longer than the test waits for anything: 450 s with three name servers.
    resolv.write_text("nameserver 127.0.0.1\n" * 3 + "options timeout:30 attempts:5\n")
    behind = ["unshare", "--mount", "sh", "-c",
              f'mount --bind {resolv} /etc/resolv.conf && exec "$@"', "sh"]
    line = cluster.agent_line("node-a", endpoint="a-host.example:29400", nnodes=2)
    agent = Program(cluster, "node-a", line, prefix=[*host.prefix, *behind])
    server.says("asked")
    agent.kill(signal.SIGINT)
    assert agent.wait() == 130, "it does not wait for the system's resolver"
    cluster.nothing_left(but=[server])


def test_while_the_daemon_in_this_process_serves_another_run(cluster):
    endpoint = f"127.0.0.1:{free_port()}"
    host = cluster.agent("node-a", endpoint=endpoint, conf="linger=600")
    cluster.started(1, 1)
    other = cluster.agent("node-b", endpoint=endpoint, nnodes=2, run="other")
    other.says("1 of 2 nodes")
    cluster.finish(1)
    host.says("waits up to 10 min for node-b of run other to leave")
    assert other.running()
    host.kill(signal.SIGINT)
    assert host.wait() == 0, "the run's own exit code stays"
    other.kill(signal.SIGINT)
    assert other.wait() == 130
    cluster.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_while_running(cluster, number):
    agent = cluster.agent("", workers=2, environment={"DDPRUN_TEST_TERM": "trap"})
    cluster.started(1, 2)
    agent.kill(number)
    if number == signal.SIGHUP:
        # worker.sh does not trap SIGHUP: it dies of it.
        assert agent.wait() == 129
    else:
        assert agent.wait() == 128 + number
        assert len(cluster.events("term")) == 2, "workers are asked before they are killed"
    cluster.nothing_left()


def test_twice_kills_workers_that_do_not_end(cluster):
    agent = cluster.agent("", workers=2, environment={"DDPRUN_TEST_TERM": "ignore"})
    cluster.started(1, 2)
    agent.kill(signal.SIGINT)
    wait_for("both workers to be asked", lambda: len(cluster.events("term")) == 2)
    agent.kill(signal.SIGINT)
    assert agent.wait() == 130
    cluster.nothing_left()


def test_ctrl_c_at_one_node_stops_the_whole_run(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    agents = [cluster.agent(n, endpoint=endpoint, nnodes=2) for n in ("node-a", "node-b")]
    cluster.started(1, 2)
    agents[1].kill(signal.SIGINT)
    assert [agent.wait() for agent in agents] == [130, 130]
    cluster.nothing_left(but=[daemon])


def test_workers_of_all_nodes_get_the_signal_that_a_person_has_sent_to_one(cluster):
    """A script that saves on Python's KeyboardInterrupt does so on each node."""
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    agents = [cluster.agent(n, endpoint=endpoint, nnodes=2) for n in ("node-a", "node-b")]
    cluster.started(1, 2)
    for rank in range(2):
        cluster.order(rank, "trap 'say saved $(facts); exit 0' INT; say ready $(facts)")
    wait_for("both to have a handler", lambda: len(cluster.events("ready")) == 2)
    agents[1].kill(signal.SIGINT)
    assert [agent.wait() for agent in agents] == [130, 130]
    assert {event.rank for event in cluster.events("saved")} == {"0", "1"}
    cluster.nothing_left(but=[daemon])


def test_sigterm_at_one_node_drains_it_and_the_others_go_on(cluster):
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2")
    a = cluster.agent("node-a", **common)
    b = cluster.agent("node-b", **common)
    cluster.started(1, 2)
    b.kill(signal.SIGTERM)
    assert b.wait() == 0
    after = cluster.started(2, 1)
    assert after[0].node == "node-a" and after[0].restarts == "0"
    cluster.finish(1)
    assert a.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_sigterm_to_all_nodes_ends_the_run(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    agents = [cluster.agent(n, endpoint=endpoint, nnodes=2) for n in ("node-a", "node-b")]
    cluster.started(1, 2)
    for agent in agents:
        agent.kill(signal.SIGTERM)
    codes = [agent.wait() for agent in agents]
    assert 143 in codes and set(codes) <= {0, 143}, codes
    cluster.nothing_left(but=[daemon])


LISTENER = """
[ $RANK = 1 ] || trap 'echo rank $RANK hears' USR1
if [ $RANK = 2 ]; then
  trap - USR1
  sh -c "trap 'echo a child hears' USR1; while :; do sleep 0.1; done" &
fi
echo rank $RANK is there
while :; do sleep 0.1; done
"""


def test_usr1_goes_on_to_workers_that_know_it_and_ends_nothing(cluster):
    agent = cluster.agent("node-a", workers=3, command=["--no-python", "sh", "-c", LISTENER])
    for rank in range(3):
        agent.says(f"rank {rank} is there")
    wait_for("the child to have its handler", lambda: any(
        catches_usr1(pid) for pid in cluster.marked() if b"RANK=2" in variables_of(pid)))
    agent.kill(signal.SIGUSR1)
    agent.says("rank 0 hears")
    agent.says("a child hears")
    agent.says("SIGUSR1 is passed on to ranks 0 and 2")
    agent.says("SIGUSR1 is not passed on to rank 1: without a handler for it a worker would die")
    agent.kill(signal.SIGTERM)
    assert agent.wait() == 143
    cluster.nothing_left()


def test_usr1_while_no_worker_runs_ends_nothing(cluster):
    daemon = cluster.daemon()
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2)
    agent.says("1 of 2 nodes")
    agent.kill(signal.SIGUSR1)
    agent.says("SIGUSR1: no worker is running here to pass it to")
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        daemon.kill(number)
    other = cluster.agent("node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2)
    cluster.finish(2)
    assert (agent.wait(), other.wait()) == (0, 0)


@pytest.mark.parametrize("words, variables", [
    (["--shutdown-timeout=1"], {}), ([], {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "1"}),
], ids=["typed", "variable"])
def test_shutdown_timeout_rules_a_signal(cluster, words, variables):
    agent = cluster.agent("", *words, environment={"DDPRUN_TEST_TERM": "ignore", **variables})
    cluster.started(1, 1)
    agent.kill(signal.SIGTERM)
    agent.says("workers that have not ended in 1 s are killed")
    assert agent.wait() == 128 + signal.SIGTERM
    cluster.nothing_left()
