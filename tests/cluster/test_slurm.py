"""`srun ddprun` under a real Slurm: several slurmd on this machine, each on a (simulated) host of
its own."""

import re
import signal
import subprocess

import pytest

from tests.support.cluster import BIN, LOST_SOON, WORKER, variables_of, wait_for
from tests.support.patient_guardian import PatientGuardian
from tests.support.slurm import Slurm

DDPRUN = BIN / "ddprun"
PLAIN = ("--no-python", WORKER)


@pytest.fixture
def make_slurm(cluster, make_hosts):
    made = []

    def make(*names, **options):
        made.append(Slurm(cluster, make_hosts, names, **options))
        return made[-1]

    yield make
    for slurm in made:
        slurm.close()


def nodes_of(workers):
    """The host of each rank. Without --node-id a suffix follows the host's name."""
    return [worker.node.rsplit("-", 1)[0] for worker in workers]


@pytest.mark.main_path
def test_srun_needs_no_other_flag(cluster, make_slurm):
    slurm = make_slurm("n1", "n2", "n10", gpus=2)
    job = slurm.srun("-N3", "--ntasks-per-node=1", "--gpus-per-node=2", "--cpus-per-task=2", DDPRUN,
                     *PLAIN)
    workers = cluster.started(1, 6)
    assert nodes_of(workers) == ["n1", "n1", "n2", "n2", "n10", "n10"]
    cluster.finish(6)
    assert job.wait() == 0
    assert "warning" not in job.err(), job.err()


LISTS = ["n1", "n[1-3]", "n[001-003,007],gpu5", "n[99-101]", "n[5,05,005]", "n[0001]", "n[01-2]",
         "n10,n2", "a,b,a", "a,,b", "a b", "a[1,1]", "[1-3]", "n[1-010]", "n[1-2][3-4]",
         "n[1-3]-[5-6]", "n[1-3,5],n[7]", "node[9-11]", ""]


def test_lists_of_nodes_are_what_scontrol_makes_of_them(cluster, make_slurm):
    slurm = make_slurm("n1")
    theirs = [slurm.ask("scontrol", "show", "hostnames", text).split() for text in LISTS]
    ours = subprocess.run([BIN / "slurm_names", *LISTS], capture_output=True, text=True, check=True)
    assert [line.split() for line in ours.stdout.splitlines()] == theirs


def test_ranks_follow_the_node_numbers_in_any_order_of_arrival(cluster, make_slurm):
    slurm = make_slurm("n1", "n2", "n10")
    last = cluster.folder / "n10-is-here"
    wait = f'[ $SLURMD_NODENAME != n2 ] || until [ -e {last} ]; do sleep 0.05; done; exec "$@"'
    job = slurm.srun("-N3", "--ntasks-per-node=1", "sh", "-c", wait, "sh", DDPRUN, *PLAIN)
    job.says(r"here:.*\bn10-")
    last.touch()
    assert nodes_of(cluster.started(1, 3)) == ["n1", "n2", "n10"]
    cluster.finish(3)
    assert job.wait() == 0


def test_ports_of_others_are_passed_over(cluster, make_slurm):
    slurm = make_slurm("n1", "n2", "n3")
    # The first job's ports are 61441, 62806, 64171 and so on. A stranger that never answers has
    # one, a daemon another.
    slurm.services.append(slurm.start("n1", "nc", "-lk", "61441", name="stranger"))
    slurm.services.append(slurm.start("n1", BIN / "ddprun-rendezvous", "--bind", "0.0.0.0",
                                      "--port", "62806", "--state-dir", "none", name="daemon"))
    for port in ("61441", "62806"):
        wait_for(port, lambda port=port: any(f":{port}" in s for s in slurm.hosts["n1"].sockets()))
    job = slurm.srun("-N3", "--ntasks-per-node=1", DDPRUN, *PLAIN)
    cluster.started(1, 3)
    job.says("run slurm-1.0 at n1:64171")
    cluster.finish(3)
    assert job.wait() == 0
    assert "n1:61441" not in job.err() and "n1:62806" not in job.err()


