"""Why workers are stopped, as they read it in the file that DDPRUN_STOP names."""

import signal
import sys
import textwrap

import pytest

SCRIPT = textwrap.dedent("""
    import os, signal, sys, time
    from pathlib import Path

    rank, may_fail = int(os.environ["RANK"]), Path(sys.argv[1])


    def stop(*_):
        words = open(os.environ["DDPRUN_STOP"]).read().split()
        left = float(words[1]) - time.clock_gettime(time.CLOCK_MONOTONIC)
        print(f"rank {rank}: {words[0]}, killed in 0 to 60 s: {0 < left < 60}", flush=True)
        sys.exit(143)


    signal.signal(signal.SIGTERM, stop)
    assert open(os.environ["DDPRUN_STOP"]).read() == ""
    print(f"rank {rank} is ready", flush=True)
    while rank != 1 or not may_fail.exists():
        time.sleep(0.01)
    sys.exit(3)
""")


@pytest.fixture(name="command")
def command_fixture(tmp_path):
    script = tmp_path / "wait.py"
    script.write_text(SCRIPT)
    return ["--no-python", sys.executable, script, tmp_path / "may_fail"]


@pytest.mark.parametrize("fails", [False, True])
def test_workers_of_a_node_hear_whether_a_rank_has_failed(cluster, tmp_path, command, fails):
    agent = cluster.agent("a", workers=2, command=command)
    for rank in range(2):
        agent.says(f"rank {rank} is ready")
    if fails:
        (tmp_path / "may_fail").touch()
    else:
        agent.kill(signal.SIGTERM)
    assert agent.wait() == (3 if fails else 143)
    word = "failure" if fails else "ordinary"
    said = [line.partition("] ")[2] for line in agent.out().splitlines() if "killed in" in line]
    assert sorted(said) == [f"rank {rank}: {word}, killed in 0 to 60 s: True"
                            for rank in range(1 if fails else 2)]


@pytest.mark.parametrize("number, word", [(signal.SIGTERM, "ordinary"),
                                          (signal.SIGKILL, "failure")])
def test_workers_of_other_nodes_hear_whether_one_has_left_or_is_lost(cluster, command, number,
                                                                      word):
    daemon = cluster.daemon()
    a, b = cluster.nodes("a", "b", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2,
                         command=command)
    a.says("rank 0 is ready")
    b.says("rank 1 is ready")
    b.kill(number)
    b.wait()
    a.says(f"rank 0: {word}, ")
    a.kill(signal.SIGTERM)
    a.wait()
