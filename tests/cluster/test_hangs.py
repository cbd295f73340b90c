"""Hangs: a rank that the others wait for is named and ended, and the round is started again; a rank
that moves does not hang, however long it takes."""

import json
import os
import re
import signal
import sys
import textwrap
import time

import pytest

from tests.support.cluster import run_shown, wait_for
from tests.support.exec_gate import ReadGate, opened
from tests.support.needs import needs
from tests.support.standing_script import line_of, write

LIMIT = 300  # PyTorch is imported
# A rank never says where it stands; the others have this time for it.
ONE_IS_MUTE = ("--evidence", 5)
SLEEPS = """
    if rank == 2 and attempt == 0 and step == 1:
        note("stands")
        time.sleep(3600)
"""


def start(cluster, script, *options, workers=3, name="node", **more):
    return cluster.agent(name, "--max-restarts", 1, "--max-quick-failures", 0, *options,
                         workers=workers, command=[script],
                         environment={"PYTHON_EXEC": sys.executable}, **more)


def told_to(file):
    """Returns the option, and a function that returns the events so far."""
    return (("--on-event", f"cat >>{file}"),
            lambda: [json.loads(line) for line in file.read_text().splitlines()]
            if file.exists() else [])


def of_hangs(events):
    return [one for one in events if one["event"].startswith("hang")]


def two_nodes(cluster, script, limit, workers):
    """Starts two nodes, the first of which has the lower ranks."""
    daemon = cluster.daemon()
    agents = []
    for name, count in zip("ab", workers):
        agents.append(start(cluster, script, "--hang-timeout", limit, workers=count, name=name,
                            nnodes="2", endpoint=f"127.0.0.1:{daemon.port}"))
        agents[0].says(rf"here:.*{name}" if name == "a" else "round 1 starts")
    return agents


@pytest.mark.main_path
def test_a_rank_that_the_others_wait_for_is_named_and_ended(cluster, tmp_path):
    script = write(tmp_path, SLEEPS)
    report = tmp_path / "report"
    hook, events = told_to(tmp_path / "events")
    agent = start(cluster, script, "--hang-timeout", 3, "--report", report, *hook)
    assert agent.wait() == 0, agent.err()
    line = line_of(script, "sleep(3600)")
    waits = line_of(script, "all_reduce(step, limit)")
    sentence = (f"rank 2 stood in forward (train.py:{line}) while ranks 0 and 1 waited in "
                f"all_reduce, <module> (train.py:{waits})")
    first, last = map(json.loads, report.read_text().splitlines())
    cause = first["root_cause"]
    assert (first["outcome"], cause["kind"], cause["rank"]) == ("failed", "hung", 2)
    beginning = "node: rank 2 (local rank 2) hung: no rank of this node has moved for "
    assert cause["sentence"].startswith(beginning)
    assert cause["sentence"].endswith(sentence)
    (hang,) = of_hangs(events())
    assert hang["text"].startswith("rank 2 hangs and is ended: no rank of this node has moved for ")
    assert hang["rank"] == 2 and hang["text"].endswith(sentence)
    assert last["outcome"] == "succeeded" and last["restarts_used"] == 1
    assert "hung: no rank of this node has moved for" in agent.err() and sentence in agent.err()
    assert agent.out().count("attempt 1 has ended well") == 3
    cluster.nothing_left()


def test_a_hang_that_comes_again_uses_the_restarts_up(cluster, tmp_path):
    script = write(tmp_path, SLEEPS.replace("attempt == 0", "True"))
    agent = start(cluster, script, "--hang-timeout", 2)
    assert agent.wait() == 1
    assert agent.err().count("rank 2 hangs and is ended") == 2
    cluster.nothing_left()


def test_a_stopped_rank_is_named(cluster, tmp_path):
    script = write(tmp_path, """
        if rank == 1 and attempt == 0 and step == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
    """)
    agent = start(cluster, script, "--hang-timeout", 2, *ONE_IS_MUTE)
    assert agent.wait() == 0, agent.err()
    assert ("rank 1 had been stopped (state T) while ranks 0 and 2 waited in all_reduce"
            in agent.err())
    cluster.nothing_left()


# A child that is started in this way makes its parent wait in the kernel until it executes a
# program: in state D, like a process whose file server is gone.
STUCK = """
    if rank == 1 and attempt == 0 and step == 1:
        import ctypes
        system = ctypes.CDLL(None)
        stack = ctypes.create_string_buffer(1 << 16)
        top = ctypes.c_void_p(ctypes.addressof(stack) + (1 << 16) & ~15)
        CLONE_VFORK = 0x4000

        def end_child_when_told():
            while not (folder / "go").exists():
                time.sleep(0.2)
            for status in Path("/proc").glob("[0-9]*/stat"):
                try:
                    parent = int(status.read_text().rpartition(")")[2].split()[1])
                except OSError:
                    continue  # it has ended
                if parent == os.getpid():
                    os.kill(int(status.parent.name), signal.SIGKILL)

        import threading
        threading.Thread(target=end_child_when_told).start()
        note("stands")
        system.clone(ctypes.cast(system.pause, ctypes.c_void_p), top,
                     CLONE_VFORK | signal.SIGCHLD, None)
"""


