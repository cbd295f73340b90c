"""A signal to a whole group of processes (Slurm's time limit, systemd's stop, a pod's end) reaches
the agent, its guardian and its workers in any order: the node is drained, whichever process was
first."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.cluster import BIN, Program, wait_for

# How long after a worker has been ended by a signal its agent waits to get that signal, too.
OWN_SIGNAL_WAIT = 0.1
# How long an agent that has got a signal waits for its guardian to get it, too.
GUARDIAN_ANSWER_WAIT = 0.2
TIMES = 50
TRIES = 10


def descendants(pid):
    """The process and all its descendants, parents before their children."""
    found = [pid]
    for one in found:
        try:
            with open(f"/proc/{one}/task/{one}/children") as children:
                found += [int(word) for word in children.read().split()]
        except OSError:
            pass
    return found


def to_all(agents, number, workers_first):
    """Sends it as the owner of a cgroup does: to each process by itself, because workers have
    sessions of their own."""
    pids = [pid for agent in agents for pid in descendants(agent.pid)]
    for pid in reversed(pids) if workers_first else pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def to_all_at_once(agent, number, workers_first):
    """The same as if it took no time: however long this process and the guardian have to wait for a
    processor, the agent goes on only when all signals have arrived."""
    agent.kill(signal.SIGSTOP)
    wait_for("the agent to stand still", lambda: state_of(agent.pid)["State"][0] == "T")
    guardian, = (pid for pid in descendants(agent.pid) if is_guardian(pid))
    to_all([agent], number, workers_first)
    # The guardian tells the agent in its signal handler, and sleeps again.
    wait_for("the guardian to have told of it", lambda: not is_pending(guardian, number)
             and state_of(guardian)["State"][0] == "S")
    agent.kill(signal.SIGCONT)


def two_nodes(cluster):
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2", workers=2)
    # They start in join order, so that the node that is drained is not the leader.
    a = cluster.agent("node-a", "--max-restarts", 0, **common)
    b = cluster.agent("node-b", "--max-restarts", 0, **common)
    started = cluster.started(1, 4)
    assert {worker.node for worker in started} == {"node-a", "node-b"}
    return daemon, a, b


def two_nodes_told(cluster, names, number, workers_first):
    """Two nodes, of which those with these names were sent the signal. If the workers got it first,
    and this process then had to wait too long for a processor before it reached the agents, this is
    tried again with other nodes."""
    for _ in range(TIMES):
        nodes = daemon, a, b = two_nodes(cluster)
        began = time.monotonic()
        to_all([agent for agent in (a, b) if agent.name in names], number, workers_first)
        if not workers_first or time.monotonic() - began < OWN_SIGNAL_WAIT:
            return nodes
        for program in (a, b, daemon):
            program.kill()
            program.wait()
        cluster.nothing_left()
        cluster.events_path.write_text("")
    raise AssertionError(f"this machine was too late {TIMES} times")


@pytest.mark.parametrize("attempt", range(10))
def test_sigterm_workers_first_drains_the_node(cluster, attempt):
    daemon, a, b = two_nodes_told(cluster, ["node-b"], signal.SIGTERM, workers_first=True)
    assert b.wait() == 0, "it was drained: the run goes on without it"
    after = cluster.started(2, 2)
    assert {worker.node for worker in after} == {"node-a"}
    assert {worker.restarts for worker in after} == {"0"}, "free of charge"
    cluster.finish(2)
    assert a.wait() == 0
    cluster.nothing_left(but=[daemon])


@pytest.mark.parametrize("leader", [False, True])
def test_sigterm_agent_first_drains_the_node(cluster, leader):
    daemon, a, b = two_nodes(cluster)
    gone, stays = (a, b) if leader else (b, a)
    to_all([gone], signal.SIGTERM, workers_first=False)
    assert gone.wait() == 0
    assert {worker.node for worker in cluster.started(2, 2)} == {stays.name}
    cluster.finish(2)
    assert stays.wait() == 0
    cluster.nothing_left(but=[daemon])


@pytest.mark.parametrize("workers_first", [True, False])
def test_sigint_to_one_node_stops_the_run_as_a_person_does(cluster, workers_first):
    daemon, a, b = two_nodes_told(cluster, ["node-b"], signal.SIGINT, workers_first)
    assert [a.wait(), b.wait()] == [130, 130]
    assert "stopped by SIGINT" in a.err()
    cluster.nothing_left(but=[daemon])


@pytest.mark.parametrize("workers_first", [True, False])
def test_sigterm_to_all_nodes_ends_the_run(cluster, workers_first):
    daemon, a, b = two_nodes_told(cluster, ["node-a", "node-b"], signal.SIGTERM, workers_first)
    codes = [a.wait(), b.wait()]
    # One may have left before it was seen that the other had been asked, too.
    assert 143 in codes and set(codes) <= {0, 143}, codes
    assert "every node was asked to leave" in a.err() + b.err()
    cluster.nothing_left(but=[daemon])


@pytest.mark.parametrize("workers_first", [True, False])
def test_sigterm_to_a_node_alone(cluster, workers_first):
    agent = cluster.agent("", "--max-restarts", 0, workers=2)
    cluster.started(1, 2)
    to_all([agent], signal.SIGTERM, workers_first)
    assert agent.wait() == 143
    cluster.nothing_left()


def test_a_worker_that_alone_is_sent_sigterm_has_failed(cluster):
    agent = cluster.agent("", "--max-restarts", 0, workers=2)
    first, _ = cluster.started(1, 2)
    os.kill(int(first.pid), signal.SIGTERM)
    assert agent.wait() == 143
    assert "killed by SIGTERM" in agent.err()
    cluster.nothing_left()


# Prints a line for each SIGUSR1 that it gets, and ends after so many.
COUNTS = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.signal(signal.SIGUSR1, lambda *_: None)
print("rank", os.environ["RANK"], "counts", flush=True)
for number in range(1, int(sys.argv[1]) + 1):
    signal.sigwait([signal.SIGUSR1])
    print("rank", os.environ["RANK"], "signal", number, flush=True)
"""