def test_two_steps_side_by_side_do_not_meet(cluster, make_slurm):
    slurm = make_slurm("n1", "n2")
    say = 'echo "$DDPRUN_RUN_ID rank $RANK of $WORLD_SIZE"'
    step = f"srun -N2 -n2 -c1 --exact --overlap {DDPRUN} --no-python sh -c '{say}'"
    job = slurm.start("head", "salloc", "-N2", "--exclusive", "sh", "-c", f"{step} & {step} & wait")
    assert job.wait() == 0
    lines = sorted(line.split("] ")[-1] for line in job.out().splitlines() if "rank" in line)
    assert lines == [f"slurm-1.{step} rank {rank} of 2" for step in (0, 1) for rank in (0, 1)]


def test_several_tasks_a_node_are_refused_with_the_line_that_works(cluster, make_slurm):
    slurm = make_slurm("n1", "n2", cpus=4)
    job = slurm.srun("-N2", "-n4", "--ntasks-per-node=2", DDPRUN, *PLAIN)
    assert job.wait() == 2
    said = re.findall(r"^ddprun: .*", job.err(), re.M)
    assert len(said) == 2 and len(set(said)) == 1, job.err()  # one for each node
    line = re.search(r"2 tasks on a node.*write srun (.*) ddprun \.\.\.", said[0])[1]
    again = slurm.srun(*line.split(), DDPRUN, *PLAIN)
    assert nodes_of(cluster.started(1, 2)) == ["n1", "n2"]
    cluster.finish(2)
    assert again.wait() == 0
    assert not slurm.tasks()


def test_several_tasks_are_refused_aloud_where_task_0_is_another_program(cluster, make_slurm):
    slurm = make_slurm("n1", cpus=4)
    script = cluster.folder / "tasks"
    script.write_text(f'#!/bin/sh\n[ $SLURM_PROCID = 0 ] || exec {DDPRUN} "$@"\n')
    script.chmod(0o755)
    job = slurm.srun("-N1", "--ntasks-per-node=3", script, *PLAIN)
    assert job.wait() == 2
    assert len(re.findall(r"^ddprun: .*3 tasks on a node", job.err(), re.M)) == 1, job.err()


def test_nodes_whose_names_do_not_resolve_meet_by_slurms_addresses(cluster, make_slurm):
    slurm = make_slurm("n1", "n2")
    bare = cluster.folder / "bare-hosts"
    bare.write_text("127.0.0.1 localhost\n")
    job = slurm.srun("-N2", "--ntasks-per-node=1", "sh", "-c",
                     f'mount --bind {bare} /etc/hosts && exec "$@"', "sh", DDPRUN, *PLAIN)
    workers = cluster.started(1, 2)
    assert workers[0].master.split(":")[0] == slurm.hosts["n1"].address
    cluster.finish(2)
    assert job.wait() == 0, job.err()


def test_a_shell_with_a_terminal_is_one_persons(cluster, make_slurm):
    """An srun that is called in that shell is not."""
    slurm = make_slurm("n1", cpus=4)
    show = f"{DDPRUN} --nproc-per-node=2 --no-python sh -c 'echo world $WORLD_SIZE'"
    script = cluster.folder / "shell.sh"
    script.write_text(f"#!/bin/sh\n{show}\nsrun --overlap -n2 {show}\necho second $?\n")
    script.chmod(0o755)
    job = slurm.start("head", "script", "-qec", f"srun -N1 --ntasks-per-node=2 --pty {script}",
                      "/dev/null", name="srun")
    assert job.wait() == 0, job.out()
    assert job.out().count("world 2") == 2, job.out()
    assert "second 2" in job.out() and "2 tasks on a node" in job.out(), job.out()


def batch(slurm, text, *options):
    """Submits a batch script, waits for its end, and returns everything that it has written."""
    script = slurm.cluster.folder / f"batch-{len(slurm.cluster.programs)}.sh"
    script.write_text(f"#!/bin/bash\n{text}\n")
    job = slurm.start("head", "sbatch", "--wait", f"--output={script}.%j.out", *options, script)
    code = job.wait()
    return code, [file.read_text() for file in sorted(script.parent.glob(f"{script.name}.*.out"))]


