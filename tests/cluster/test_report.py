"""What is reported about a failed round: the box, which is the same on every node; --report; the
daemon's view; and what `ddprun explain` makes of the output."""

import json
import re
import subprocess

import pytest

from tests.support.cluster import BIN, Program, get, wait_for
from tests.support.ports import free_port

pytestmark = pytest.mark.main_path

# Rank 2 fails; rank 3 ignores SIGTERM.
WORKER = """
deaf=$DDPRUN_TEST_CONTROL/deaf.$DDPRUN_ROUND
[ $RANK = 3 ] && trap : TERM && touch $deaf
[ $RANK = 2 ] && until [ -e $deaf ]; do sleep 0.05; done
if [ $RANK = 2 ]; then echo 'Traceback (most recent call last):
  File "/data/train.py", line 8, in step
    raise ValueError("loss is NaN")
ValueError: loss is NaN' >&2; exit 7; fi
while :; do sleep 0.1; done
"""


def start(cluster, name, rank, port, *options):
    return Program(cluster, name,
                   [BIN / "ddprun", "--node-id", name, "--nnodes=2", "--nproc-per-node=2",
                    "--node-rank", rank, f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job7",
                    "--rdzv-conf=stop_grace=3", *options, "--no-python", "/bin/bash", "-c",
                    WORKER])


AFTER = r" after [\d.]+ (?:m?s|s to [\d.]+ s|ms to [\d.]+ m?s)"


def untimed(ends):
    """The parts of an object's `ends` that are the same each time; checks that the times are
    there."""
    assert all(0 <= one["first_after_s"] <= one["last_after_s"] for one in ends), ends
    return [{name: value for name, value in one.items() if not name.endswith("_after_s")}
            for one in ends]


def boxes(text):
    """The boxes without each node's prefix."""
    return re.findall(r": warning: (round \d+ failed .*(?:\n  \| .*)+)", text)


