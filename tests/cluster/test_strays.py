"""Processes that workers start outside their group and session end with their round."""

import os
import signal

import pytest

from tests.support import cgroups
from tests.support.cluster import (BIN, GO_ON, GUARDIAN, LOST_SOON, Program, WORKER,
                                   wait_for)


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def guardians(cluster):
    def name_of(pid):
        try:
            with open(f"/proc/{pid}/comm") as file:
                return file.read().strip()
        except OSError:
            return ""

    return [pid for pid in cluster.marked() if name_of(pid) == GUARDIAN]


class Strays:
    """Lets workers start processes that leave their session, and knows their pids."""

    each = 3

    def __init__(self, cluster):
        self.cluster = cluster
        self.path = cluster.folder / "strays"
        self.script = cluster.folder / "stray.sh"
        self.script.write_text(f"echo $$ >>{self.path}\nexec sleep 1000\n")

    def order(self, rank):
        before = len(self.pids())
        quiet = f"/bin/sh {self.script} >/dev/null 2>&1"
        # As a child in a session of its own; forked twice; forked twice, without any environment.
        self.cluster.order(rank, f"setsid {quiet} & (setsid {quiet} &); "
                                 f"(setsid env -i {quiet} &)")
        wait_for("the strays to run", lambda: len(self.pids()) == before + self.each)

    def pids(self):
        return [int(line) for line in self.path.read_text().split()] if self.path.exists() else []

    def alive(self):
        return [pid for pid in self.pids() if lives(pid)]


@pytest.fixture
def strays(cluster):
    made = Strays(cluster)
    yield made
    for pid in made.alive():
        os.kill(pid, signal.SIGKILL)


def test_no_stray_lives_beside_the_next_round(cluster, strays):
    agent = cluster.agent("", "--max-restarts", 2, *GO_ON, workers=2)
    for round_number in (1, 2):
        cluster.started(round_number, 2)
        strays.order(0)
        strays.order(1)
        assert len(strays.alive()) == 6
        cluster.order(1, "exit 3")
        cluster.started(round_number + 1, 2)
        assert not strays.alive(), f"of {strays.pids()}, beside round {round_number + 1}"
    cluster.finish(2)
    assert agent.wait() == 0
    cluster.nothing_left()


def test_no_stray_outlives_success(cluster, strays):
    agent = cluster.agent("", "--children-grace=0", workers=2)
    cluster.started(1, 2)
    strays.order(0)
    cluster.order(0, "exit 0")
    strays.order(1)
    assert len(strays.alive()) == 6, "they may live while a worker of the round does"
    cluster.order(1, "exit 0")
    assert agent.wait() == 0
    assert not strays.alive()
    cluster.nothing_left()


UPLOAD = "read line <{gate}; echo done >{proof}"


@pytest.fixture
def upload(cluster):
    """A child that has nothing of its worker, and succeeds once the test lets it."""
    gate, proof = cluster.folder / "gate", cluster.folder / "proof"
    os.mkfifo(gate)
    script = cluster.folder / "upload.sh"
    script.write_text(UPLOAD.format(gate=gate, proof=proof) + "\n")

    class Upload:
        order = f"/bin/sh {script} >/dev/null 2>&1 </dev/null &"
        is_done = proof.exists

        @staticmethod
        def finish():
            gate.write_text("now\n")

        @staticmethod
        def finish_each():
            """Lets all go that have reached the gate; not those that reach it later."""
            try:
                end = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                return
            os.write(end, b"now\n")
            os.close(end)

    return Upload


def test_what_a_success_leaves_in_its_group_is_waited_for(cluster, upload):
    agent = cluster.agent("", workers=2)
    cluster.started(1, 2)
    cluster.order(0, f"{upload.order} exit 0")
    cluster.order(1, "exit 0")
    agent.says(r"rank 0 succeeded and left 1 process behind: \S+ \(\d+\); this node waits for it, "
               r"30 s at most \(--children-grace\)")
    assert agent.running() and not upload.is_done()
    upload.finish()
    assert agent.wait() == 0
    assert upload.is_done()
    cluster.nothing_left()


@pytest.mark.parametrize("grace, why", [
    ("0.2", r", as 200 ms have passed \(--children-grace\)"), ("0", r" \(--children-grace=0\)")])
