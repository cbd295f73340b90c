"""ddprun's own lines: which rank is where, their time and form, the summary at the end, and the
command of --on-event."""

import json
import os
import re
import signal

from tests.support.cluster import BIN, Program, wait_for

ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"
# The first round fails: rank 1 exits with 3.
FAILS_ONCE = "[ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 3; exit 0"


def start(cluster, name, *options, script="exit 0", workers=2, environment=None):
    return Program(cluster, name,
                   [BIN / "ddprun", "--node-id", name, f"--nproc-per-node={workers}",
                    *options, "--no-python", "/bin/sh", "-c", script],
                   environment=environment or {})


def all_of(cluster, ranks):
    """Goes on when all ranks have reached this, so that none is stopped earlier."""
    there = cluster.folder / "there"
    return f"""touch {there}.$RANK
        for rank in $(seq 0 {ranks - 1}); do
            until [ -e {there}.$rank ]; do sleep 0.05; done
        done
        """


def pair(cluster, *options, script):
    port = cluster.daemon().port
    return [start(cluster, name, "--nnodes=2", "--node-rank", rank,
                  f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job7", *options, script=script)
            for rank, name in enumerate("ab")]


def test_each_round_says_which_ranks_are_on_which_node(cluster):
    nodes = pair(cluster, "--max-restarts=1", script=all_of(cluster, 4) + FAILS_ONCE)
    assert [node.wait() for node in nodes] == [0, 0]
    where = "ranks 0-1 on a (127.0.0.1), 2-3 on b (127.0.0.1)"
    for node in nodes:
        assert f": round 1 starts: {where}\n" in node.err()
        assert f": round 2 starts: {where}; restart 1 of 1\n" in node.err()


def test_a_world_of_two_has_prefixes_with_one_worker_a_node(cluster):
    port = cluster.daemon().port
    nodes = [start(cluster, name, "--nnodes=2", "--node-rank", rank,
                   f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job7", workers=1,
                   script="echo word; echo words >&2") for rank, name in enumerate("ab")]
    alone = start(cluster, "c", workers=1, script="echo word")
    assert [node.wait() for node in [*nodes, alone]] == [0, 0, 0]
    assert [node.out() for node in nodes] == ["[a:0] word\n", "[b:1] word\n"]
    assert "\n[b:1] words\n" in nodes[1].err()
    assert alone.out() == "word\n"


def test_one_node_is_said_in_short(cluster):
    one = start(cluster, "a", workers=1)
    two = start(cluster, "b")
    assert [one.wait(), two.wait()] == [0, 0]
    assert ": round 1 starts: rank 0 on a\n" in one.err()
    assert ": round 1 starts: ranks 0-1 on b\n" in two.err()


def test_debug_names_processes_and_their_command_once(cluster):
    # The agent names the processes when all of them run, so none may end before that.
    script = f"until [ -e {cluster.folder}/named ]; do sleep 0.05; done; {FAILS_ONCE}"
    job = start(cluster, "a", "--log-level=debug", "--max-restarts=1", script=script)
    job.says(r"rank 0 \(local rank 0\) is process \d+\n")
    job.says(r"rank 1 \(local rank 1\) is process \d+\n")
    (cluster.folder / "named").touch()
    assert job.wait() == 0
    for rank in range(2):
        command = f"rank {rank} (local rank {rank}) is started as: /bin/sh -c '{script}'\n"
        assert job.err().count(command) == 1, job.err()
        assert re.search(rf"rank {rank} \(local rank {rank}\) is process \d+\n", job.err())


def test_the_time_of_lines(cluster):
    iso = start(cluster, "a", "--log-time=iso")
    none = start(cluster, "b", "--log-time=none")
    assert [iso.wait(), none.wait()] == [0, 0]
    assert re.search(rf"^ddprun a {ISO}: every worker succeeded$", iso.err(), re.M)
    assert "ddprun b: every worker succeeded\n" in none.err()
    daemon = cluster.daemon(0, "--log-time=iso")
    daemon.says(rf"{ISO} info: ddprun-rendezvous [\d.]+ listens on ")


def test_json_lines(cluster):
    job = start(cluster, "a", "--log-format=json", "--rdzv-id=job8", "--max-restarts=1",
                script=f"echo 'no JSON' >&2; {all_of(cluster, 2)}" + FAILS_ONCE)
    assert job.wait() == 0
    lines = job.err().splitlines()
    assert sum(line.endswith("no JSON") for line in lines) == 4
    told = [json.loads(line) for line in lines if not line.endswith("no JSON")]
    for one in told:
        assert re.fullmatch(ISO, one["time"])
        assert (one["program"], one["node"], one["run_id"]) == ("ddprun", "a", "job8")
    box = [one for one in told if "failed" in one["message"] and one["level"] == "warning"]
    assert len(box) == 1 and box[0]["round"] == 1
    assert box[0]["lines"][0] == "a: rank 1 (local rank 1) exited with code 3"
    assert box[0]["lines"][-1] == "next: restart 1 of 1"
    assert [one["round"] for one in told if " starts: " in one["message"]] == [1, 2]
    daemon = cluster.daemon(0, "--log-format=json", "--log-time=none")
    daemon.says(r'\{"level":"info","program":"ddprun-rendezvous","node":"[^"]+",'
                r'"message":"ddprun-rendezvous [\d.]+ listens on ')


def test_quiet_leaves_warnings_and_failures(cluster):
    job = start(cluster, "a", "--quiet", "--max-restarts=1", script=FAILS_ONCE)
    assert job.wait() == 0
    assert re.fullmatch(r"ddprun a [\d:.]+: warning: round 1 failed .*(\n  \| .*)+\n", job.err())
    well = start(cluster, "b", "--quiet")
    assert well.wait() == 0
    assert well.err() == ""


def test_the_end_of_a_run_that_had_failures_sums_it_up(cluster):
    nodes = pair(cluster, "--max-restarts=1", script=all_of(cluster, 4) + FAILS_ONCE)
    assert [node.wait() for node in nodes] == [0, 0]
    for node in nodes:
        assert re.search(
            r": this node was in 2 rounds, 1 of which failed:\n"
            r"  \| round 1, [^,]+, ranks 0-1 on a \(127.0.0.1\), 2-3 on b \(127.0.0.1\): "
            r"a: rank 1 \(local rank 1\) exited with code 3\n"
            r"  \| round 2, [^,]+, on the same nodes: every worker succeeded\n"
            r"ddprun . [\d:.]+: every worker succeeded\n$", node.err()), node.err()
    well = start(cluster, "c")
    assert well.wait() == 0
    assert "of which failed" not in well.err()


def events_in(folder):
    """The events that the command got, in order."""
    return [json.loads(file.read_text())
            for file in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)]