def test_all_nodes_tell_the_same_once(cluster, tmp_path):
    daemon = cluster.daemon()
    nodes = [start(cluster, name, rank, daemon.port, "--max-restarts=1", "--report",
                   tmp_path / f"{name}.json") for rank, name in enumerate("ab")]
    assert [node.wait() for node in nodes] == [7, 7]
    first, second = boxes(nodes[0].err())
    assert boxes(nodes[1].err()) == [first, second]
    assert re.fullmatch(
        r"round 1 failed [\d.]+ m?s after its start; the root cause:\n"
        r"  \| b: rank 2 \(local rank 0\) exited with code 7: ValueError: loss is NaN\n"
        r"  \| process \d+, ended after [\d.]+ m?s\n"
        r"  \| where it failed, the innermost last:\n"
        r'  \|   /data/train.py:8 in step: raise ValueError\("loss is NaN"\)\n'
        rf"  \| rank 3 had to be killed{AFTER}; ranks 0 and 1 were stopped{AFTER}\n"
        r"  \| next: restart 1 of 1", first), first
    assert second.endswith("  | the run ends: the only restart is used")
    assert ", after 1 restart\n" in second

    for node in nodes:
        told = [json.loads(line)
                for line in (tmp_path / f"{node.name}.json").read_text().splitlines()]
        assert [one["round"] for one in told] == [1, 2]
        assert all(one["reported_by"] == node.name and one["run_id"] == "job7" for one in told)
        assert [one["goes_on"] for one in told] == [True, False]
        assert told[1]["exit_code"] == 7 and told[1]["outcome"] == "failed"
        assert told[0]["root_cause"]["error"] == "ValueError: loss is NaN"
        assert told[0]["root_cause"]["frames"] == [
            {"place": "/data/train.py:8 in step", "code": 'raise ValueError("loss is NaN")'}]
        ends = {one["how"]: one for one in told[0]["ends"]}
        assert untimed(told[0]["ends"]) == [
            {"how": "failed", "first_rank": 2, "last_rank": 2, "exit_code": 7},
            {"how": "killed", "first_rank": 3, "last_rank": 3},
            {"how": "stopped", "first_rank": 0, "last_rank": 1}]
        # It ignored SIGTERM until the end of stop_grace.
        assert ends["killed"]["first_after_s"] >= ends["failed"]["first_after_s"] + 3
    seen = json.loads(get(daemon.port, "/api/v1/runs/job7")[1])["reports"]
    assert [one["round"] for one in seen] == [1, 2]
    assert seen[0]["ends"] == told[0]["ends"]
    assert seen[0]["root_cause"]["sentence"] == told[0]["root_cause"]["sentence"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_cause_of_the_end_is_said_once(cluster, form):
    script = "[ $RANK = 1 ] && echo 'loss is NaN' >&2 && exit 7; while :; do sleep 0.1; done"
    job = Program(cluster, "a", [BIN / "ddprun", "--node-id", "a", "--nproc-per-node=2",
                                 f"--log-format={form}", "--no-python", "/bin/sh", "-c", script])
    assert job.wait() == 7
    assert job.err().count("rank 1 (local rank 1) exited with code 7") == 1
    assert "exit code 7: round 1 failed; its root cause is shown above" in job.err()


def test_the_last_line_says_the_cause_where_the_box_is_hidden(cluster):
    job = Program(cluster, "a", [BIN / "ddprun", "--node-id", "a", "--nproc-per-node=2",
                                 "--log-level=error", "--no-python", "/bin/sh", "-c", "exit 7"])
    assert job.wait() == 7
    assert re.fullmatch(r"ddprun a [\d:.]+: error: exit code 7: a: rank \d \(local rank \d\) "
                        r"exited with code 7\n", job.err()), job.err()


def test_a_run_that_goes_well_is_reported_too(cluster, tmp_path):
    # A bare name is a file in the working folder.
    job = Program(cluster, "a", [BIN / "ddprun", "--report", "r", "--nproc-per-node=3",
                                 "--no-python", "/bin/true"], cwd=tmp_path)
    assert job.wait() == 0
    assert "root cause" not in job.err() and "warning" not in job.err()
    report = json.loads((tmp_path / "r").read_text())
    assert report["outcome"] == "succeeded" and report["exit_code"] == 0
    assert untimed(report["ends"]) == [{"how": "succeeded", "first_rank": 0, "last_rank": 2}]


def test_a_rank_that_saves_and_ends_well_when_it_is_asked_to_stop_was_stopped(cluster, tmp_path):
    script = """
        if [ $RANK = 1 ]; then
            while [ ! -e ready ]; do sleep 0.01; done
            exit 7
        fi
        trap 'exit 0' TERM
        touch ready
        while :; do sleep 0.05; done
    """
    job = Program(cluster, "a", [BIN / "ddprun", "--report", "r", "--nproc-per-node=2",
                                 "--no-python", "sh", "-c", script], cwd=tmp_path)
    assert job.wait() == 7
    assert "rank 0 was stopped" in job.err() and "succeeded" not in job.err()
    report = json.loads((tmp_path / "r").read_text())
    assert {"how": "stopped", "first_rank": 0, "last_rank": 0} in untimed(report["ends"])


def test_a_node_that_was_lost_is_told_of(cluster, tmp_path):
    port = cluster.daemon().port
    script = "while :; do sleep 0.1; done"
    nodes = {name: Program(cluster, name,
                           [BIN / "ddprun", "--node-id", name, "--nnodes=1:2", "--nproc-per-node=2",
                            f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-conf=last_call_timeout=60",
                            "--no-python", "/bin/bash", "-c", f"touch {tmp_path}/{name}; {script}"])
             for name in "ab"}
    wait_for("both to work", lambda: all((tmp_path / name).exists() for name in "ab"))
    nodes["b"].kill(9)
    nodes["a"].says("next: going on without it: node loss 1 of 10 within an hour")
    box, = boxes(nodes["a"].err())
    assert re.search(r"\| b was lost", box)
    assert re.search(r"\| ranks (0 and 1|2 and 3) were lost with their nodes; "
                     rf"ranks (0 and 1|2 and 3) were stopped{AFTER}\n", box), box
    nodes["a"].kill(15)
    nodes["a"].wait()


def test_a_report_that_cannot_be_written_is_refused_before_anything_starts(cluster, tmp_path):
    job = Program(cluster, "a", [BIN / "ddprun", "--report", tmp_path / "none" / "r",
                                 "--no-python", "/bin/touch", tmp_path / "started"])
    assert job.wait() == 2
    assert job.err() == (f"ddprun: --report: {tmp_path}/none/r cannot be written: No such file or "
                         "directory; name a file that this user may write\n")
    assert not (tmp_path / "started").exists()


def explain_all(*files, text=None):
    done = subprocess.run([BIN / "ddprun", "explain", *files], input=text, capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def explain(file, text=None):
    return explain_all(file, text=text)


# PyTorch's CUDA errors end a program like this: the message is followed by 9 KB of C++ frames.
CRASHES = """
{ echo "terminate called after throwing an instance of 'c10::AcceleratorError'"
  echo '  what():  CUDA error: an illegal memory access was encountered'
  for frame in $(seq 0 59); do
    echo "frame #$frame: c10d::ProcessGroupNCCL::Watchdog::runLoop() + 0x17b1 (0x7ff47ff07fc1 in" \
         "/opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so)"
  done; } >&2
kill -ABRT $$$$
"""


def test_an_error_above_a_long_stack_is_told_and_the_stack_is_not(cluster):
    job = Program(cluster, "a", [BIN / "ddprun", "--node-id=a", "--no-python", "/bin/bash", "-c",
                                 f"ulimit -c 0; {CRASHES}"])
    assert job.wait() == 134
    box, = boxes(job.err())
    assert "|   what():  CUDA error: an illegal memory access was encountered\n" in box.replace(
        "|     what", "|   what"), box
    assert "| that means: " in box, box
    assert box.count("frame #") == 4, box
    assert "  |   frame #3 to #59: 57 frames are left out\n" in box, box
    # What the worker has written is shown unchanged.
    assert len(re.findall(r"^frame #\d+: c10d", job.err(), re.M)) == 60


def test_a_saved_log_is_explained(cluster, tmp_path):
    port = free_port()
    nodes = [start(cluster, name, rank, port) for rank, name in enumerate("ab")]
    assert [node.wait() for node in nodes] == [7, 7]
    log = tmp_path / "log"
    log.write_text(nodes[0].err() + nodes[1].err())
    code, shown, _ = explain(log)
    box = boxes(nodes[1].err())[0]
    assert (code, shown) == (0, box.replace("\n  | ", "\n  ") + "\n")
    # Without ddprun's own lines it finds the same in those of the workers.
    workers = "".join(line for line in nodes[1].err().splitlines(True) if line.startswith("[b:"))
    code, shown, _ = explain("-", workers)
    assert code == 0
    assert shown.startswith("root cause: rank 2 on b, line 1: ValueError: loss is NaN\n")
    assert explain("-", "epoch 1\n")[0] == 1
    code, _, errors = explain(tmp_path / "none")
    assert (code, errors) == (2, f"ddprun explain: {tmp_path}/none cannot be read: No such file or "
                                 "directory\n")
    assert explain("--help")[1].startswith("usage: ddprun explain FILE... | -\n")
    # The node that failed wrote to one file, the other to another.
    files = [tmp_path / node.name for node in nodes]
    for file, node in zip(files, nodes):
        file.write_text(node.err())
    assert explain_all(*files)[:2] == (0, box.replace("\n  | ", "\n  ") + "\n")
    code, shown, errors = explain_all()
    assert (code, shown) == (2, "") and errors.startswith("usage: ddprun explain FILE... | -\n")
