"""Where ranks stood when a round failed: what is found out before they are stopped, and that no
restart waits for it if nothing hangs."""

import json
import os
import re
import sys
import time

import pytest

from tests.support.cluster import wait_for
from tests.support.fake_ras import FakeRas, status
from tests.support.small_disk import fill
from tests.support.standing_script import line_of, write

# Rank 1 does not arrive; rank 0 gives up waiting for it, as Gloo does.
SLEEPS = """
    if rank == 1 and attempt == 0 and step == 1:
        note("stands")
        time.sleep(3600)
"""
SPINS = """
    if rank == 1 and attempt == 0 and step == 1:
        note("stands")
        while True: pass
"""


def start(cluster, script, *options, workers=2, **more):
    return cluster.agent("node", "--max-restarts", 1, "--max-quick-failures", 0, *options,
                         workers=workers, command=[script],
                         environment={"PYTHON_EXEC": sys.executable}, **more)


@pytest.mark.main_path
@pytest.mark.parametrize("work", [SLEEPS, SPINS], ids=["sleeps", "spins"])
def test_a_rank_that_does_not_come_is_named_with_its_line(cluster, tmp_path, work):
    script = write(tmp_path, work, limit=1, later_limit=3600)
    report = tmp_path / "report"
    agent = start(cluster, script, "--log-dir", tmp_path / "logs", "--tee", 3, "--report", report)
    assert agent.wait() == 0, agent.err()
    line = line_of(script, "sleep(3600)" if work is SLEEPS else "while True")
    sentence = f"rank 1 stood in forward (train.py:{line})"
    assert f"  | before the end: {sentence}" in agent.err()
    first = json.loads(report.read_text().splitlines()[0])
    assert first["stood"] == sentence
    (folder,) = (tmp_path / "logs").glob("*/attempt_0/evidence")
    assert first["evidence"] == str(folder)
    text = (folder / "rank_1.txt").read_text()
    assert f'train.py", line {line} in forward' in text
    assert sentence in (folder / "node.txt").read_text()
    assert "attempt 1 has ended well" in agent.out()
    cluster.nothing_left()


# It stands in for the real one, which not every machine has, and prints which process asks about
# which.
PY_SPY = """#!/bin/sh
[ "$1 $2 $3" = "dump --nonblocking --pid" ] && tr '\\0' '\\n' <"/proc/$4/environ" |
  grep -qx RANK=1 || exit 1
{how}
printf 'Process %s: python train.py\\nPython v3.11.2 (/usr/bin/python3.11)\\n\\n' "$4"
printf 'Thread 7 (idle): "pt_autograd_0"\\n    run (/other.py:1)\\n'
printf 'Thread 8 (active): "MainThread"\\n    forward (/data/train.py:88)\\n'
printf '    <module> (/data/train.py:9)\\n'
"""


@pytest.mark.parametrize("how", ["", "sleep 60"])
def test_a_python_that_cannot_be_asked_is_looked_into_by_py_spy(cluster, tmp_path, how):
    script = write(tmp_path, SLEEPS, limit=1)
    spy = tmp_path / "bin" / "py-spy"
    spy.parent.mkdir()
    spy.write_text(PY_SPY.format(how=how))
    spy.chmod(0o755)
    agent = cluster.agent("node", "--max-restarts", 1, "--max-quick-failures", 0, "--log-dir",
                          tmp_path / "logs", "--tee", 3, "--evidence", 2 if how else 300, workers=2,
                          command=["--no-python", sys.executable, script],
                          environment={"PATH": f"{spy.parent}:{os.environ['PATH']}"})
    assert agent.wait() == 0, agent.err()
    sentence = "  | before the end: rank 1 stood in forward (train.py:88)"
    assert (sentence in agent.err()) == (not how)
    (file,) = (tmp_path / "logs").glob("*/attempt_0/evidence/rank_1.txt")
    assert ("forward (/data/train.py:88)" in file.read_text()) == (not how)
    cluster.nothing_left()


def endless(file):
    while True:
        file.write("x" * 4096)