def start_counting(cluster, last):
    agent = Program(cluster, "a", [BIN / "ddprun", "--node-id", "a", "--nproc-per-node=2",
                                   "--no-python", sys.executable, "-c", COUNTS, last])
    for rank in range(2):
        agent.says(f"rank {rank} counts")
    return agent


@pytest.fixture
def counting(cluster, request):
    return start_counting(cluster, getattr(request, "param", 2))


def judged(agent, count):
    """Waits until the agent has said so often that a signal was sent to all."""
    wait_for("the agent to have judged it", lambda: agent.err().count(
        "SIGUSR1 was sent to every process of this node's job") == count)


@pytest.mark.parametrize("workers_first", [True, False])
def test_sigusr1_to_every_process_reaches_each_worker_once(counting, workers_first):
    to_all_at_once(counting, signal.SIGUSR1, workers_first)
    counting.says("SIGUSR1 was sent to every process of this node's job: "
                  "it is not passed on to ranks 0 and 1, which have it already")
    # The next signal comes only from this test; otherwise the workers would have ended by now.
    counting.kill(signal.SIGUSR1)
    counting.says("SIGUSR1 is passed on to ranks 0 and 1")
    assert counting.wait() == 0


@pytest.mark.parametrize("counting", [3], indirect=True)
def test_sigusr1_to_every_process_twice_reaches_each_worker_twice(counting):
    for number in (1, 2):
        to_all_at_once(counting, signal.SIGUSR1, workers_first=False)
        judged(counting, number)
        for rank in range(2):
            counting.says(f"rank {rank} signal {number}")
    assert "goes on" not in counting.err()
    counting.kill(signal.SIGUSR1)
    counting.says("SIGUSR1 is passed on to ranks 0 and 1")
    assert counting.wait() == 0


def test_the_second_of_two_soon_after_each_other_is_known_too(cluster):
    """Both are judged together if this machine lets the test send them within the time for which
    the agent waits; otherwise two more are sent to another agent."""
    for _ in range(TRIES):
        agent = start_counting(cluster, 3)
        began = time.monotonic()
        for number in (1, 2):
            to_all_at_once(agent, signal.SIGUSR1, workers_first=False)
            for rank in range(2):
                agent.says(f"rank {rank} signal {number}")
        wait_for("the agent to have heard of both", lambda one=agent: not is_pending(
            one.pid, signal.SIGUSR1) and state_of(one.pid)["State"][0] == "S")
        if time.monotonic() - began < GUARDIAN_ANSWER_WAIT:
            break
        agent.kill()
        agent.wait()
        cluster.nothing_left()
    else:
        pytest.skip(f"this machine was too slow, {TRIES} times")
    # This one goes to the agent alone; it is judged after those.
    agent.kill(signal.SIGUSR2)
    agent.says("SIGUSR2 is not passed on to ranks 0 and 1")
    assert "goes on" not in agent.err()
    agent.kill(signal.SIGUSR1)
    agent.says("SIGUSR1 is passed on to ranks 0 and 1")
    assert agent.wait() == 0


def test_sigusr1_to_a_guardian_that_was_started_again_is_known(counting):
    guardian, = (pid for pid in descendants(counting.pid) if is_guardian(pid))
    os.kill(guardian, signal.SIGKILL)
    wait_for("the next guardian", lambda: any(
        is_guardian(pid) and catches_usr1(pid) for pid in descendants(counting.pid)
        if pid != guardian))
    to_all_at_once(counting, signal.SIGUSR1, workers_first=False)
    counting.says("SIGUSR1 was sent to every process of this node's job")
    counting.kill(signal.SIGUSR1)
    assert counting.wait() == 0


@pytest.mark.parametrize("how", [["pkill", "-USR1", "ddprun", "-P"],
                                 ["pkill", "-USR1", "-f", "bin/ddprun", "-P"]])
def test_sigusr1_by_the_name_of_ddprun_goes_on_to_workers(counting, how):
    # This is what a person would type, except for the part that limits it to this test's processes.
    everybody = f"{os.getpid()},{counting.pid}"
    subprocess.run([*how, everybody], check=True)
    counting.says("SIGUSR1 is passed on to ranks 0 and 1")
    counting.kill(signal.SIGUSR1)
    assert counting.wait() == 0


def state_of(pid):
    """The state of a process according to the kernel; empty if it has gone."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return {name: value.strip() for name, _, value in (
                line.partition(":") for line in status)}
    except OSError:
        return {}


def is_in(mask, number):
    return int(mask, 16) >> (number - 1) & 1


def is_pending(pid, number):
    state = state_of(pid)
    return is_in(state["SigPnd"], number) or is_in(state["ShdPnd"], number)


def catches_usr1(pid):
    return is_in(state_of(pid).get("SigCgt", "0"), signal.SIGUSR1)


def is_guardian(pid):
    try:
        with open(f"/proc/{pid}/comm") as name:
            return "guardian" in name.read()
    except OSError:
        return False
