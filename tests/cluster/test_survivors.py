"""Workers that live on from round to round (launcher/survivors). The script speaks the agent's
protocol itself, and does in each round what the test tells it."""

import os
import signal
import sys
import textwrap

import pytest

from tests.support.cluster import GO_ON, wait_for
from tests.support.ports import free_port

# Each rank prints its round and its process. The test kills rank 0 of the first round; BEHAVIOUR
# says what the others do when they are asked to leave.
SCRIPT = textwrap.dedent("""
    import os, signal, socket, sys, threading, time
    from pathlib import Path

    folder = Path(os.environ["DDPRUN_TEST_CONTROL"])
    behaviour = sys.argv[1]


    def say(kind):
        with open(folder / "lines", "a") as file:
            file.write(f"{kind} rank={os.environ['RANK']} of={os.environ['WORLD_SIZE']} "
                       f"round={os.environ['DDPRUN_ROUND']} pid={os.getpid()} "
                       f"restarts={os.environ['TORCHELASTIC_RESTART_COUNT']}\\n")
        print(f"{kind} in round {os.environ['DDPRUN_ROUND']}", flush=True)


    def end(number, frame):
        say("term")
        sys.exit(0)


    name = os.environ.get("DDPRUN_SURVIVORS")
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if behaviour != "says nothing":
        link.connect("\\0" + name)
        link.send(b"stay")
        assert link.recv(64) == b"ok"

    def start_child(is_apart):
        child = os.fork()
        if child == 0:
            link.close()
            if is_apart:  # and no end waits for its output
                os.setsid()
                for stream in (1, 2):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            while os.getppid() != 1:
                time.sleep(0.1)
        return child


    # As a data loader's, and as a server's that a script starts beside it.
    children = [start_child(False), start_child(True)]
    Path(folder / f"children.{os.getpid()}").write_text(" ".join(map(str, children)))
    signal.signal(signal.SIGTERM, end)  # only now: no child is to say that it ends
    say("start")


    def is_told():
        while not (folder / "finish").exists():
            link.settimeout(0.05)
            try:
                word = link.recv(64) if behaviour != "says nothing" else time.sleep(0.05)
            except TimeoutError:
                continue
            link.settimeout(None)
            if word is not None:
                return word
        return b""


    while word := is_told():
        assert word == b"leave", word
        say("leave")
        if behaviour == "does not leave":
            time.sleep(1000)
        if behaviour == "hangs up":
            link.close()
            time.sleep(1000)
        if behaviour == "says what makes no sense":
            link.send(b"what?")
            time.sleep(1000)
        print("the last words of a round", flush=True)
        link.send(b"left")
        if behaviour == "hangs up later":
            link.close()
            time.sleep(1000)
        if behaviour == "dies later":
            os._exit(9)
        _, descriptors, _, _ = socket.recv_fds(link, 64, 1)
        with os.fdopen(descriptors[0], "rb") as file:
            file.seek(0)
            for entry in file.read().split(b"\\0")[:-1]:
                key, is_set, value = entry.partition(b"=")
                if is_set:
                    os.environb[key] = value
                else:
                    os.environb.pop(key, None)
        if behaviour == "does not begin":
            time.sleep(1000)
        link.send(b"begun")
        say("again")
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    say("end")
""")


def started(cluster, *nodes, arguments, **options):
    """Starts an agent for each node; the first one has rank 0."""
    if len(nodes) > 1:
        return cluster.nodes(*nodes, arguments=arguments, **options)
    return [cluster.agent(nodes[0], *arguments, **options)]


