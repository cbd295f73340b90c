"""Timers that workers set with torch.distributed.elastic.timer, with PyTorch's own client; and what
torchrun does with the same script."""

import inspect
import json
import os
import re
import signal
import sys
import textwrap

import pytest
from torch.distributed.elastic.timer import FileTimerServer

from tests.support.cluster import BIN, GO_ON, Program

LIMIT = 240  # every worker imports PyTorch
ENABLED = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}

# In the first attempt the last rank hangs while its timer runs; the others have released theirs.
SCRIPT = """
    import os, signal, sys
    import torch.distributed.elastic.timer as timer

    timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
    for step in range(3):
        with timer.expires(after=120, scope="a step"):
            pass
    is_last = os.environ["RANK"] == str(int(os.environ["WORLD_SIZE"]) - 1)
    if is_last and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        print("hangs", flush=True)
        with timer.expires(after=1.5, scope=sys.argv[1]):
            while True:
                signal.pause()
    print("has trained", flush=True)
"""
# 1.5 s, less the time until it is received, which may be all of it.
EXPIRED = r"expired after (1(\.[1-5])? s|[1-9]00 ms|0 m?s)"


def start(cluster, script, *options, variables=None, arguments=()):
    path = cluster.folder / "train.py"
    path.write_text(textwrap.dedent(script))
    line = [BIN / "ddprun", "--node-id=here", *options, path, *arguments]
    return Program(cluster, "ddprun", line,
                   environment={"PYTHON_EXEC": sys.executable, "TMPDIR": str(cluster.folder),
                                **ENABLED, **(variables or {})})


def pipes(cluster):
    return list(cluster.folder.glob("watchdog_timer_*"))


def test_a_worker_whose_timer_expires_is_killed_and_all_are_started_again(cluster):
    job = start(cluster, SCRIPT, "--nproc-per-node=2", "--max-restarts=1",
                "--report", cluster.folder / "report", arguments=["the step"])
    assert job.wait(LIMIT) == 0, job.err()
    cause = rf'its timer "the step" {EXPIRED}'
    assert re.search(rf"rank 1: {cause}; process \d+ gets SIGKILL$", job.err(), re.M), job.err()
    assert re.search(rf"\| here: rank 1 \(local rank 1\) killed by SIGKILL: {cause}$",
                     job.err(), re.M)
    assert job.out().count("has trained") >= 2  # in the second attempt
    reports = [json.loads(line) for line in (cluster.folder / "report").read_text().splitlines()]
    assert [one["outcome"] for one in reports] == ["failed", "succeeded"]
    assert reports[0]["root_cause"]["code"] == signal.SIGKILL
    assert not pipes(cluster)


def test_torchruns_agent_kills_itself_with_its_worker(cluster, torchrun):
    """Version 2.15 does so, too: no restart follows, whatever --max-restarts says."""
    if "os.getpid()" not in inspect.getsource(FileTimerServer._run_watchdog):
        pytest.skip("this version's lives on")
    path = cluster.folder / "train.py"
    path.write_text(textwrap.dedent(SCRIPT))
    job = torchrun.start(cluster, "torchrun", ["--max-restarts=1", path, "the step"],
                         {"PYTHON_EXEC": sys.executable, "TMPDIR": str(cluster.folder), **ENABLED})
    assert job.wait(LIMIT) == -signal.SIGKILL, job.err()
    assert "hangs" in job.out() and "has trained" not in job.out()
    assert len(pipes(cluster)) == 1  # it is left behind


def test_without_restarts_the_run_ends_with_the_signal_as_its_cause(cluster):
    file = cluster.folder / "error.json"
    job = start(cluster, SCRIPT, variables={"TORCHELASTIC_ERROR_FILE": str(file)},
                arguments=["ä\n"])
    assert job.wait(LIMIT) == 128 + signal.SIGKILL, job.err()
    message = json.loads(file.read_text())["message"]
    assert re.fullmatch(r'here: rank 0 \(local rank 0\) killed by SIGKILL: its timer "ä " '
                        + EXPIRED, message["message"]), message
    assert message["errorCode"] == -signal.SIGKILL


# A worker that is not Python, so that it is known what is written to its pipe, and when. (torchrun
# and ddprun turn $$ into $.)
TALKER = """
    say() { printf '{"version": 1, "pid": %d, "scope_id": "%s", "expiration_time": %s, '\\
'"signal": %d}\\n' $1 $2 $3 $4 > $TORCHELASTIC_TIMER_FILE; }
    now() { date +%s.%N; }
    soon() { echo $(($(date +%s) + $1)); }
"""


def shell(cluster, name, script, *options, variables=None):
    return Program(cluster, name,
                   [BIN / "ddprun", f"--node-id={name}", *GO_ON, *options, "--no-python",
                    "/bin/bash", "-c", textwrap.dedent(TALKER) + script],
                   environment={"TMPDIR": str(cluster.folder), **ENABLED, **(variables or {})})