def test_a_hook_is_told_what_happens(cluster, tmp_path):
    told = tmp_path / "told"
    told.mkdir()
    # A file is assigned to its process by the pid.
    hook = f"cat > {tmp_path}/$$ && mv {tmp_path}/$$ {told}/$$; echo heard"
    job = start(cluster, "a", "--on-event", hook, "--rdzv-id=job9", "--max-restarts=1",
                script=FAILS_ONCE)
    assert job.wait() == 0
    events = events_in(told)
    assert [one["event"] for one in events] == ["round_started", "round_failed", "round_started",
                                                "recovered", "ended"], job.err()
    assert {(one["run_id"], one["node"], one["leads"]) for one in events} == {("job9", "a", True)}
    assert [one["round"] for one in events] == [1, 1, 2, 2, 2]
    assert events[0]["members"] == "ranks 0-1 on a"
    assert events[1]["report"]["root_cause"]["code"] == 3
    assert events[3]["restarts_used"] == 1
    assert (events[4]["exit_code"], events[4]["text"]) == (0, "every worker succeeded")
    assert job.err().count("[a:on-event] heard\n") == 5


def test_a_hook_is_never_in_the_way(cluster, tmp_path):
    # The command hangs while rounds come and go; at the end it is killed, with what it has started.
    hook = f"touch {tmp_path}/hangs; sleep 1000 & sleep 1000"
    job = start(cluster, "a", "--on-event", hook, "--max-restarts=1",
                script=f"until [ -e {tmp_path}/hangs ]; do sleep 0.05; done; {FAILS_ONCE}")
    job.says(": every worker succeeded")
    assert job.wait() == 0
    job.says(r"warning: --on-event: round_started of round 1: the command is killed: the run is "
             r"over, and it had 10 s to end\n")
    job.says(r"warning: --on-event: 4 events were left out: ")
    cluster.nothing_left()


def test_what_a_hook_leaves_in_a_session_of_its_own_is_no_workers(cluster, tmp_path):
    # ssh does this if it keeps a connection for later use.
    wait = f"until [ -e {tmp_path}/left ]; do sleep 0.05; done"
    hook = (f"[ -e {tmp_path}/left ] || setsid sh -c 'touch {tmp_path}/left; exec sleep 1000.125' "
            f">/dev/null 2>&1 & {wait}")
    job = start(cluster, "a", "--on-event", hook, script=wait)
    assert job.wait() == 0
    assert "behind" not in job.err()
    [left] = wait_for("what the hook left", lambda: [
        pid for pid, line in cluster.marked().items() if line.startswith("sleep 1000.125")])
    os.kill(left, signal.SIGKILL)
    cluster.nothing_left()


def test_a_hook_that_fails_costs_a_line(cluster):
    job = start(cluster, "a", "--on-event=exit 4")
    assert job.wait() == 0
    assert re.findall(r"warning: --on-event: (.*)\n", job.err()) == [
        "round_started of round 1: the command failed: exit code 4",
        "ended: the command failed: exit code 4"]


def test_a_hook_dies_with_its_agent(cluster, tmp_path):
    job = start(cluster, "a", "--on-event", f"sleep 1000 & touch {tmp_path}/runs; sleep 1000",
                script=f"until [ -e {tmp_path}/runs ]; do sleep 0.05; done; sleep 1000")
    job.says("round 1 starts")
    wait_for("the hook to run", (tmp_path / "runs").exists)
    job.kill(9)
    cluster.nothing_left()
