"""torchft over ddprun: each replica group is a job of its own, so that one goes on while another is
started again and heals from it."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cluster import Program, wait_for
from tests.support.spares import spares_wait

SCRIPT = Path(__file__).with_name("torchft_train.py")
LIGHTHOUSE = """
import sys, time
from torchft.coordination import LighthouseServer
server = LighthouseServer(bind="127.0.0.1:0", min_replicas=1)
print(server.address(), flush=True)
sys.stdin.read()
"""


@dataclass
class Step:
    restart: int
    pid: int
    number: int
    participants: int
    weights: str


def steps(cluster, name, rank=0):
    path = cluster.folder / f"{name}.{rank}.steps"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [line.split() for line in lines if line.endswith("\n")]
    return [Step(*map(int, words[:4]), words[4]) for words in whole]


@pytest.fixture
def lighthouse(cluster, needs):
    needs("torchft")
    program = Program(cluster, "lighthouse", [sys.executable, "-c", LIGHTHOUSE],
                      stdin=subprocess.PIPE)
    # It tells the name of this host, which need not be one that resolves.
    port = program.says(r"http://\S+:(\d+)").group(1)
    return f"http://127.0.0.1:{port}"


def replica(cluster, name, lighthouse, warm, ranks):
    line = ["--standalone", "--warm", warm, "--max-restarts", 1]
    return cluster.agent(f"node-{name}", *line, run=name, workers=ranks,
                         command=[SCRIPT, name, cluster.folder],
                         environment={"PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1",
                                      "TORCHFT_LIGHTHOUSE": lighthouse,
                                      "GLOO_SOCKET_IFNAME": "lo",
                                      "XDG_CACHE_HOME": str(cluster.folder / "cache")})


@pytest.mark.parametrize("warm, ranks", [("off", 1), ("auto", 1), ("off", 2)])
def test_a_replica_group_that_is_killed_heals_from_the_other(cluster, lighthouse, warm, ranks):
    """All ranks of a group, also if one of them has died."""
    a, b = [replica(cluster, name, lighthouse, warm, ranks) for name in "ab"]

    def last(name):
        return next(iter(steps(cluster, name)[-1:]), None)

    wait_for("both to train together",
             lambda: all(last(name) and last(name).participants == 2 for name in "ab"))
    if warm != "off":
        spares_wait(b, ranks)
    (cluster.folder / "die.b").touch()
    b.says("round 1 failed")
    died = last("b").number
    wait_for("the other to go on alone",
             lambda: any(step.participants == 1 and step.number > died
                         for step in steps(cluster, "a")))
    wait_for("b to have healed",
             lambda: last("b").restart == 1 and last("b").participants == 2)
    healed = next(step for step in steps(cluster, "b") if step.restart == 1)
    assert healed.number > died
    wait_for("both to take steps after that", lambda: min(last("a").number, last("b").number)
             > healed.number + 5)
    (cluster.folder / "end").touch()
    assert a.wait() == 0 and b.wait() == 0, a.err() + b.err()
    assert not re.search("round 1 failed", a.err())
    for rank in range(ranks):
        assert len({step.pid for step in steps(cluster, "a", rank)}) == 1
        assert len({step.pid for step in steps(cluster, "b", rank)}) == 2
        of_a = {step.number: step.weights for step in steps(cluster, "a", rank)}
        both = [step for step in steps(cluster, "b", rank) if step.number in of_a]
        assert len(both) > 5 and all(step.weights == of_a[step.number] for step in both)