def test_a_batch_script_without_srun_says_what_to_write(cluster, make_slurm):
    slurm = make_slurm("n1", "n2")
    code, said = batch(slurm, f"{DDPRUN} --no-python true", "-N2")
    assert code == 2
    assert "this is the batch script of Slurm job 1, which has 2 nodes" in said[0]
    assert "srun ddprun" in said[0]
    code, said = batch(slurm, f"srun {DDPRUN} --no-python sh -c 'echo rank $RANK of $WORLD_SIZE'",
                       "-N2", "--ntasks-per-node=1")
    assert code == 0, said
    # A script that is submitted from inside a step has that step's variables.
    script = cluster.folder / "inner.sh"
    script.write_text(f"#!/bin/bash\n{DDPRUN} --no-python true\n")
    outer = slurm.srun("-N1", "sbatch", "--wait", "-N2", f"--output={script}.out", script)
    assert outer.wait() == 2
    said = script.with_name("inner.sh.out").read_text()
    assert "this is the batch script of Slurm job 4, which has 2 nodes" in said


def test_one_node_needs_no_srun(cluster, make_slurm):
    slurm = make_slurm("n1", gpus=2)
    show = "sh -c 'echo $DDPRUN_RUN_ID $WORLD_SIZE'"
    code, said = batch(slurm, f"{DDPRUN} --no-python {show}", "-N1", "--gpus-per-node=2", "-c2")
    assert code == 0, said
    assert said[0].count("slurm-1 2") == 2, said


def test_each_task_of_an_array_is_a_run_of_its_own(cluster, make_slurm):
    slurm = make_slurm("n1", "n2")
    show = "sh -c 'echo $SLURM_ARRAY_TASK_ID $DDPRUN_RUN_ID $RANK/$WORLD_SIZE'"
    code, said = batch(slurm, f"srun {DDPRUN} --no-python {show}", "-N2", "--ntasks-per-node=1",
                       "--array=3-4")
    assert code == 0, said
    found = sorted(line.split("] ")[-1] for text in said for line in text.splitlines()
                   if re.search(r"slurm-\d+\.0 \d/2$", line))
    assert [line.split()[0] for line in found] == ["3", "3", "4", "4"], said
    assert len({line.split()[1] for line in found}) == 2


def test_all_components_of_a_heterogeneous_job_are_one_run(cluster, make_slurm):
    slurm = make_slurm("n1", "n2", "n10", cpus=4)
    job = slurm.start("head", "salloc", "-N1", "-c2", ":", "-N2", "--ntasks-per-node=1", "srun",
                      "--het-group=0,1", DDPRUN, *PLAIN)
    assert nodes_of(cluster.started(1, 3)) == ["n1", "n2", "n10"]
    cluster.finish(3)
    assert job.wait() == 0


def test_a_requeued_job_is_a_new_run(cluster, make_slurm):
    slurm = make_slurm("n1", "n2")
    script = cluster.folder / "requeue.sh"
    script.write_text(f"#!/bin/bash\necho start $SLURM_RESTART_COUNT\nsrun {DDPRUN} --no-python "
                      f"sh -c 'echo $DDPRUN_RUN_ID; exec {WORKER}'\n")
    job = slurm.start("head", "sbatch", "--wait", "-N2", "--ntasks-per-node=1", "--requeue",
                      "--open-mode=append", f"--output={script}.out", script)
    cluster.started(1, 2)
    before = {int(event.pid) for event in cluster.events("start")}
    slurm.ask("scontrol", "requeue", "1")
    wait_for("the first start's workers to be gone", lambda: not before & set(cluster.marked()))
    wait_for("workers of the second start", lambda: len(cluster.events("start")) == 4)
    cluster.finish(2)
    assert job.wait() == 0
    said = script.with_name("requeue.sh.out").read_text()
    assert "slurm-1.0\n" in said and "slurm-1.0-requeue-1\n" in said, said