@pytest.mark.parametrize("leaves", ["", "setsid "], ids=["group", "session"])
def test_what_outlives_its_grace_is_killed_with_a_warning(cluster, upload, leaves, grace, why):
    agent = cluster.agent("", f"--children-grace={grace}", workers=1)
    cluster.started(1, 1)
    cluster.order(0, f"{leaves}{upload.order} exit 0")
    assert agent.wait() == 0
    # It may leave the group late.
    whose = "(workers|rank 0)" if leaves else "rank 0"
    agent.says(rf"warning: {whose} succeeded and left 1 process behind.*: \S+ \(\d+\); it is "
               rf"killed{why}")
    assert not upload.is_done()
    cluster.nothing_left()


def test_a_failure_ends_what_a_success_has_left(cluster, upload):
    agent = cluster.agent("", "--max-restarts=1", workers=2)
    cluster.started(1, 2)
    cluster.order(0, f"{upload.order} exit 0")
    agent.says("rank 0 succeeded and left 1 process behind")
    cluster.order(1, "exit 3")
    cluster.started(2, 2)
    agent.says(r"warning: rank 0 succeeded and left 1 process behind: \S+ \(\d+\); it is killed, "
               "because the round is over")
    assert not [line for line in cluster.marked().values() if "upload.sh" in line]
    cluster.finish(2)
    assert agent.wait() == 0
    assert not upload.is_done()


def test_ctrl_c_ends_the_wait_for_children(cluster, upload):
    agent = cluster.agent("", "--children-grace=3600", workers=1)
    cluster.started(1, 1)
    cluster.order(0, f"{upload.order} exit 0")
    agent.says("rank 0 succeeded and left 1 process behind")
    agent.kill(signal.SIGINT)
    assert agent.wait() in (0, 130)
    cluster.nothing_left()
    assert not upload.is_done()


def test_children_that_are_kept_live_on_after_the_run(cluster, upload):
    agent = cluster.agent("", "--children-grace=keep", workers=1)
    cluster.started(1, 1)
    cluster.order(0, f"{upload.order} setsid {upload.order} exit 0")
    assert agent.wait() == 0
    agent.says(r"rank 0 succeeded and left (1 process|2 processes) behind: .*"
               r"; (it is|they are) left running")

    def uploads():
        found = [pid for pid, line in cluster.marked().items() if "upload.sh" in line]
        return len(found) == 2 and found

    left = wait_for("both uploads", uploads)

    def have_ended():
        upload.finish_each()
        return not any(lives(pid) for pid in left)

    wait_for("the uploads to end", have_ended)
    assert upload.is_done()
    cluster.nothing_left()


def test_children_are_kept_for_a_run_that_ends_well_only(cluster, upload):
    agent = cluster.agent("", "--children-grace=keep", workers=2)
    cluster.started(1, 2)
    cluster.order(0, f"{upload.order} setsid {upload.order} exit 0")
    agent.says("rank 0 succeeded and left (1 process|2 processes) behind")
    cluster.order(1, "exit 3")
    assert agent.wait() == 3
    cluster.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_stray_outlives_a_graceful_stop(cluster, strays, number):
    agent = cluster.agent("", workers=2, environment={"DDPRUN_TEST_TERM": "trap"})
    cluster.started(1, 2)
    strays.order(0)
    agent.kill(number)
    assert agent.wait() == 128 + number
    assert len(cluster.events("term")) == 2
    assert not strays.alive()
    cluster.nothing_left()


def test_no_stray_outlives_the_workers_of_an_isolated_node(cluster, strays):
    daemon = cluster.daemon()
    a, b = cluster.nodes("node-a", "node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2",
                         conf=LOST_SOON)
    workers = cluster.started(1, 2)
    strays.order(1)
    daemon.kill(signal.SIGSTOP)
    a.kill(signal.SIGSTOP)
    wait_for("node-b to kill its worker", lambda: not lives(int(workers[1].pid)))
    wait_for("its strays to die with it", lambda: not strays.alive())
    a.kill(signal.SIGCONT)
    daemon.kill(signal.SIGCONT)
    for agent in (a, b):
        agent.kill(signal.SIGTERM)
    for agent in (a, b):
        agent.wait()
    cluster.nothing_left(but=[daemon])


def test_a_ddprun_inside_a_worker_ends_with_its_own_workers(cluster):
    agent = cluster.agent("", "--max-restarts", 1, workers=1)
    cluster.started(1, 1)
    inner = f"{BIN / 'ddprun'} --standalone --no-python sleep 1000.5"
    cluster.order(0, f"(setsid {inner} >/dev/null 2>&1 &)")

    def inner_worker():
        return [pid for pid, line in cluster.marked().items() if line.startswith("sleep 1000.5")]

    pid = wait_for("the inner worker", inner_worker)[0]
    cluster.order(0, "exit 3")
    cluster.started(2, 1)
    assert not lives(pid)
    cluster.finish(1)
    assert agent.wait() == 0
    cluster.nothing_left()