@pytest.mark.parametrize("answer, words, limit", [
    (lambda file: file.write(status([1204, 1203, 1204])),
     "; rank 1 of 3 is behind in NCCL (AllReduce 1203, others 1204)", 60),
    (lambda file: file.write(status([1204, 1204, 1204])), "", 60),
    (lambda file: file.write("NCCL version 2.27\n"), "", 60),
    (lambda file: time.sleep(600), "", 20),
    (endless, "", 60),
], ids=["behind", "level", "old", "silent", "endless"])
def test_what_nccl_knows_of_its_ranks_is_asked_for(cluster, tmp_path, answer, words, limit):
    script = write(tmp_path, SLEEPS, limit=1)
    server = FakeRas(answer)
    # An NCCL that says nothing uses three quarters of it; the rest is left for the ranks. Nobody
    # waits for it after stop_grace.
    agent = cluster.agent("node", "--max-restarts", 1, "--max-quick-failures", 0, "--log-dir",
                          tmp_path / "logs", "--tee", 3, "--evidence", limit, workers=2,
                          command=[script], conf="stop_grace=60",
                          environment={"PYTHON_EXEC": sys.executable,
                                       "NCCL_RAS_ADDR": server.address})
    assert agent.wait() == 0, agent.err()
    server.close()
    line = line_of(script, "sleep(3600)")
    sentence = f"rank 1 stood in forward (train.py:{line}){words}"
    assert f"  | before the end: {sentence}\n" in agent.err()
    assert server.asked == ["CLIENT PROTOCOL 2", "TIMEOUT 1", "SET FORMAT JSON", "VERBOSE STATUS"]
    (node,) = (tmp_path / "logs").glob("*/attempt_0/evidence/node.txt")
    text = node.read_text()
    assert len(text) < 100_000
    cluster.nothing_left()


def test_of_a_warm_worker_it_is_known_too(cluster, tmp_path):
    script = write(tmp_path, """
        if attempt == 0 and rank == 0:
            while not (folder / "go").exists():
                time.sleep(0.02)
            os._exit(3)
        if attempt == 1 and rank == 1:
            time.sleep(3600)
    """, limit=1)
    text = script.read_text()
    script.write_text(text.replace("limit = 1", "limit = 3600 if attempt == 0 else 1"))
    agent = cluster.agent("node", "--max-restarts", 2, "--max-quick-failures", 0, "--warm", "auto",
                          workers=2, command=[script],
                          environment={"PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1"})
    agent.says("2 spare workers? waits?")
    (cluster.folder / "go").touch()
    assert agent.wait() == 0, agent.err()
    line = line_of(script, "            time.sleep(3600)".strip())
    assert f"before the end: rank 1 stood in forward (train.py:{line})" in agent.err()
    cluster.nothing_left()


def test_no_restart_waits_where_nothing_hangs(cluster, tmp_path):
    """Rank 1 never answers, and has ten minutes to do so; but it moves, and rank 0 has failed by
    itself, so the round is over before that."""
    script = write(tmp_path, """
        if attempt == 0 and rank == 1:
            signal.pthread_sigmask(signal.SIG_BLOCK, [62])
            note("begun")
            while True: pass
        if attempt == 0 and rank == 0:
            while not (folder / "begun.0.1").exists():
                time.sleep(0.02)
            raise ValueError("loss is NaN")
    """)
    agent = start(cluster, script, "--evidence", 600)
    assert agent.wait() == 0, agent.err()
    assert "ValueError: loss is NaN" in agent.err() and "before the end" not in agent.err()
    assert "attempt 1 has ended well" in agent.out()
    cluster.nothing_left()


def test_a_rank_that_never_answers_is_ended_all_the_same(cluster, tmp_path):
    script = write(tmp_path, """
        if attempt == 0 and rank == 1 and step == 1:
            signal.pthread_sigmask(signal.SIG_BLOCK, [62])
            time.sleep(3600)
    """, limit=1)
    agent = start(cluster, script, "--evidence", 0.5, "--log-dir", tmp_path / "logs", "--tee", 3)
    assert agent.wait() == 0, agent.err()
    (folder,) = (tmp_path / "logs").glob("*/attempt_0/evidence")
    assert "it gave no stacks in time" in (folder / "rank_1.txt").read_text()
    cluster.nothing_left()


def test_a_rank_that_writes_without_end_in_place_of_its_stack_is_cut_off(cluster, tmp_path):
    """It writes into the file of its stack without end, though only 64 MB, to spare the machine."""
    script = write(tmp_path, """
        if attempt == 0 and rank == 1 and step == 1:
            (file,) = [int(name) for name in os.listdir("/proc/self/fd")
                       if os.path.exists(f"/proc/self/fd/{name}")
                       and "ddprun-stack" in os.readlink(f"/proc/self/fd/{name}")]
            while True:
                if os.fstat(file).st_size < 64_000_000:
                    os.write(file, b"x" * 65536)
    """, limit=1)
    agent = start(cluster, script, "--log-dir", tmp_path / "logs", "--tee", 3)
    assert agent.wait() == 0, agent.err()
    (folder,) = (tmp_path / "logs").glob("*/attempt_0/evidence")
    text = (folder / "rank_1.txt").read_text()
    assert "x" * 1000 in text and len(text) < 100_000
    assert "attempt 1 has ended well" in agent.out()
    cluster.nothing_left()