def test_garbage_and_timers_of_strangers_cost_a_line_each_and_nothing_else(cluster):
    job = shell(cluster, "a", """
        for i in 1 2 3; do
            echo garbage > $TORCHELASTIC_TIMER_FILE
            head -c 10000 /dev/zero > $TORCHELASTIC_TIMER_FILE
            echo > $TORCHELASTIC_TIMER_FILE
            say 1 of-init 1 9
        done
        say $BASHPID mine $(now) 9
        sleep 1000""")
    assert job.wait() == 128 + signal.SIGKILL
    # In either order: garbage is reported after the requests that come with it.
    assert sorted(re.findall(r"warning: \S*watchdog_timer_\w+: (.*)", job.err())) == [
        "ignored a line that sets no timer: garbage",
        "ignored a timer of process 1, which is not a worker of this node"]
    assert 'killed by SIGKILL: its timer "mine" expired after' in job.err()


def test_the_process_that_has_set_the_timer_gets_its_signal(cluster):
    """Here it is a child of the worker, and the worker itself succeeds."""
    job = shell(cluster, "a", """
        sleep 1000 & child=$!
        say $child child $(now) 15
        wait $child; echo "ended with $?" """)
    assert job.wait() == 0, job.err()
    assert "ended with 143" in job.out()
    assert re.search(r'rank 0: its timer "child" expired after .* gets SIGTERM$', job.err(), re.M)


def test_a_timer_that_asks_for_no_signal_is_a_line(cluster):
    job = shell(cluster, "a", f"""
        for i in 1 2 3; do say $BASHPID silent $(now) 0; done
        until [ -e {cluster.folder}/go ]; do sleep 0.1; done""")
    job.says(r'rank 0: its timer "silent" expired after .*; it asks for no signal')
    (cluster.folder / "go").touch()
    assert job.wait() == 0
    assert job.err().count("asks for no signal") == 1


def test_a_worker_that_has_ended_before_its_timer_has_ended_well(cluster):
    job = shell(cluster, "a", f"""
        if [ $RANK = 0 ]; then say $BASHPID left $(soon 6) 9; exit 0; fi
        say $BASHPID mine $(soon 7) 0
        until grep -q 'its timer "mine" expired' {cluster.folder}/a.0.err; do sleep 0.05; done""",
                "--nproc-per-node=2")
    assert job.wait() == 0, job.err()
    assert '"left"' not in job.err()


def test_a_reason_of_another_rank_is_rather_the_root_cause(cluster):
    """The timer of a rank that waits expires while the other one is exiting."""
    job = shell(cluster, "a", f"""
        if [ $RANK = 0 ]; then say $BASHPID waits $(now) 9; exec sleep 1000; fi
        until grep -q 'its timer "waits" expired' {cluster.folder}/a.0.err; do sleep 0.05; done
        echo 'ValueError: NaN' >&2; exit 7""", "--nproc-per-node=2", "--failure-grace=60")
    assert job.wait() == 7, job.err()
    assert "the root cause:\n  | a: rank 1 (local rank 1) exited with code 7" in job.err()


@pytest.mark.parametrize("before", ["a pipe", "an empty file"])
def test_the_pipe_has_the_name_that_is_wanted(cluster, before):
    wanted = cluster.folder / "timers"
    if before == "a pipe":
        os.mkfifo(wanted)
    else:
        wanted.touch()
    job = shell(cluster, "a",
                '[ -p $TORCHELASTIC_TIMER_FILE ] && echo "by $TORCHELASTIC_TIMER_FILE"',
                variables={"TORCHELASTIC_TIMER_FILE": str(wanted)})
    assert job.wait() == 0
    assert job.out() == f"by {wanted}\n"
    assert not wanted.exists()


def test_two_agents_of_a_host_that_want_one_name_have_a_pipe_each(cluster):
    wanted = cluster.folder / "timers"
    go = cluster.folder / "go"
    script = (f'echo "told $TORCHELASTIC_TIMER_FILE"; until [ -e {go} ]; do sleep 0.1; done; '
              "say $BASHPID mine $(now) 9; sleep 1000")
    agents = []
    for name in "ab":
        agents.append(shell(cluster, name, script,
                            variables={"TORCHELASTIC_TIMER_FILE": str(wanted)}))
        agents[-1].says("told /")  # the warning says "by"
    paths = [agent.out().split()[1] for agent in agents]
    assert paths[0] == str(wanted) and "watchdog_timer_" in paths[1]
    assert "another program reads a pipe of that name" in agents[1].err()
    go.touch()
    assert [agent.wait() for agent in agents] == [128 + 9] * 2
    assert not wanted.exists() and not pipes(cluster)


def test_where_no_pipe_can_be_made_workers_find_none(cluster):
    nowhere = cluster.folder / "none"
    job = shell(cluster, "a", 'echo "by <$TORCHELASTIC_TIMER_FILE>"',
                variables={"TORCHELASTIC_TIMER_FILE": f"{nowhere}/pipe", "TMPDIR": str(nowhere)})
    assert job.wait() == 0
    assert job.out() == "by <>\n"
    assert len(re.findall("no timer of torch.distributed.elastic can expire", job.err())) == 1


def test_without_being_asked_for_there_is_no_pipe(cluster):
    job = shell(cluster, "a", 'echo "by <$TORCHELASTIC_TIMER_FILE>"',
                variables={"TORCHELASTIC_ENABLE_FILE_TIMER": "0"})
    assert job.wait() == 0 and job.out() == "by <>\n"
    assert not pipes(cluster)
