"""The batch scripts of examples/slurm under a real Slurm, with fewer steps to train."""

import os
import re
import shutil

import pytest

from tests.support.cluster import BIN, ROOT, wait_for
from tests.support.needs import needs
from tests.support.slurm import Slurm

# It runs for ever at the first start, and ends soon at the next, so nothing depends on its speed.
UNTIL_REQUEUED = ("--folder", "--steps $((${SLURM_RESTART_COUNT:-0} ? 25 : 100000)) --folder")
EXAMPLES = ROOT / "examples" / "slurm"
needs("torch", "no PyTorch in this Python")
pytestmark = pytest.mark.trains


@pytest.fixture
def make_slurm(cluster, make_hosts):
    made = []

    def make(*names, **options):
        shutil.copy(EXAMPLES / "train.py", cluster.folder)
        made.append(Slurm(cluster, make_hosts, names, **options))
        path = f"{BIN}:{ROOT}/.venv/bin:{made[-1].environment['PATH']}"
        made[-1].environment.update(PATH=path, OMP_NUM_THREADS="1")
        return made[-1]

    yield make
    for slurm in made:
        slurm.close()


def submit(slurm, name, *options, change=()):
    """`change`: pairs of a text in the script and its replacement."""
    text = (EXAMPLES / name).read_text()
    for before, after in change:
        assert before in text, before
        text = text.replace(before, after)
    script = slurm.cluster.folder / name
    script.write_text(text)
    return slurm.start("head", "sbatch", "--wait", *options, script, name=name)


def output(cluster, name):
    return "".join(file.read_text() for file in sorted(cluster.folder.glob(f"{name}-*.out")))


def test_the_least_that_is_needed(cluster, make_slurm):
    slurm = make_slurm("n1", "n2")
    job = submit(slurm, "train.sbatch", change=[("--folder", "--steps 3 --folder")])
    assert job.wait() == 0, output(cluster, "train.sbatch")
    assert (cluster.folder / "out" / "finished").exists()


@pytest.mark.slow
def test_a_snapshot_before_the_time_limit(cluster, make_slurm):
    slurm = make_slurm("n1", "n2")
    # Slurm checks limits only now and then, so a short one could come at any time. Therefore the
    # test sends the signal itself, to the steps, as Slurm does.
    job = submit(slurm, "time_limit.sbatch", change=[UNTIL_REQUEUED])
    said = lambda: output(cluster, "time_limit.sbatch")  # noqa: E731
    wait_for("a snapshot", (cluster.folder / "out" / "snapshot.pt").exists)
    slurm.ask("scancel", "--signal=USR1", "1")
    assert job.wait() == 0, said()
    step = re.search(r"saved step (\d+): the time is nearly over", said())[1]
    assert re.findall(r"2 ranks begin at step (\d+)", said()) == ["0", step]
    assert (cluster.folder / "out" / "finished").exists()


@pytest.mark.slow
def test_a_lost_node_costs_elastic_jobs_a_round(cluster, make_slurm):
    slurm = make_slurm("n1", "n2", "n3")
    job = submit(slurm, "elastic.sbatch", "--nodes=3",
                 change=[("--nnodes 2:4", "--nnodes 2:3"),
                         ("--folder", "--steps 100000 --folder")])
    wait_for("a snapshot", (cluster.folder / "out" / "snapshot.pt").exists)
    slurm.lose("n3")
    slurm.tell_of_loss("n3")

    def begun():
        said = output(cluster, "elastic.sbatch")
        found = re.findall(r"(\d) ranks begin at step (\d+)", said)
        return len(found) == 2 and found

    first, second = wait_for("a round of the two that are left", begun)
    assert (first[0], second[0]) == ("3", "2") and int(second[1]) >= 20
    slurm.ask("scancel", "1")
    job.wait()
    wait_for("nothing of the job to be left", lambda: not slurm.tasks())


@pytest.mark.slow
def test_a_lost_node_requeues_the_job(cluster, make_slurm):
    slurm = make_slurm("n1", "n2", "n3")
    job = submit(slurm, "requeue.sbatch", change=[UNTIL_REQUEUED])
    wait_for("a snapshot", (cluster.folder / "out" / "snapshot.pt").exists)
    slurm.lose("n2")
    slurm.tell_of_loss("n2")
    assert job.wait() == 0, output(cluster, "requeue.sbatch")
    said = output(cluster, "requeue.sbatch")
    begun = re.findall(r"2 ranks begin at step (\d+)", said)
    assert len(begun) == 2 and int(begun[1]) >= 20, said
    assert "slurm-1.0-requeue-1" in said


def test_each_task_of_the_array_has_its_own_snapshot(cluster, make_slurm):
    slurm = make_slurm("n1", "n2")
    job = submit(slurm, "array.sbatch", "--array=0-1",
                 change=[("--folder", "--steps 3 --folder")])
    assert job.wait() == 0, output(cluster, "array.sbatch")
    finished = {file.parent.name for file in cluster.folder.glob("out-*/finished")}
    assert finished == {"out-0.001", "out-0.003"}, os.listdir(cluster.folder)