def test_a_rank_that_is_stuck_in_the_kernel_is_named(cluster, tmp_path):
    script = write(tmp_path, STUCK)
    hook, events = told_to(tmp_path / "events")
    agent = start(cluster, script, "--hang-timeout", 3, *ONE_IS_MUTE, *hook)
    agent.says(r"no rank of this node has moved for [^:]+: rank 1 waited in the kernel \(state "
               r"D[^)]*\).* while ranks 0 and 2 waited in all_reduce.*; a rank that waits in the "
               "kernel is not ended")
    assert wait_for("the event", lambda: of_hangs(events()))[0]["rank"] == 1
    (cluster.folder / "go").touch()  # its file server is back
    assert agent.wait() == 0, agent.err()
    assert agent.out().count("attempt 0 has ended well") == 3 and "is ended" not in agent.err()
    cluster.nothing_left()


@pytest.fixture
def gated_file(tmp_path):
    """A file on which each read waits in the kernel for the test."""
    file = tmp_path / "step-100.pt"
    file.write_bytes(bytes(4096))
    with opened(ReadGate, file) as gate:
        yield file, gate


def test_by_default_ranks_whose_file_server_is_gone_are_named(cluster, tmp_path, gated_file):
    """All ranks are stuck, and none waits in a collective."""
    file, gate = gated_file
    script = write(tmp_path, f"""
        if step == 1:
            Path("{file}").read_bytes()
    """)
    hook, events = told_to(tmp_path / "events")
    agent = start(cluster, script, *ONE_IS_MUTE, *hook, workers=2)
    agent.says("no rank of this node has moved for .*: ranks 0 and 1 waited in the kernel for "
               rf"(\.\.\.)?{re.escape(str(file)[-80:])} \(state D.*; a rank that waits in the "
               "kernel is not ended")
    (hang,) = wait_for("the event", lambda: of_hangs(events()))
    assert hang["rank"] == 0 and str(file)[-80:] in hang["text"]
    gate.close()  # the server is back
    assert agent.wait() == 0, agent.err()
    assert agent.out().count("attempt 0 has ended well") == 2
    cluster.nothing_left()


def test_a_rank_that_reads_from_a_slow_disk_does_not_hang(cluster, tmp_path, gated_file):
    """It is in state D at each look, in the same function of the kernel, for far longer than the
    limit."""
    file, gate = gated_file
    script = write(tmp_path, f"""
        if rank == 0 and step == 1:
            with open("{file}", "rb", buffering=0) as data:
                for _ in range(60):
                    data.read(1)
            note("has_read")
    """)
    agent = start(cluster, script, "--hang-timeout", 5, workers=2)
    has_read = cluster.folder / "has_read.0.0"
    while not has_read.exists() and agent.process.poll() is None:
        if gate.waits():
            gate.let_pass(0)
        time.sleep(0.2)
    assert agent.wait() == 0, agent.err()
    assert "hang" not in agent.err() and "attempt 0 has ended well" in agent.out()
    cluster.nothing_left()


MOVES = {
    "computes": "x = sum(range(100000))",
    "in a child": "__import__('subprocess').run([sys.executable, '-c', 'sum(range(3 * 10**7))'])",
    "prints": "print('at', time.monotonic(), flush=True); time.sleep(0.3)",
    "writes": "(folder / 'snapshot').write_bytes(bytes(1 << 20)); time.sleep(0.3)",
}


@pytest.mark.parametrize("how", MOVES)
def test_a_rank_that_moves_does_not_hang(cluster, tmp_path, how):
    """The others wait for it for far longer than the limit, as in a checkpoint, an evaluation or a
    compilation.
    """
    script = write(tmp_path, f"""
        until = time.monotonic() + 6
        while rank == 0 and step == 1 and time.monotonic() < until:
            {MOVES[how]}
    """)
    agent = start(cluster, script, "--hang-timeout", 3, workers=2)
    assert agent.wait() == 0, agent.err()
    assert "hang" not in agent.err() and "attempt 0 has ended well" in agent.out()
    cluster.nothing_left()


def test_a_node_whose_ranks_all_wait_ends_no_worker(cluster, tmp_path):
    """Rank 0 of node a is busy; all ranks of node b wait for it, which b cannot know."""
    script = write(tmp_path, """
        if rank == 0 and step == 1:
            while not (folder / "go").exists():
                sum(range(10000))
    """)
    agents = two_nodes(cluster, script, 2, (1, 2))
    agents[1].says("no rank of this node has moved for .*: ranks [0-9] and [0-9] waited in "
                   "all_reduce.*; this node cannot see whom they wait for; none is ended")
    (cluster.folder / "go").touch()
    for agent in agents:
        assert agent.wait() == 0, agent.err()
        assert "hung" not in agent.err() and "attempt 0 has ended well" in agent.out()
    cluster.nothing_left(but=cluster.programs[:1])  # the daemon


