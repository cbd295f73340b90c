"""examples/01_snapshot_resume with faults: it resumes from the newest snapshot, and ends with
exactly the weights of a run without faults."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.support.cluster import BIN, ROOT, Cluster, Program, wait_for
from tests.support.held_rank import HeldRank
from tests.support.needs import needs

DIGITS = Path(os.environ.get("DDPRUN_DIGITS", ROOT / ".cache" / "digits.csv"))
PROGRAM = BIN / "snapshot_resume"
SCRIPT = ROOT / "examples" / "01_snapshot_resume" / "train.py"
EPOCHS, INTERVAL, KILL_AFTER = 24, 3, 7
LIMIT = 240

pytestmark = pytest.mark.skipif(not DIGITS.exists(), reason=f"no {DIGITS}: ./tests/setup makes it")


def job(kind, folder, epochs=EPOCHS):
    arguments = [epochs, INTERVAL, "--snapshot-dir", folder]
    if kind == "python":
        needs("torch", "PyTorch is not installed here")
        return [SCRIPT, *arguments]
    if not PROGRAM.exists():
        pytest.skip("snapshot_resume is not built: no LibTorch")
    return ["--no-python", PROGRAM, *arguments]


def start(cluster, daemon, command, run, nodes=("a", "b")):
    return [
        cluster.agent(f"{run}-{node}", "--max-restarts", 2, nnodes=len(nodes), workers=2, run=run,
                      endpoint=f"127.0.0.1:{daemon.port}", command=command,
                      environment={"PYTHON_EXEC": sys.executable, "DDPRUN_DIGITS": str(DIGITS)})
        for node in nodes
    ]


def output(agents):
    return "".join(agent.out() for agent in agents)


def finish(agents):
    codes = [agent.wait(LIMIT) for agent in agents]
    text = output(agents)
    errors = "".join(agent.err() for agent in agents)
    assert codes == [0] * len(agents), text + errors
    result = re.search(r"model checksum (\w+)", text), re.search(r"accuracy ([\d.]+)", text)
    assert all(result), text
    return result[0][1], result[1][1]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The result of a run without faults, and the folder with its snapshots; made once for each
    kind and number of nodes."""
    made = {}

    def run(kind, nodes=("a",)):
        if (kind, *nodes) not in made:
            folder = tmp_path_factory.mktemp("plain")
            (folder / "cluster").mkdir()
            cluster = Cluster(folder / "cluster")
            try:
                found = finish(start(cluster, cluster.daemon(), job(kind, folder / "snapshots"),
                                     "plain", nodes))
            finally:
                cluster.close()
            made[kind, *nodes] = found, folder / "snapshots"
        return made[kind, *nodes]

    return run


def held_job(held, kind, folder):
    """The same job, in which one rank goes no further than the test lets it."""
    command = job(kind, folder)
    words = [sys.executable, *command] if kind == "python" else command[1:]
    return held.command(*words)


def kill_in_epoch(held):
    """Kills it in the epoch after KILL_AFTER, or soon after that. It is held there, so that some
    epochs are left when it is killed. A snapshot that is being written is lost with it."""
    held.run_until(KILL_AFTER, LIMIT)
    os.kill(held.pid(), signal.SIGKILL)


