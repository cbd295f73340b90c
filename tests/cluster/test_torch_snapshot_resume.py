"""examples/01_snapshot_resume on two nodes, a worker killed in the middle: it resumes from the
newest snapshot and ends with the weights of a run that nobody disturbed, bit by bit."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.support.cluster import BIN, ROOT, wait_for

DIGITS = Path(os.environ.get("DDPRUN_DIGITS", ROOT / ".cache" / "digits.csv"))
PROGRAM = BIN / "snapshot_resume"
SCRIPT = ROOT / "examples" / "01_snapshot_resume" / "train.py"
EPOCHS, INTERVAL, KILL_AFTER = 9, 3, 7
LIMIT = 240

pytestmark = pytest.mark.skipif(not DIGITS.exists(), reason=f"no {DIGITS}: ./tests/setup makes it")


def job(kind, folder):
    arguments = [EPOCHS, INTERVAL, "--snapshot-dir", folder]
    if kind == "python":
        pytest.importorskip("torch", reason="PyTorch is not installed here")
        return [SCRIPT, *arguments]
    if not PROGRAM.exists():
        pytest.skip("snapshot_resume is not built: no LibTorch")
    return ["--no-python", PROGRAM, *arguments]


def start(cluster, daemon, command, run):
    return [
        cluster.agent(f"{run}-{node}", "--max-restarts", 2, nnodes=2, workers=2, run=run,
                      endpoint=f"127.0.0.1:{daemon.port}", command=command,
                      environment={"PYTHON_EXEC": sys.executable, "DDPRUN_DIGITS": str(DIGITS)})
        for node in ("a", "b")
    ]


def output(agents):
    return "".join(agent.out() for agent in agents)


def finish(agents):
    codes = [agent.wait(LIMIT) for agent in agents]
    text = output(agents)
    errors = "".join(agent.err() for agent in agents)
    assert codes == [0, 0], text + errors
    result = re.search(r"model checksum (\w+)", text), re.search(r"accuracy ([\d.]+)", text)
    assert all(result), text
    return result[0][1], result[1][1]


def process_of(cluster, rank):
    for pid in cluster.marked():
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"RANK={rank}".encode() in variables:
            return pid
    raise AssertionError(f"rank {rank} has no process: {cluster.marked()}")


@pytest.mark.parametrize("kind", ["program", "python"])
def test_a_killed_worker_resumes_and_changes_nothing(cluster, tmp_path, kind):
    daemon = cluster.daemon()
    expected = finish(start(cluster, daemon, job(kind, tmp_path / "plain"), "plain"))

    agents = start(cluster, daemon, job(kind, tmp_path / "killed"), "killed")
    seen = rf"\[rank 3\] epoch {KILL_AFTER} "
    wait_for("the epoch in which to kill", lambda: re.search(seen, output(agents)), LIMIT)
    os.kill(process_of(cluster, 3), signal.SIGKILL)
    assert finish(agents) == expected

    resumed = re.search(r"resuming from snapshot \S+ at epoch (\d+)", output(agents))
    assert resumed, output(agents)
    assert int(resumed[1]) == KILL_AFTER // INTERVAL * INTERVAL + 1
    cluster.nothing_left(but=[daemon])