def test_a_hang_ends_the_round_of_all_nodes(cluster, tmp_path):
    script = write(tmp_path, SLEEPS)
    agents = two_nodes(cluster, script, 3, (2, 2))
    for agent in agents:
        assert agent.wait() == 0, agent.err()
        assert "rank 2 (local rank 0) hung: no rank of this node has moved for" in agent.err()
        assert "while rank 3 waited in all_reduce" in agent.err()
        assert "attempt 1 has ended well" in agent.out()
    cluster.nothing_left(but=cluster.programs[:1])  # the daemon


TRAINS = """
    import os
    import time
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])


    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x, step):
            if dist.get_rank() == 1 and attempt == 0 and step == 3:
                time.sleep(3600)
            return self.layer(x)


    model = torch.nn.parallel.DistributedDataParallel(Model())
    for step in range(5):
        model(torch.ones(2, 4), step).sum().backward()
    {last}
    dist.destroy_process_group()
    print(f"attempt {{attempt}} has ended well", flush=True)
"""


@pytest.mark.trains
def test_ranks_that_train_with_gloo_wait_for_the_one_in_its_forward(cluster, tmp_path):
    needs("torch", "PyTorch is not installed here")
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAINS).format(last="dist.barrier()"))
    agent = start(cluster, script, "--hang-timeout", 10, "--collectives", "on", workers=2)
    assert agent.wait(LIMIT) == 0, agent.err()
    sentence = (f"rank 1 stood in forward (train.py:{line_of(script, 'sleep(3600)')}) while rank 0 "
                f"waited in backward for all_reduce #N, <module> "
                f"(train.py:{line_of(script, 'backward()')})")
    assert sentence in re.sub("#[0-9]+", "#N", agent.err())
    assert agent.out().count("attempt 1 has ended well") == 2
    cluster.nothing_left()


def test_by_default_a_hang_is_named_and_no_worker_is_ended(cluster, tmp_path):
    """The command of --on-event and the daemon's page tell of it, and of its end."""
    script = write(tmp_path, """
        if rank == 2 and step == 1:
            while not (folder / "go").exists():
                time.sleep(0.1)
            while not (folder / "on").exists():
                sum(range(10000))
    """)
    daemon = cluster.daemon()
    hook, events = told_to(tmp_path / "events")
    agent = start(cluster, script, *hook, endpoint=f"127.0.0.1:{daemon.port}")
    line = line_of(script, "time.sleep(0.1)")
    stood = (rf"rank 2 stood in forward \(train.py:{line}\) while ranks 0 and 1 waited in "
             "all_reduce, ")
    agent.says(f"no rank of this node has moved for .*: {stood}.*; --hang-timeout SECONDS ends a "
               "rank that hangs")
    (hang,) = wait_for("the event", lambda: of_hangs(events()))
    assert (hang["event"], hang["rank"], hang["leads"], hang["round"]) == ("hang", 2, True, 1)
    assert re.match(f"rank 2 hangs: no rank of this node has moved for .* s: {stood}", hang["text"])
    stall = wait_for("the daemon to show it", lambda: run_shown(daemon.port).get("stall"))
    assert stall["rank"] == 2 and stall["for_s"] >= 20
    assert re.match(f"rank 2 hangs: no rank of this run has moved for .* s: {stood}", stall["text"])
    assert stall["text"] in run_shown(daemon.port)["why"]
    (cluster.folder / "go").touch()
    wait_for("the event that it is over", lambda: len(of_hangs(events())) == 2)
    assert "stall" not in run_shown(daemon.port)
    (cluster.folder / "on").touch()
    assert agent.wait() == 0, agent.err()
    assert [one["event"] for one in events()] == ["round_started", "hang", "hang_over", "ended"]
    assert agent.err().count("no rank of this node has moved") == 1
    assert agent.out().count("attempt 0 has ended well") == 3
    cluster.nothing_left(but=[daemon])


def test_with_the_hang_timeout_off_nothing_is_said_of_a_hang(cluster, tmp_path):
    script = write(tmp_path, SLEEPS)
    hook, events = told_to(tmp_path / "events")
    agent = start(cluster, script, "--hang-timeout", "off", *hook)
    wait_for("rank 2 to stand", (cluster.folder / "stands.0.2").exists)
    agent.kill(signal.SIGTERM)
    assert agent.wait() == 128 + signal.SIGTERM
    assert "moved" not in agent.err() and "hang" not in agent.err()
    assert not of_hangs(events())
    cluster.nothing_left()


def test_programs_that_cannot_say_where_they_stand_are_not_ended(cluster, tmp_path):
    """They have no handler for the signal, which would end them."""
    script = tmp_path / "work.sh"
    script.write_text('read word < "$DDPRUN_TEST_CONTROL/go.$RANK"; echo has ended well')
    for rank in range(2):
        os.mkfifo(cluster.folder / f"go.{rank}")
    agent = cluster.agent("node", "--hang-timeout", 2, "--no-python", workers=2,
                          command=["sh", script])
    agent.says("no rank of this node has moved for .*, and none of them gave a stack; none is "
               "ended")
    for rank in range(2):
        (cluster.folder / f"go.{rank}").write_text("on")
    assert agent.wait() == 0, agent.err()
    assert agent.out().count("has ended well") == 2
    cluster.nothing_left()
