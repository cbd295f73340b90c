"""What is kept of every round that fails, even if no rank stands still: how its workers ended and
their last output, what the kernel's log says, and the memory counters."""

import json
import sys
from pathlib import Path

import pytest

from tests.support import cgroups, machines
from tests.support.cluster import BIN, Program, wait_for

WORKER = """
import os
import sys
import time
from pathlib import Path

rank = int(os.environ["RANK"])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
folder = Path(os.environ["DDPRUN_TEST_CONTROL"])


def say_in_kernel_log(text):
    with open(folder / "kmsg", "a") as log:
        log.write(f"4,1234,5678,-;{text}\\n SUBSYSTEM=pci\\n")


def wait_for(name):
    while not (folder / name).exists():
        time.sleep(0.02)


"""
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid={process}, name=python, GPU has fallen off the bus."
CUDA_ERROR = "RuntimeError: CUDA error: unspecified launch failure"


def write(tmp_path, work):
    script = tmp_path / "train.py"
    script.write_text(WORKER + work)
    return script


def start(cluster, script, *options, name="node", workers=2, prefix=(), **more):
    line = cluster.agent_line(name, "--max-restarts", 1, "--max-quick-failures", 0, *options,
                              workers=workers, command=[script], **more)
    return Program(cluster, name, line, prefix=prefix, environment={"PYTHON_EXEC": sys.executable})


@pytest.mark.main_path
def test_how_workers_ended_and_what_they_said_is_kept(cluster, tmp_path):
    """Rank 1 goes on working, so it is not asked anything."""
    script = write(tmp_path, """
if rank == 1 and attempt == 0:
    print("rank 1 works", flush=True)
    (folder / "works").touch()
    while True: pass
if attempt == 0:
    wait_for("works")
    print("step 7", flush=True)
    raise ValueError("loss is NaN")
""")
    report = tmp_path / "report"
    agent = start(cluster, script, "--log-dir", tmp_path / "logs", "--tee", 3, "--report", report)
    assert agent.wait() == 0, agent.err()
    (folder,) = (tmp_path / "logs").glob("*/attempt_*/evidence")
    assert folder.parent.name == "attempt_0"
    failed = (folder / "rank_0.txt").read_text()
    assert "it ended: exit code 1\n" in failed
    assert "== the end of its standard output\nstep 7\n" in failed
    assert "ValueError: loss is NaN\n" in failed.partition("its standard error\n")[2]
    other = (folder / "rank_1.txt").read_text()
    assert "it had not ended when the round was stopped\n" in other
    assert "== the end of its standard output\nrank 1 works\n" in other
    assert (folder / "node.txt").exists()
    failure, end = (json.loads(line) for line in report.read_text().splitlines())
    assert failure["evidence"] == str(folder) and "evidence" not in end
    assert "stood" not in failure and "before the end" not in agent.err()
    cluster.nothing_left()


def test_it_is_kept_where_the_only_worker_of_a_node_fails(cluster, tmp_path):
    script = write(tmp_path, "if attempt == 0: os.kill(os.getpid(), 9)\n")
    report = tmp_path / "report"
    agent = start(cluster, script, "--report", report, workers=1)
    assert agent.wait() == 0, agent.err()
    (folder,) = tmp_path.glob("report.round_1.node-????????.evidence")
    assert "it ended: killed by SIGKILL\n" in (folder / "rank_0.txt").read_text()
    assert json.loads(report.read_text().splitlines()[0])["evidence"] == str(folder)
    cluster.nothing_left()


def test_a_job_that_is_started_again_keeps_its_evidence_beside_that_of_before(cluster, tmp_path):
    """A batch system starts it again, with the same names and the same file."""
    script = write(tmp_path, "if attempt == 0: sys.exit(3)\n")
    report = tmp_path / "report"
    for _ in range(2):
        agent = start(cluster, script, "--report", report, workers=1)
        assert agent.wait() == 0, agent.err()
    folders = [failure["evidence"] for failure in map(json.loads, report.read_text().splitlines())
               if "evidence" in failure]
    assert len(set(folders)) == 2 and all(Path(folder, "rank_0.txt").exists() for folder in folders)
    assert "cannot save" not in agent.err()
    cluster.nothing_left()


