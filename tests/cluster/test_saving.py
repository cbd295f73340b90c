"""After a failure of another worker a worker that is still saving has up to 30 s to end, as with
torchrun; one that hangs, or spins in a collective, has stop_grace."""

import sys

import pytest

from tests.support.cluster import BIN, Program

# Rank 0 saves for longer than stop_grace when it is asked to end; if it only hangs or spins, it
# does so for ever. Rank 1 fails when the test lets it.
WORKER = """
import os, signal, sys, time
ready, saved, how = sys.argv[1:]
if os.environ["RANK"] == "1":
    while not os.path.exists(ready):
        time.sleep(0.01)
    sys.exit(7)
def save(*_):
    begun = time.monotonic()
    while how != "saves" or time.monotonic() < begun + 6.5:
        # So that any two looks find more of it; then it computes.
        if how == "saves" and time.monotonic() < begun + 4:
            with open(saved + ".part", "ab") as file:
                file.write(bytes(1 << 20))
            time.sleep(0.1)
        if how == "hangs":
            time.sleep(0.1)
    open(saved, "w").close()
    os._exit(0)
signal.signal(signal.SIGTERM, save)
open(ready, "w").close()
while True:
    time.sleep(0.1)
"""


def run(cluster, how, *options):
    ready, saved = cluster.folder / "ready", cluster.folder / "saved"
    job = Program(cluster, "a", [BIN / "ddprun", "--node-id", "a", "--nproc-per-node=2", *options,
                                 "--no-python", sys.executable, "-c", WORKER, ready, saved, how])
    assert job.wait() == 7
    return saved.exists(), job.err()


def test_a_worker_that_saves_is_waited_for(cluster):
    is_saved, said = run(cluster, "saves")
    assert is_saved
    assert "rank 0 was stopped" in said


@pytest.mark.parametrize("how", ["hangs", "spins"])
def test_a_worker_that_hangs_has_stop_grace(cluster, how):
    is_saved, said = run(cluster, how)
    assert not is_saved
    assert "rank 0 had to be killed" in said


def test_stop_grace_that_is_typed_counts_for_all(cluster):
    is_saved, _ = run(cluster, "saves", "--rdzv-conf=stop_grace=0.5")
    assert not is_saved
