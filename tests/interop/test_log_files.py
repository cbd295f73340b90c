"""The log files of torchrun and of ddprun for the same options: which there are, what is in them,
and what the launcher's own streams get, line by line."""

import sys
import textwrap
from collections import Counter

import pytest
from torchrun import start_ddprun

from tests.support.log_tree import files_below

LIMIT = 240
TEMPLATE = "<${role_name} ${local_rank} ${rank} ${hostname}> "

SCRIPT = textwrap.dedent("""
    import os, sys
    rank = os.environ["RANK"]
    for text in ("an apple", "a kiwi", "a fig, ripe", "no fruit"):
        print(f"{rank} says {text}")
        print(f"{rank} warns of {text}", file=sys.stderr)
""")

# The first attempt ends when rank 0 says why it fails, in the file that torch's @record writes.
FAILING = textwrap.dedent("""
    import json, os, sys, time
    rank, restarts = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
    print(f"{rank} tries {restarts}", flush=True)
    if restarts == "1":
        sys.exit(0)
    if rank == "1":
        open(sys.argv[1], "w").close()
        time.sleep(1000)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as to:
        json.dump({"message": {"message": "boom", "extraInfo": {"timestamp": "1"}}}, to)
    sys.exit(7)
""")


def shown(text):
    """The workers' lines without their prefix, which torchrun writes for teed streams only."""
    lines = [line.partition("> ")[2] if line.startswith("<") else line
             for line in text.splitlines()]
    return Counter(line for line in lines if line[:1] in ("0", "1"))


def run(cluster, start, name, script, *options):
    folder = cluster.folder / name
    folder.mkdir()
    (folder / "script.py").write_text(script)
    logs = folder / "logs"
    job = start(cluster, name,
                ["--nproc-per-node=2", "--role=trainer", f"--log_dir={logs}",
                 f"--log-line-prefix-template={TEMPLATE}", *options, folder / "script.py",
                 folder / "there"],
                {"PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1"})
    assert job.wait(LIMIT) == 0, job.err()
    [place] = logs.iterdir()
    return files_below(place), shown(job.out()), shown(job.err())


def both(cluster, torchrun, script, *options):
    ours = run(cluster, start_ddprun, "ddprun", script, *options)
    theirs = run(cluster, torchrun.start, "torchrun", script, *options)
    return ours, theirs


@pytest.mark.parametrize("options", [
    ["--tee=3", "--duplicate-stdout-filters=apple,fig,, ripe", "--duplicate_stderr_filters=kiwi"],
    ["-r", "0:1,1:3", "-t", "1:2", "--local_ranks_filter=1", "--duplicate-stderr-filters=fig"],
], ids=["tee", "maps"])
def test_files_and_lines_are_those_of_torchrun(cluster, torchrun, options):
    ours, theirs = both(cluster, torchrun, SCRIPT, *options)
    assert ours == theirs


def test_a_restart_has_files_of_its_own_as_with_torchrun(cluster, torchrun):
    ours, theirs = both(cluster, torchrun, FAILING, "--max-restarts=1", "--redirects=3")
    assert ours[0]["attempt_0/0/error.json"]
    assert ours == theirs