def test_flags_that_contradict_the_step_are_named(cluster, make_slurm):
    slurm = make_slurm("n1", "n2", gpus=1)
    run = ("-N2", "--ntasks-per-node=1", "--gpus-per-node=1", DDPRUN)
    alone = slurm.srun(*run, "--standalone", "--nproc-per-node=2", "--no-python", "true")
    assert alone.wait() == 0
    assert len(re.findall("Slurm step 1.0 has 2 nodes, and each of them", alone.err())) == 1
    assert len(re.findall("2 workers are asked for, .* 1 GPU", alone.err())) == 2
    more = slurm.srun(*run, "--nnodes=3", "--no-python", "true")
    assert more.wait() == 2
    assert "--nnodes=3: Slurm step 2.0 has 2 nodes" in more.err()
    # This is the typical mistake: the shell of the batch script puts its own number in for all
    # nodes.
    same = slurm.srun(*run, "--nnodes=2", "--node-rank=0", "--master-addr=n1", "--no-python",
                      "true")
    same.says("--node-rank says 0, and this is node 1 of Slurm step 3.0")
    slurm.ask("scancel", "3")
    same.wait()


STUBBORN = "trap '' TERM; (trap '' TERM HUP; exec setsid sleep 1234) & say stubborn $(facts)"


@pytest.mark.parametrize("how", [(), ("--signal=KILL",)], ids=["scancel", "killed"])
@pytest.mark.parametrize("proctrack", ["linuxproc", "pgid"])
def test_a_cancelled_job_leaves_nothing(cluster, make_slurm, proctrack, how):
    """Its workers ignore SIGTERM, and have children that have left their session."""
    slurm = make_slurm("n1", "n2", proctrack=proctrack, kill_wait=4)
    job = slurm.srun("-N2", "--ntasks-per-node=1", DDPRUN, "--nproc-per-node=2", *PLAIN)
    cluster.started(1, 4)
    for rank in range(4):
        cluster.order(rank, STUBBORN)
    wait_for("four stubborn workers", lambda: len(cluster.events("stubborn")) == 4)
    slurm.ask("scancel", *how, "1")
    job.wait()
    wait_for(f"nothing of the job to be left: {slurm.tasks()}", lambda: not slurm.tasks())


def test_the_guardians_of_a_killed_step_do_not_outstay_it(cluster, make_slurm):
    """When srun is told to end, it kills all at once, so no daemon follows the first node's, to
    which the guardians would report. With pgid Slurm itself does not reach them."""
    slurm = make_slurm("n1", "n2", "n3", proctrack="pgid")
    job = slurm.srun("-N3", "--ntasks-per-node=1", DDPRUN, *PLAIN)
    cluster.started(1, 3)
    other = PatientGuardian(cluster)
    other.begins()
    job.kill(signal.SIGTERM)
    job.wait()
    wait_for("nothing of the step to be left", lambda: not any(
        b"SLURM_STEP_ID=0" in variables_of(pid) for pid in slurm.tasks()))
    other.has_outlasted_the_others()


def test_a_batch_systems_usr1_reaches_the_workers_that_want_it(cluster, make_slurm):
    slurm = make_slurm("n1", "n2")
    job = slurm.srun("-N2", "--ntasks-per-node=1", DDPRUN, *PLAIN)
    cluster.started(1, 2)
    for rank in range(2):
        cluster.order(rank, "trap 'say usr1 $(facts)' USR1; say ready $(facts)")
    wait_for("both to have a handler", lambda: len(cluster.events("ready")) == 2)
    slurm.ask("scancel", "--signal=USR1", "1")
    wait_for("USR1 at both", lambda: {e.rank for e in cluster.events("usr1")} == {"0", "1"})
    cluster.finish(2)
    assert job.wait() == 0


@pytest.mark.slow
def test_the_others_go_on_without_a_lost_node(cluster, make_slurm):
    slurm = make_slurm("n1", "n2", "n3")
    job = slurm.start("head", "salloc", "-N3", "--no-kill", "srun", "--no-kill", "--wait=0",
                      "--kill-on-bad-exit=0", "--ntasks-per-node=1", DDPRUN, "--nnodes=2:3",
                      "--rdzv-conf", LOST_SOON, *PLAIN)
    assert nodes_of(cluster.started(1, 3)) == ["n1", "n2", "n3"]
    slurm.lose("n3")
    assert nodes_of(cluster.started(2, 2)) == ["n1", "n2"]
    slurm.tell_of_loss("n3")
    wait_for("Slurm to have lost the node, too", lambda: "down" in slurm.ask(
        "sinfo", "--noheader", "--Node", "-n", "n3", "-o", "%T"))
    cluster.finish(2)
    job.says("every worker succeeded")
    job.wait()