def test_it_is_kept_where_a_worker_of_another_node_has_failed(cluster, tmp_path):
    script = write(tmp_path, """
if attempt == 0 and rank == 0:
    print("rank 0 works", flush=True)
    (folder / "works").touch()
    while True: pass
if attempt == 0:
    wait_for("works")
    sys.exit(3)
""")
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    agents = [start(cluster, script, "--log-dir", tmp_path / name, "--tee", 3, name=name,
                    workers=1, nnodes="2", endpoint=endpoint) for name in ("a", "b")]
    for agent in agents:
        assert agent.wait() == 0, agent.err()
    texts = [file.read_text() for file in tmp_path.glob("*/*/attempt_0/evidence/rank_*.txt")]
    assert len(texts) == 2
    assert sum("it ended: exit code 3\n" in text for text in texts) == 1
    (other,) = [text for text in texts if "it had not ended" in text]
    assert "rank 0 works\n" in other
    cluster.nothing_left(but=[daemon])


def test_nothing_is_kept_of_a_round_that_was_asked_to_end(cluster, tmp_path):
    script = write(tmp_path, '(folder / "begun").touch()\nwait_for("never")\n')
    agent = start(cluster, script, "--log-dir", tmp_path / "logs", "--tee", 3, workers=1)
    wait_for("the worker", (cluster.folder / "begun").exists)
    agent.kill(15)
    assert agent.wait() == 143, agent.err()
    assert list((tmp_path / "logs").glob("*/attempt_0"))
    assert not list((tmp_path / "logs").glob("*/attempt_0/evidence"))
    cluster.nothing_left()


def test_nothing_is_kept_with_evidence_off(cluster, tmp_path):
    script = write(tmp_path, "if attempt == 0: sys.exit(3)\n")
    agent = start(cluster, script, "--log-dir", tmp_path / "logs", "--tee", 3, "--evidence", 0)
    assert agent.wait() == 0, agent.err()
    assert not list((tmp_path / "logs").glob("*/attempt_0/evidence"))


# The process that the kernel names, the text of the failure, and whether the former explains the
# latter.
@pytest.mark.parametrize("process, error, explains", [
    ("'<unknown>'", CUDA_ERROR, True),
    ("'<unknown>'", "ValueError: loss is NaN", False),
    ("{os.getpid()}", "ValueError: loss is NaN", True),
    ("1", CUDA_ERROR, False),
], ids=["unknown", "no word of CUDA", "its own", "another's"])
def test_a_fault_of_the_gpu_is_named(cluster, tmp_path, process, error, explains):
    """A worker writes to the kernel's log what a GPU's driver would write."""
    log = cluster.folder / "kmsg"
    log.write_text("4,1,1,-;NVRM: Xid (PCI:0000:01:00): 48, pid=1, name=a, before the round\n")
    kind, _, text = error.partition(": ")
    script = write(tmp_path, f"""
if attempt == 0:
    say_in_kernel_log(f"{XID.format(process=process)}")
    raise {kind}("{text}")
""")
    agent = start(cluster, script, "--log-dir", tmp_path / "logs", "--tee", 3, workers=1,
                  prefix=machines.with_kernel_log(log))
    assert agent.wait() == 0, agent.err()
    sentence = f"exited with code 1: {error}"
    words = "; the kernel's log: Xid 79 on the GPU at PCI 0000:3b:00"
    assert f"{sentence}{words if explains else ''}\n" in agent.err()
    (node,) = (tmp_path / "logs").glob("*/attempt_*/evidence/node.txt")
    told = node.read_text().partition("== the kernel's log since the round began\n")[2]
    assert "NVRM: Xid (PCI:0000:3b:00): 79" in told and "before the round" not in told
    cluster.nothing_left()


def test_counts_of_memory_cgroups_are_kept(cluster, tmp_path):
    script = write(tmp_path, "if attempt == 0: sys.exit(3)\n")
    with cgroups.of_memory(200_000_000) as group:
        join = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]
        agent = start(cluster, script, "--log-dir", tmp_path / "logs", "--tee", 3, workers=1,
                      prefix=join)
        assert agent.wait() == 0, agent.err()
        (node,) = (tmp_path / "logs").glob("*/attempt_0/evidence/node.txt")
        memory = node.read_text().partition("== memory\n")[2]
        assert memory.startswith(f"{group}/memory.")
        assert "\noom_kill 0\n" in memory
        cluster.nothing_left()
