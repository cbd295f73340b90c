"""The launcher's own TORCHELASTIC_ERROR_FILE, in which a scheduler reads why the job has failed:
what ddprun leaves there, compared with what torchrun leaves for the same script."""

import json
import re
import sys
import textwrap
import time

import pytest

from tests.support.cluster import BIN, GO_ON, Program

LIMIT = 240  # rank 1 imports PyTorch

# Rank 1 fails in the given way; rank 0 waits to be stopped.
SCRIPT = """
    import atexit, json, os, signal, sys

    how, of_launcher = sys.argv[1:3]
    mine = os.environ["TORCHELASTIC_ERROR_FILE"]
    assert mine and mine != of_launcher
    if os.environ["RANK"] == "0":
        signal.pause()
    from torch.distributed.elastic.multiprocessing.errors import record

    def fail():
        if how == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "exit":
            sys.exit(3)
        if how == "sentence":
            with open(mine, "w") as to:
                json.dump({"message": "the disk is on fire", "timestamp": 17, "mine": ["ä"]}, to)
            sys.exit(3)
        if how == "raise, then signal":
            atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
        attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
        raise ValueError(f"NaN in attempt {attempt}; told before: {os.path.exists(of_launcher)}")

    fail() if how == "plain" else record(fail)()
"""


def both(cluster, torchrun, how, *options):
    """What torchrun and ddprun have left, and the exit code of ddprun."""
    script = cluster.folder / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    left = []
    for name in ("torchrun", "ddprun"):
        file = cluster.folder / f"{name}.json"
        line = ["--nproc-per-node=2", *options, script, how, file]
        variables = {"TORCHELASTIC_ERROR_FILE": str(file), "PYTHON_EXEC": sys.executable}
        if name == "torchrun":
            job = torchrun.start(cluster, name, line, variables)
        else:
            job = Program(cluster, name, [BIN / "ddprun", *GO_ON, "--node-id=here", *line],
                          environment=variables)
        code = job.wait(LIMIT)
        assert code != 0, job.err()
        left.append(json.loads(file.read_text()) if file.exists() else None)
    return *left, code


def taken_out(file, *path):
    for name in path[:-1]:
        file = file[name]
    return file.pop(path[-1])


@pytest.mark.parametrize("how, code", [("record", 1), ("raise, then signal", 128 + 11)])
def test_the_file_of_record_is_handed_on_field_by_field(cluster, torchrun, how, code):
    theirs, ours, exit_code = both(cluster, torchrun, how)
    times = [int(taken_out(file, "message", "extraInfo", "timestamp")) for file in (theirs, ours)]
    assert theirs == ours
    assert times[0] <= times[1] <= time.time()
    assert ours["message"]["message"] == "ValueError: NaN in attempt 0; told before: False"
    assert "in fail\n" in ours["message"]["extraInfo"]["py_callstack"]
    assert ours["message"]["errorCode"] == (code if code < 128 else 128 - code)
    assert exit_code == code


def test_a_file_with_a_sentence_is_handed_on_as_it_is(cluster, torchrun):
    theirs, ours, code = both(cluster, torchrun, "sentence")
    assert theirs == ours == {"message": "the disk is on fire", "timestamp": 17, "mine": ["ä"]}
    assert code == 3


def test_it_is_written_at_the_end_and_not_at_a_restart(cluster, torchrun):
    theirs, ours, _ = both(cluster, torchrun, "record", "--max-restarts=1")
    for file in (theirs, ours):
        assert file["message"]["message"] == "ValueError: NaN in attempt 1; told before: False"


@pytest.mark.parametrize("how, code, words", [
    ("plain", 1, "exited with code 1: ValueError: NaN in attempt 0; told before: False"),
    ("exit", 3, "exited with code 3"),
    ("signal", -9, "killed by SIGKILL"),
])  # fmt: skip
def test_a_worker_that_has_left_no_file_is_told_of_too(cluster, torchrun, how, code, words):
    """torchrun leaves nothing then, or what was there before."""
    theirs, ours, _ = both(cluster, torchrun, how)
    assert theirs is None
    assert ours.keys() == {"message"}
    message = ours["message"]
    assert message["message"] == f"here: rank 1 (local rank 1) {words}"
    assert message["errorCode"] == code
    assert message["extraInfo"].keys() == {"py_callstack", "timestamp"}
    assert 0 <= time.time() - int(message["extraInfo"]["timestamp"]) < 3600
    if how == "plain":
        assert 'raise ValueError(f"NaN' in message["extraInfo"]["py_callstack"]


def shell(cluster, name, script, *options, file=None):
    return Program(cluster, name,
                   [BIN / "ddprun", "--node-id", name, *options, "--no-python", "/bin/sh", "-c",
                    script],
                   environment={"TORCHELASTIC_ERROR_FILE": str(file)})


RECORDED = {"message": {"message": "ValueError: NaN", "extraInfo": {
    "py_callstack": "Traceback (most recent call last):\n  File \"/data/train.py\", line 8, in step"
                    "\n    raise ValueError('NaN')\nValueError: NaN\n", "timestamp": "17"}}}


def test_every_node_tells_the_root_cause_of_the_run_wherever_it_was(cluster):
    daemon = cluster.daemon()
    error = cluster.folder / "error"
    error.write_text(json.dumps(RECORDED))
    script = (f"[ $RANK = 1 ] && {{ cp {error} $TORCHELASTIC_ERROR_FILE; exit 7; }}; "
              "exec sleep 1000")
    files = {name: cluster.folder / f"{name}.json" for name in "ab"}
    nodes = [shell(cluster, name, script, "--nnodes=2", f"--node-rank={rank}",
                   f"--rdzv-endpoint=127.0.0.1:{daemon.port}", file=files[name])
             for rank, name in enumerate("ab")]
    assert [node.wait() for node in nodes] == [7, 7]
    there, here = (json.loads(files[name].read_text())["message"] for name in "ab")
    assert here == {**RECORDED["message"], "errorCode": 7}
    assert there["message"] == "b: rank 1 (local rank 0) exited with code 7: ValueError: NaN"
    assert there["errorCode"] == 7
    assert there["extraInfo"]["py_callstack"] == here["extraInfo"]["py_callstack"]


def test_a_run_that_never_began_says_why(cluster):
    daemon = cluster.daemon()
    file = cluster.folder / "error.json"
    job = shell(cluster, "a", "true", "--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{daemon.port}",
                "--rdzv-conf=join_timeout=5", file=file)
    assert job.wait() == 69
    message = json.loads(file.read_text())["message"]
    assert "nodes" in message["message"] and message["message"] in job.err()
    assert "errorCode" not in message


def test_a_run_that_ends_well_leaves_the_file_as_it_was(cluster):
    file = cluster.folder / "error.json"
    file.write_text("old")
    assert shell(cluster, "a", "true", file=file).wait() == 0
    assert file.read_text() == "old"
    assert shell(cluster, "b", "exit 5", file=file).wait() == 5
    assert json.loads(file.read_text())["message"]["errorCode"] == 5


def test_a_file_that_cannot_be_written_costs_one_line(cluster):
    file = cluster.folder / "none" / "error.json"
    job = shell(cluster, "a", "exit 5", file=file)
    assert job.wait() == 5
    assert re.findall(r".*TORCHELASTIC_ERROR_FILE.*", job.err()) == [
        next(line for line in job.err().splitlines() if line.endswith(
            f"warning: TORCHELASTIC_ERROR_FILE={file}: cannot be written: "
            "No such file or directory"))]
