"""examples/01_snapshot_resume is stopped in the middle of an epoch, and resumed with another number
of ranks: every sample of that epoch is used, and none twice except for the padding."""

import re
import signal
from collections import Counter

import pytest

from tests.support.cluster import wait_for
from tests.support.workload import DIGITS, PLACE, Workload

EXAMPLE = Workload("snapshot_resume", "01_snapshot_resume", "train.py")
SAMPLES = 1437
LIMIT = 240

pytestmark = pytest.mark.skipif(not DIGITS.exists(), reason=f"no {DIGITS}: ./tests/setup makes it")


def samples_in(epoch, lines):
    told = rf"\[rank \d+\] epoch {epoch} step \d+ \| samples ([\d ]+)"
    return [int(number) for line in lines if (match := re.search(told, line))
            for number in match[1].split()]


@pytest.mark.parametrize("kind, nodes, place", [
    ("program", [3], []), ("program", [2, 3], PLACE), ("python", [1, 2], PLACE)])
def test_no_sample_is_lost_or_doubled(cluster, tmp_path, kind, nodes, place):
    given = ["--snapshot-dir", tmp_path / "snapshots", "--batch-size", 2, "--tell-samples"]
    first, = EXAMPLE.start(cluster, kind, [2], 500, 500, *given)
    wait_for("some steps", lambda: "epoch 1 step 20 |" in first.out(), LIMIT)
    first.process.send_signal(signal.SIGTERM)
    assert first.wait(LIMIT) == 128 + signal.SIGTERM
    saved = re.search(r"epoch (\d+) \| snapshot saved at", first.out())
    assert saved, first.out()
    epoch = int(saved[1]) + 1
    before = samples_in(epoch, first.out().splitlines())
    assert 0 < len(before) < SAMPLES and len(set(before)) == len(before)

    lines = EXAMPLE.run(cluster, kind, nodes, epoch, 500, *given, *place)
    assert sum(f"at epoch {epoch}, in its middle" in line for line in lines) == 1
    assert sum("accuracy" in line for line in lines) == 1
    after = samples_in(epoch, lines)
    ranks = sum(nodes)
    assert set(before) | set(after) == set(range(SAMPLES))
    padding = -(SAMPLES - len(before)) % ranks
    assert len(before) + len(after) == SAMPLES + padding
    shares = Counter(line.split("|")[-1] for line in lines if line.endswith(" samples"))
    assert shares == {f" {len(after) // ranks} samples": ranks}


def test_two_nodes_in_the_other_forms(cluster, tmp_path):
    """One epoch, whose snapshot each following job finds."""
    given = [1, 1, "--snapshot-dir", tmp_path / "snapshots"]
    assert any("snapshot saved" in line for line in EXAMPLE.run(cluster, "program", [1, 1], *given))
    for nodes, place in [([1], []), ([2], PLACE), ([2, 3], [])]:
        lines = EXAMPLE.run(cluster, "program", nodes, *given, *place)
        assert any("all 1 epochs are done" in line for line in lines)
