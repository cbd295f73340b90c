"""The Python of warm workers with PyTorch: a script that trains sees the same as in a cold start,
and computes the same numbers."""

import json
import os
import sys

import pytest

from tests.support.cluster import ROOT
from tests.support.leaves import differing
from tests.support.warm_agent import WarmAgent

torch = pytest.importorskip("torch", reason="PyTorch is not installed here")

PROBE = ROOT / "tests" / "support" / "warm_torch_probe.py"


@pytest.fixture
def make_agent():
    made = []

    def make(words, **more):
        own = {name: value for name, value in os.environ.items()
               if name not in ("PYTHONPATH", "RANK", "TORCHELASTIC_RESTART_COUNT")}
        made.append(WarmAgent(sys.executable, words, {
            name: value for name, value in {**own, "OMP_NUM_THREADS": "1", **more}.items()
            if value is not None}))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


@pytest.mark.parametrize("threads", ["1", None, pytest.param("2", marks=pytest.mark.slow)])
def test_a_script_that_trains_sees_no_difference(make_agent, threads):
    """It sees none while its imports are recorded, either. What rank 0 has in addition does not
    depend on threads."""
    agent = make_agent([PROBE], OMP_NUM_THREADS=threads)
    ends = [agent.cold(is_recorded=True, RANK="1")]
    assert agent.load().startswith("ready ")
    ends.append(agent.warm(RANK="1"))
    if threads == "1":
        ends += [agent.cold(RANK="0"), agent.warm(RANK="0")]
    seen = [json.loads(end.out.splitlines()[0]) for end in ends]
    assert [one["warm"] for one in seen] == [False, True] * (len(ends) // 2)
    most = seen[-1]["same"]
    for one in seen:
        assert not differing(one["same"], {name: most[name] for name in one["same"]})
    for own in zip(*(one["own"] for one in seen)):
        assert len(set(own)) == len(seen), own  # each draws its own
    # What breakpoint() reads when standard input ends, and the error that follows.
    rest = [(end.status, end.out.splitlines()[1:], end.err) for end in ends]
    assert rest[1:] == [rest[0]] * (len(ends) - 1)
    assert rest[0][0] == 1 and "bdb.BdbQuit" in rest[0][2]