def test_children_that_the_agent_had_before_it_was_ddprun_live_on(cluster, strays):
    line = [BIN / "ddprun", "--standalone", "--max-restarts", 1, "--no-python", WORKER]
    agent = Program(cluster, "node-a", line,
                    prefix=["bash", "-c", 'sleep 1000.7 & exec "$@"', "sh"])
    cluster.started(1, 1)
    before = wait_for("the sleeper", lambda: [
        pid for pid, words in cluster.marked().items() if words.startswith("sleep 1000.7")])
    strays.order(0)
    cluster.order(0, "exit 3")
    cluster.started(2, 1)
    # If the environment is cleared, a stray can be told from strangers only by its cgroup.
    assert len(strays.alive()) == (0 if cgroups.allowed() else 1)
    cluster.finish(1)
    assert agent.wait() == 0
    assert len(before) == 1 and lives(before[0])
    os.kill(before[0], signal.SIGKILL)
    cluster.nothing_left()


def test_a_stray_without_an_environment_dies_with_an_agent_that_is_killed(cluster, strays):
    cgroups.needed()
    agent = cluster.agent("", workers=2)
    cluster.started(1, 2)
    strays.order(0)
    strays.order(1)
    folder = cgroups.of(agent)
    assert set(strays.pids()) < {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
    agent.kill()
    wait_for("the strays to be killed", lambda: not strays.alive())
    wait_for("the cgroup to be taken away", lambda: not folder.exists())
    cluster.nothing_left()


def test_a_guardian_that_was_started_again_knows_the_cgroup(cluster, strays):
    cgroups.needed()
    agent = cluster.agent("", workers=1)
    cluster.started(1, 1)
    strays.order(0)
    first = wait_for("the guardian", lambda: guardians(cluster))
    os.kill(first[0], signal.SIGKILL)
    wait_for("another guardian", lambda: guardians(cluster) not in ([], first))
    # The agent reads its workers' output only once it has told the new guardian everything.
    cluster.order(0, "echo after the guardian")
    agent.says("after the guardian")
    agent.kill()
    wait_for("the strays to be killed", lambda: not strays.alive())
    cluster.nothing_left()


@pytest.mark.parametrize("code", [0, 3])
def test_the_cgroup_goes_with_the_run_and_what_workers_made_in_it(cluster, strays, code):
    cgroups.needed()
    agent = cluster.agent("", "--children-grace=0", workers=1)
    cluster.started(1, 1)
    folder = cgroups.of(agent)
    # A container runtime in a worker would do this.
    (folder / "inner").mkdir()
    strays.order(0)
    (folder / "inner" / "cgroup.procs").write_text(f"{strays.pids()[-1]}\n")
    cluster.order(0, f"exit {code}")
    assert agent.wait() == code
    assert not strays.alive()
    assert not folder.exists()
    cluster.nothing_left()


def test_the_cgroup_of_an_agent_that_died_with_its_guardian_is_taken_away_later(cluster):
    cgroups.needed()
    agent = cluster.agent("", workers=1)
    cluster.started(1, 1)
    folder = cgroups.of(agent)
    # If the guardian dies with its agent, no process removes the cgroup.
    guardian = wait_for("the guardian", lambda: guardians(cluster))[0]
    os.kill(guardian, signal.SIGSTOP)
    agent.kill()
    os.kill(guardian, signal.SIGKILL)
    agent.wait()
    cluster.nothing_left()
    # A process that has lost its environment may not have left its cgroup yet.
    wait_for("the cgroup to be empty", lambda: cgroups.is_empty(folder))
    # Any agent that starts removes it, including another test's.
    after = cluster.agent("", command=["--no-python", "true"])
    assert after.wait() == 0
    assert not folder.exists()


def test_where_the_cgroup_was_taken_away_workers_start_all_the_same(cluster):
    cgroups.needed()
    daemon = cluster.daemon()
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}", nnodes="2")
    agent.says("waiting for")
    cgroups.of(agent).rmdir()
    other = cluster.agent("node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes="2")
    cluster.started(1, 2)
    cluster.finish(2)
    assert agent.wait() == 0 and other.wait() == 0
    cluster.nothing_left(but=[daemon])
