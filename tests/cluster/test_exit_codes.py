"""ddprun's exit codes: each row of the table in launcher/README.md."""

import json
import re
import signal
import subprocess

import pytest

from tests.support import pages
from tests.support.cluster import BIN, wait_for
from tests.support.ports import free_port


def test_the_table_and_the_help_have_the_codes_that_the_program_is_built_with():
    header = (pages.ROOT / "rendezvous/base/exit_codes.hpp").read_text()
    built_with = set(re.findall(r"_exit_code = (\d+);", header))
    assert len(built_with) >= 5
    section = pages.LAUNCHER.read_text().split("## Exit codes", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"^\| (\d+) \|", section, re.M)) == built_with | {"0"}
    shown = subprocess.run([BIN / "ddprun", "--help"], capture_output=True, text=True, check=True)
    help_text = shown.stdout.split("Exit code:", 1)[1]
    assert set(re.findall(r"; (\d+) when|; (\d+) for", help_text)) == {
        (code, "") if code != "2" else ("", code) for code in built_with}


def exit_of(program, *words, text=""):
    return subprocess.run([BIN / program, *map(str, words)], input=text, capture_output=True,
                          text=True, check=False).returncode


def test_the_other_programs_exit_as_their_table_says(cluster, tmp_path):
    section = pages.LAUNCHER.read_text().split("| the other programs |", 1)[1].split("\n\n", 1)[0]
    programs = set(re.findall(r"^\| `([^`]+)` \|", section, re.M))
    daemon = cluster.daemon()
    seen = {
        "ddprun doctor": [(0, exit_of("ddprun", "doctor", "--help")),
                          (2, exit_of("ddprun", "doctor", "--no-such-option"))],
        "ddprun explain": [(0, exit_of("ddprun", "explain", "-", text="CUDA out of memory\n")),
                           (1, exit_of("ddprun", "explain", "-", text="all is well\n")),
                           (2, exit_of("ddprun", "explain", tmp_path / "none")),
                           (2, exit_of("ddprun", "explain"))],
        "ddprun manifest": [(0, exit_of("ddprun", "manifest", "kubernetes", "--image=a:1",
                                        "train.py")),
                            (2, exit_of("ddprun", "manifest", "kubernetes", "train.py"))],
        "ddprun-rendezvous": [(1, exit_of("ddprun-rendezvous", "--port", daemon.port,
                                          "--state-dir=none")),
                              (2, exit_of("ddprun-rendezvous", "--no-such-option"))],
    }
    daemon.kill(signal.SIGTERM)
    assert daemon.wait() == 0
    assert set(seen) == programs
    for name, codes in seen.items():
        assert all(code == wanted for wanted, code in codes), (name, codes)


@pytest.mark.parametrize("words, code", [
    (["true"], 0),
    (["sh", "-c", "exit 7"], 7),
    (["sh", "-c", "sh -c 'kill -9 $PPID'; sleep 100"], 137),
    (["sh", "-c", "sh -c 'kill -11 $PPID'; sleep 100"], 139),
    (["no-such-program"], 2),
])
def test_one_node_exits_with_what_its_worker_did(cluster, words, code):
    assert cluster.agent("", command=["--no-python", *words]).wait() == code


def test_a_wrong_command_line_is_2(cluster):
    assert cluster.agent("", "--no-such-option").wait() == 2


def test_a_node_that_the_run_refuses_exits_with_78(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    first = cluster.agent("node-a", endpoint=endpoint, nnodes="1:2", conf="last_call_timeout=0.1")
    cluster.started(1, 1)
    other = cluster.agent("node-b", "--max-restarts=5", endpoint=endpoint, nnodes="1:2",
                          conf="last_call_timeout=0.1")
    assert other.wait() == 78
    # The only node is the whole run, so the run ends with its signal.
    first.kill(signal.SIGTERM)
    assert first.wait() == 143


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_node_that_is_told_to_leave_exits_with_0_where_the_others_go_on(cluster, number):
    daemon = cluster.daemon()
    a, b = cluster.nodes("node-a", "node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2")
    cluster.started(1, 2)
    b.kill(number)
    assert b.wait() == 0
    cluster.started(2, 1)
    cluster.finish(1)
    assert a.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_an_interrupted_job_exits_with_130_everywhere(cluster):
    daemon = cluster.daemon()
    a, b = cluster.nodes("node-a", "node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes="2")
    cluster.started(1, 2)
    a.kill(signal.SIGINT)
    assert (a.wait(), b.wait()) == (130, 130)


def test_the_report_tells_what_143_does_not(cluster):
    """If a worker got SIGTERM, it has failed; if every node got it, the job has been stopped."""
    told = {}
    for name in ("failed", "stopped"):
        report = cluster.folder / name
        agent = cluster.agent(name, "--report", report, run=name)
        wait_for("the worker", lambda: name in [one.node for one in cluster.events("start")])
        if name == "failed":
            cluster.order(0, "kill -TERM $$")
        else:
            agent.kill(signal.SIGTERM)
        assert agent.wait() == 143
        told[name], = map(json.loads, report.read_text().splitlines())
    for name, one in told.items():
        assert (one["outcome"], one["goes_on"], one["exit_code"]) == (name, False, 143), one
    assert told["failed"]["root_cause"]["kind"] == "signal"
    assert told["stopped"]["root_cause"]["kind"] == "drain"
    assert told["stopped"]["text"] == "every node was asked to leave"


def test_nodes_that_do_not_meet_in_time_exit_with_69(cluster):
    conf = "join_timeout=1"
    nobody = cluster.agent("node-a", "--embed-daemon=never", endpoint=f"127.0.0.1:{free_port()}",
                           nnodes="2", conf=conf)
    alone = cluster.agent("node-b", endpoint=f"127.0.0.1:{free_port()}", nnodes="2", conf=conf)
    assert (nobody.wait(), alone.wait()) == (69, 69)
    assert "exit code 69: cannot reach the rendezvous daemon" in nobody.err()
    assert "exit code 69: gave up after 1 s (join_timeout): waiting for 1 of 2 nodes" in alone.err()