class Job:
    def __init__(self, cluster, tmp_path, behaviour, *options, nodes=("a",), workers=3,
                 endpoint=None, **more):
        self.cluster, self.lines_file = cluster, cluster.folder / "lines"
        script = tmp_path / "script.py"
        script.write_text(SCRIPT)
        self.values = dict(
            nnodes=len(nodes), workers=workers, endpoint=endpoint or f"127.0.0.1:{free_port()}",
            arguments=["--max-restarts", 3, *GO_ON, *options],
            command=["--no-python", sys.executable, "-u", script, behaviour], **more)
        self.agents = started(cluster, *nodes, **self.values)
        self.world = workers * len(nodes)

    def lines(self, kind, number):
        """The lines of this kind that were printed in this round, as dictionaries."""
        found = self.lines_file.read_text().splitlines() if self.lines_file.exists() else []
        rows = [dict(word.split("=") for word in line.split()[1:])
                for line in found if line.split()[0] == kind]
        return [row for row in rows if row["round"] == str(number)]

    def all_in(self, *numbers):
        """Every rank of the first of these rounds that is complete, whether it was started for that
        round or has lived on."""
        def there():
            for number in numbers:
                rows = self.lines("start", number) + self.lines("again", number)
                if len({row["rank"] for row in rows}) == self.world:
                    return rows
            return None

        what = " or ".join(map(str, numbers))
        return {int(row["rank"]): row for row in wait_for(f"all ranks of round {what}", there)}

    def kill(self, row):
        os.kill(int(row["pid"]), signal.SIGKILL)

    def lives(self, pid):
        return int(pid) in self.cluster.marked()

    def finish(self):
        (self.cluster.folder / "finish").touch()
        assert [agent.wait() for agent in self.agents] == [0] * len(self.agents), \
            self.agents[0].err()
        self.cluster.nothing_left()


@pytest.mark.main_path
def test_those_that_can_leave_live_on_and_only_the_others_are_started(cluster, tmp_path):
    job = Job(cluster, tmp_path, "leaves", "--survivors", "on")
    first = job.all_in(1)
    job.kill(first[0])
    second = job.all_in(2)
    assert second[0]["pid"] != first[0]["pid"]
    assert [second[rank]["pid"] for rank in (1, 2)] == [first[rank]["pid"] for rank in (1, 2)]
    assert {row["restarts"] for row in second.values()} == {"1"}
    job.agents[0].says("2 of 3 workers of this node lived on from the round before")
    # Their children are there, too, in whatever session they are.
    for rank in (1, 2):
        children = (cluster.folder / f"children.{second[rank]['pid']}").read_text().split()
        assert [job.lives(child) for child in children] == [True, True]
    # It works once more: a worker that has lived on can live on again.
    job.kill(second[1])
    third = job.all_in(3)
    assert [third[rank]["pid"] for rank in (0, 2)] == [second[rank]["pid"] for rank in (0, 2)]
    job.finish()
    assert not job.lines("term", 1)
    # A survivor's output has the prefix of its rank in that round.
    for number, kind in ((1, "start"), (1, "leave"), (2, "again"), (3, "again"), (3, "end")):
        assert f"[a:2] {kind} in round {number}\n" in job.agents[0].out()


def test_without_the_option_no_worker_lives_on(cluster, tmp_path):
    job = Job(cluster, tmp_path, "says nothing")
    first = job.all_in(1)
    job.kill(first[0])
    second = job.all_in(2)
    assert not {row["pid"] for row in first.values()} & {row["pid"] for row in second.values()}
    job.finish()


def test_one_that_says_nothing_ends_as_ever(cluster, tmp_path):
    job = Job(cluster, tmp_path, "says nothing", "--survivors", "on")
    first = job.all_in(1)
    job.kill(first[0])
    second = job.all_in(2)
    assert not {row["pid"] for row in first.values()} & {row["pid"] for row in second.values()}
    assert len(job.lines("term", 1)) == 2
    job.finish()


@pytest.mark.parametrize("behaviour", ["does not leave", "hangs up", "says what makes no sense"])
def test_one_that_does_not_leave_is_asked_to_end(cluster, tmp_path, behaviour):
    job = Job(cluster, tmp_path, behaviour, "--survivors", "on")
    first = job.all_in(1)
    job.kill(first[0])
    second = job.all_in(2)
    assert not {row["pid"] for row in first.values()} & {row["pid"] for row in second.values()}
    assert len(job.lines("term", 1)) == 2
    if behaviour == "does not leave":
        for rank in (1, 2):
            job.agents[0].says(f"rank {rank} did not leave its round within 2.5 s, half of the "
                               "time that it has to end: it gets SIGTERM, and does not live on")
    job.finish()