def stands_still(pid):
    """Whether all its threads have stopped: one that has not stopped yet would take a signal that
    comes in the meantime."""
    states = [path.read_text().rsplit(")", 1)[1].split()[0]
              for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def has_been_sent(pid, number):
    """Whether the signal is pending for this process, which stands still."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^ShdPnd:\s+(\w+)", status, re.M)[1], 16) >> (number - 1) & 1


@pytest.mark.parametrize("kind, nodes", [
    ("program", ["a", "b"]), pytest.param("python", ["a"], marks=pytest.mark.slow)])
def test_a_killed_worker_resumes_and_changes_nothing(cluster, tmp_path, plain, kind, nodes):
    expected, _ = plain(kind, nodes)
    daemon = cluster.daemon()
    with HeldRank(cluster, 2 * len(nodes) - 1) as held:
        command = held_job(held, kind, tmp_path / "killed")
        agents = start(cluster, daemon, command, "killed", nodes)
        kill_in_epoch(held)
    assert finish(agents) == expected

    resumed = re.search(r"resuming from snapshot \S+ at epoch (\d+)", output(agents))
    assert resumed, output(agents)
    first = int(resumed[1])
    if kind == "program":  # the ranks that are left save the steps that they have finished
        assert KILL_AFTER <= first <= EPOCHS
    else:
        assert first % INTERVAL == 1 and KILL_AFTER - 2 * INTERVAL < first <= EPOCHS
    cluster.nothing_left(but=[daemon])


def test_metrics_are_kept_over_a_restart_and_drawn(cluster, tmp_path):
    daemon = cluster.daemon()
    metrics = tmp_path / "metrics.jsonl"
    with HeldRank(cluster, 1) as held:
        command = [*held_job(held, "program", tmp_path / "snapshots"), "--metrics", metrics]
        agents = start(cluster, daemon, command, "killed", ["a"])
        kill_in_epoch(held)
    finish(agents)

    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    starts = [row for row in rows if row.get("event") == "start"]
    assert [row["restart"] for row in starts] == [0, 1]
    assert 12 * KILL_AFTER <= starts[1]["step"] < 12 * EPOCHS
    last = rows[-1]
    assert (last["epoch"], last["step"]) == (EPOCHS, 12 * EPOCHS)
    assert 0 < last["loss"] < 2 and 0.5 < last["accuracy"] <= 1 and last["samples_per_second"] > 0
    assert f"epoch {EPOCHS} | " in agents[0].err()  # the same line for people
    pytest.importorskip("matplotlib", reason="./tests/setup installs it")
    picture = tmp_path / "metrics.png"
    done = subprocess.run([sys.executable, ROOT / "examples" / "plot_metrics.py", metrics, picture],
                          check=True, text=True, capture_output=True)
    assert done.stdout == f"{EPOCHS} points, 1 restart: {picture}\n"
    assert picture.read_bytes().startswith(b"\x89PNG")


# That the script saves in the middle, and that nothing of it is lost, is in
# test_torch_snapshot_ranks.
@pytest.mark.parametrize("kind", ["program", pytest.param("python", marks=pytest.mark.slow)])
def test_sigterm_saves_the_epoch_that_is_under_way(cluster, tmp_path, plain, kind):
    expected, _ = plain(kind)
    daemon = cluster.daemon()
    with HeldRank(cluster, 1) as held:
        command = held_job(held, kind, tmp_path / "stopped")
        stopped, = start(cluster, daemon, command, "stopped", ["a"])
        held.run_until(4, LIMIT)
        # It is seen that the signal is pending while it stands still; then it may go on.
        pid = held.pid()
        os.kill(pid, signal.SIGSTOP)
        wait_for("the worker to stand still", lambda: stands_still(pid))
        stopped.kill(signal.SIGTERM)
        wait_for("the worker to be sent SIGTERM", lambda: has_been_sent(pid, signal.SIGTERM))
        os.kill(pid, signal.SIGCONT)
        held.run_on(stopped, LIMIT)
    assert stopped.wait(LIMIT) == 128 + signal.SIGTERM
    assert "snapshot saved at" in stopped.out()
    done = max(int(epoch) for epoch in re.findall(r"\[rank 0\] epoch (\d+) \|", stopped.out()))

    again = start(cluster, daemon, job(kind, tmp_path / "stopped"), "again", ["a"])
    assert finish(again) == expected
    assert f"at epoch {done + 1}" in output(again)  # no epoch is done twice
    cluster.nothing_left(but=[daemon])


def damage_newest(folder):
    newest = sorted(folder.glob("snapshot-*"))[-1]
    file = newest if newest.is_file() else newest / "rank-00001.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    return newest


@pytest.mark.parametrize("kind", ["program", "python"])
def test_a_damaged_snapshot_is_skipped(cluster, tmp_path, plain, kind):
    expected, undamaged = plain(kind)
    daemon = cluster.daemon()
    folder = tmp_path / "snapshots"
    shutil.copytree(undamaged, folder)
    newest = damage_newest(folder)
    again = start(cluster, daemon, job(kind, folder), "again", ["a"])
    assert finish(again) == expected
    text = output(again) + again[0].err()
    assert f"{newest} skipped: " in text
    assert f"at epoch {EPOCHS - INTERVAL + 1}" in text


def test_a_full_disk_is_named_and_costs_no_earlier_snapshot(cluster, tmp_path):
    daemon = cluster.daemon()
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", small]).returncode != 0:
        pytest.skip("needs the right to mount a file system")
    try:
        command = job("program", small / "s")
        command[command.index(INTERVAL)] = 1
        agent = cluster.agent("a", workers=2, endpoint=f"127.0.0.1:{daemon.port}", command=command,
                              environment={"DDPRUN_DIGITS": str(DIGITS)})
        assert agent.wait(LIMIT) == 1
        kept = sorted(path.name for path in (small / "s").glob("snapshot-*"))
        assert kept == ["snapshot-000001-000012", "snapshot-000001-000024"]
        # This is printed at once, and training goes on, except for the last snapshot, for which the
        # run was made.
        said = agent.out() + agent.err()
        assert re.search(r"cannot save snapshot \S+/snapshot-000001-000036: rank [01]: cannot "
                         r"write rank-0000[01].safetensors \(\d+ bytes\): No space left", said)
        assert f"[rank 0] epoch {EPOCHS} |" in said
        assert re.search(r"exited with code 1[\s\S]*exit code 1: ", said)
    finally:
        subprocess.run(["umount", small], check=True)


# Root may write everywhere except here.
BOUND_BY_MODES = ["setpriv", "--bounding-set=-dac_override"]


@pytest.mark.parametrize("is_there_first", [True, False])
def test_a_folder_that_may_not_be_written_is_named(cluster, tmp_path, is_there_first):
    folder = tmp_path / "s"
    folder.mkdir()
    probe = f"chmod 555 {folder} && ! touch {folder}/probe 2>/dev/null && chmod 755 {folder}"
    if subprocess.run([*BOUND_BY_MODES, "sh", "-c", probe]).returncode != 0:
        pytest.skip("needs setpriv, and the right to drop capabilities")
    if is_there_first:
        folder.chmod(0o555)
    with HeldRank(cluster, 1) as held:
        command = held_job(held, "program", folder)
        agent = Program(cluster, "a", cluster.agent_line("a", workers=2, command=command),
                        prefix=BOUND_BY_MODES, environment={"DDPRUN_DIGITS": str(DIGITS)})
        if not is_there_first:
            # By then rank 0 has reported the first snapshot, or is about to.
            held.run_until(KILL_AFTER, LIMIT)
            agent.says("snapshot saved at", LIMIT)
            folder.chmod(0o555)
        held.run_on(agent, LIMIT)
    assert agent.wait(LIMIT) == 1
    said = agent.out() + agent.err()
    if is_there_first:
        # Each rank says why it ends, and no epoch is begun.
        assert f"snapshot_resume: cannot write in the snapshot folder {folder}: Permission " \
               "denied" in said
        assert "epoch 1 |" not in said
    else:
        assert re.search(rf"cannot save snapshot {folder}/snapshot-000001-\d+: rank [01]: cannot "
                         "make the folder: Permission denied", said), said
        assert f"[rank 0] epoch {EPOCHS} |" in said
        assert list(folder.glob("snapshot-*/manifest.json"))


@pytest.mark.slow
def test_snapshots_are_carried_between_the_two_programs(cluster, tmp_path):
    needs("torch", "PyTorch is not installed here")
    daemon = cluster.daemon()
    first, back = tmp_path / "first", tmp_path / "back"

    def carry(*arguments):
        script = ROOT / "examples" / "01_snapshot_resume" / "snapshot_files.py"
        return subprocess.run([sys.executable, script, *arguments], check=True, text=True,
                              capture_output=True).stdout

    finish(start(cluster, daemon, job("program", first, INTERVAL), "first", ["a"]))
    snapshot, = first.glob("snapshot-*")
    shown = carry("show", snapshot)
    assert "model.digit.weight F32 [10, 512]" in shown
    assert "rank-00001.safetensors:\n  rank.generator.cpu U8 [5056]" in shown
    carry("to-torch", snapshot, tmp_path / "snapshot.pt")
    carry("from-torch", tmp_path / "snapshot.pt", back / snapshot.name)

    # The result is bit by bit the same as without the detour.
    expected = finish(start(cluster, daemon, job("program", first), "on", ["a"]))
    assert finish(start(cluster, daemon, job("program", back), "back", ["a"])) == expected

    # The script resumes from it, too.
    python = tmp_path / "python"
    python.mkdir()
    data = (tmp_path / "snapshot.pt").read_bytes()
    (python / f"{snapshot.name}-{zlib.crc32(data):08x}.pt").write_bytes(data)
    carried = start(cluster, daemon, job("python", python), "python", ["a"])
    assert float(finish(carried)[1]) == pytest.approx(float(expected[1]), abs=0.02)
    assert f"at epoch {INTERVAL + 1}" in output(carried)