def test_a_rank_that_waits_for_a_signal_is_not_woken(cluster, tmp_path):
    """It would take our signal for the one that it waits for."""
    script = write(tmp_path, """
        if attempt == 0 and rank == 1 and step == 1:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.pause()
            note("woken")
    """, limit=1)
    agent = start(cluster, script, "--shutdown-timeout", 1, "--log-dir", tmp_path / "logs",
                  "--tee", 3)
    assert agent.wait() == 0, agent.err()
    (folder,) = (tmp_path / "logs").glob("*/attempt_0/evidence")
    assert "it cannot be asked for stacks of Python" in (folder / "rank_1.txt").read_text()
    assert not (cluster.folder / "woken.0.1").exists()
    cluster.nothing_left()


def test_nothing_is_gathered_with_evidence_off(cluster, tmp_path):
    script = write(tmp_path, SLEEPS + """
    if attempt == 1 and rank == 0:
        caught = [line for line in open("/proc/self/status") if line.startswith("SigCgt")][0]
        print("caught", int(caught.split()[1], 16) >> 61 & 1, flush=True)
    """, limit=1)
    agent = start(cluster, script, "--evidence", 0, "--log-dir", tmp_path / "logs", "--tee", 3)
    assert agent.wait() == 0, agent.err()
    assert "before the end" not in agent.err() and "caught 0" in agent.out()
    assert not list((tmp_path / "logs").glob("*/attempt_0/evidence"))
    cluster.nothing_left()


# As SLEEPS, but rank 0 does not give up before the test lets it.
SLEEPS_UNTIL_TOLD = SLEEPS + """
    while step == 1 and attempt == 0 and not (folder / "go").exists():
        time.sleep(0.02)
"""


def test_a_link_in_the_place_of_the_folder_is_not_followed(cluster, tmp_path):
    script = write(tmp_path, SLEEPS_UNTIL_TOLD, limit=1)
    aim = tmp_path / "aim"
    aim.mkdir()
    agent = start(cluster, script, "--log-dir", tmp_path / "logs", "--tee", 3)
    wait_for("rank 1 to stand", (cluster.folder / "stands.0.1").exists)
    (attempt,) = (tmp_path / "logs").glob("*/attempt_0")
    os.symlink(aim, attempt / "evidence")
    (cluster.folder / "go").touch()
    assert agent.wait() == 0, agent.err()
    assert f"cannot save the evidence in {attempt}/evidence: File exists" in agent.err()
    assert not list(aim.iterdir()) and "attempt 1 has ended well" in agent.out()
    cluster.nothing_left()


def test_what_a_script_sees_is_as_without(cluster, tmp_path):
    """There is no difference except for the handler, the descriptor, and what /proc has kept of the
    first environment."""
    script = tmp_path / "probe.py"
    script.write_text("""
import sys
modules = sorted(sys.modules)
import os, signal
first = os.open("/dev/null", os.O_RDONLY)
print("seen", [sys.path, sys.meta_path, modules, sorted(sys.path_importer_cache.keys() - {""}),
               os.environ.get("PYTHONPATH"), first, signal.getsignal(62), sys.orig_argv,
               sorted(sys.path_hooks, key=repr)].__repr__().replace("\\n", " "))
""")
    seen = []
    for limit in (0, 2):
        agent = cluster.agent(f"node{limit}", "--evidence", limit, run=f"run{limit}",
                              command=[script], environment={"PYTHON_EXEC": sys.executable})
        assert agent.wait() == 0, agent.err()
        (line,) = [line for line in agent.out().splitlines() if "seen" in line]
        seen.append(line.partition("seen ")[2])
    without, with_it = (re.sub(" at 0x[0-9a-f]+", "", text) for text in seen)
    assert without == with_it


def test_a_full_disk_costs_one_line(cluster, tmp_path, small_disk):
    script = write(tmp_path, SLEEPS_UNTIL_TOLD, limit=1)
    agent = start(cluster, script, "--log-dir", small_disk, "--redirects", 3)
    wait_for("rank 1 to stand", (cluster.folder / "stands.0.1").exists)
    fill(small_disk)
    (cluster.folder / "go").touch()
    assert agent.wait() == 0, agent.err()
    (line,) = [line for line in agent.err().splitlines() if "cannot save the evidence" in line]
    assert line.endswith("evidence: No space left on device")
    line = line_of(script, "sleep(3600)")
    assert f"before the end: rank 1 stood in forward (train.py:{line})" in agent.err()
    cluster.nothing_left()