@pytest.mark.parametrize("behaviour", ["hangs up later", "dies later"])
def test_one_that_is_gone_when_the_round_comes_is_started(cluster, tmp_path, behaviour):
    job = Job(cluster, tmp_path, behaviour, "--survivors", "on")
    first = job.all_in(1)
    job.kill(first[0])
    # If a survivor ends just as it is given the round, that is a failure of the round.
    second = job.all_in(2, 3, 4)
    assert not {row["pid"] for row in first.values()} & {row["pid"] for row in second.values()}
    job.finish()


def test_one_that_does_not_begin_is_a_failure_of_its_round(cluster, tmp_path):
    job = Job(cluster, tmp_path, "does not begin", "--survivors", "on", workers=2)
    first = job.all_in(1)
    job.kill(first[0])
    job.all_in(4)  # the other survivor does not begin the third
    job.agents[0].says(r"rank 1 \(local rank 1\) hung: lived on from the round before, and did not "
                       "begin this one within 10 s")
    job.finish()


def test_no_worker_waits_for_a_round_that_cannot_follow(cluster, tmp_path):
    job = Job(cluster, tmp_path, "leaves", "--survivors", "on", "--max-restarts", 0)
    job.kill(job.all_in(1)[0])
    assert job.agents[0].wait() == 137, job.agents[0].err()
    assert len(job.lines("term", 1)) == 2 and not job.lines("leave", 1)
    cluster.nothing_left()


def test_a_person_ends_those_that_could_live_on(cluster, tmp_path):
    job = Job(cluster, tmp_path, "leaves", "--survivors", "on")
    job.all_in(1)
    job.agents[0].kill(15)
    job.agents[0].wait()
    assert len(job.lines("term", 1)) == 3 and not job.lines("leave", 1)
    cluster.nothing_left()


def test_those_that_wait_for_a_round_end_with_their_agent(cluster, tmp_path):
    """The guardian kills them, together with the processes that they have started."""
    job = Job(cluster, tmp_path, "leaves", "--survivors", "on", nodes=("a", "b"), workers=2,
              conf="last_call_timeout=600")
    first = job.all_in(1)
    of_b = [row for row in first.values() if row["rank"] in ("2", "3")]
    # The round stops, and no round can begin without the other node.
    job.agents[0].kill()
    wait_for("b's workers to have left", lambda: len(job.lines("leave", 1)) >= 2)
    assert all(job.lives(row["pid"]) for row in of_b)
    job.agents[1].kill()
    cluster.nothing_left()


def test_those_that_wait_for_a_round_end_as_their_node_is_fenced(cluster, tmp_path):
    """The run has begun again while their agent stood still, so their instance is over."""
    port = free_port()
    daemon = cluster.daemon(port, "--state-dir", "none")
    job = Job(cluster, tmp_path, "leaves", "--survivors", "on", "--spares", 1, nodes=("a", "b"),
              workers=2, endpoint=f"127.0.0.1:{port}")
    first = job.all_in(1)
    of_b = [int(first[rank]["pid"]) for rank in (2, 3)]
    job.agents[0].kill()
    b = job.agents[1]
    b.says("round 1 failed")
    assert len(job.lines("leave", 1)) == 2
    b.kill(signal.SIGSTOP)
    daemon.kill()
    daemon.wait()
    following = cluster.daemon(port, "--state-dir", "none", name="next-daemon")
    others = started(cluster, "c", "d", **job.values)
    others[0].says("round 1 starts")
    assert all(map(job.lives, of_b))
    b.kill(signal.SIGCONT)
    wait_for("b's workers to end", lambda: not any(map(job.lives, of_b)))
    assert b.running(), b.err()
    (cluster.folder / "finish").touch()
    assert [agent.wait() for agent in (*others, b)] == [0, 0, 0], b.err()
    cluster.nothing_left(but=[following])
