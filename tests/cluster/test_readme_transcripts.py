"""The transcripts on the pages for users show what is really printed. Their commands are run, with
stand-ins for the scripts that the pages do not show, and with this host in place of 10.0.0.1."""

import re
import signal
import sqlite3
import sys
import textwrap

import pytest

from tests.support import pages
from tests.support.cluster import BIN, Program, get
from tests.support.ports import free_port

PAGES = pages.text()
NODES = re.findall(r"node-a\$ ddprun (.*?)\n(.*?)\n\nnode-b\$ ddprun (.*?)\n(.*?)```", PAGES, re.S)


def measured(text):
    """The text without what differs each time."""
    for what, name in ((r"\d\d:\d\d:\d\d\.\d{3}", "TIME"), (r"[\d.]+ m?s after", "SECONDS after"),
                       (r"(round \d+), [\d.]+ m?s,", r"\1, SECONDS,"),
                       (r"(10\.0\.0|127\.0\.0)\.[12]", "HOST"), (r"HOST:\d+", "HOST:PORT"),
                       (r" after [\d.]+ m?s( to [\d.]+ m?s)?", " after SECONDS"),
                       (r"process \d+", "process PID"), (r"\S*/logs/job1_node-a_\w{6}", "LOGS")):
        text = re.sub(what, name, text)
    # What a node waits for is printed after 2 s, which a slow machine may take.
    return re.sub(r"^ddprun \S+ TIME: round \d+: .*\n", "", text, flags=re.M)


def shown(begin):
    """What is below the line that begins with this, and that line's arguments."""
    [(line, text)] = re.findall(rf"^\$ ddprun ({re.escape(begin)}.*?) train.py\n(.*?)```", PAGES,
                                re.S | re.M)
    return line.split(), text


def start(cluster, name, arguments, script):
    path = cluster.folder / "train.py"
    path.write_text(textwrap.dedent(script))
    return Program(cluster, name, [BIN / "ddprun", *arguments, path], cwd=cluster.folder,
                   environment={"PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1"})


HELLO = """
    import os
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    print(f"rank {rank} of {size}: the sum is {sum(range(size))}")
"""


@pytest.mark.parametrize("number", [0, 1], ids=["endpoint", "static"])
def test_two_nodes(cluster, number):
    port = str(free_port())
    nodes = []
    for name, line in (("node-a", NODES[number][0]), ("node-b", NODES[number][2])):
        words = [{"10.0.0.1": "127.0.0.1" if "master" in line else f"127.0.0.1:{port}",
                  "29500": port}.get(word, word) for word in line.split()]
        assert words.pop() == "hello.py"
        nodes.append(start(cluster, name, ["--node-id", name, *words], HELLO))
        nodes[0].says("waiting for 1 of 2 nodes")
    assert [node.wait() for node in nodes] == [0, 0]
    for node, text in zip(nodes, NODES[number][1::2]):
        lines = measured(text).splitlines()
        words = [line for line in lines if line.startswith("ddprun ")]
        assert sorted(node.out().splitlines()) == sorted(set(lines) - set(words))
        assert set(words) <= set(measured(node.err()).splitlines()), node.err()


def test_a_failure_and_its_restart(cluster):
    arguments, text = shown("--nproc-per-node 2 --max-restarts 1")
    said = "".join(line.removeprefix("[node-a:1] ") for line in text.splitlines(True)
                   if line.startswith("[node-a:1] "))
    job = start(cluster, "node-a", arguments, f"""
        import os, sys, time
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            if os.environ["RANK"] == "0":
                time.sleep(1000)
            sys.stderr.write({said!r})
            sys.exit(1)
    """)
    assert job.wait() == 0
    assert measured(job.err()) == measured(text)


def test_log_files(cluster):
    arguments, text = shown("--nproc-per-node 2 --node-id node-a --rdzv-id job1")
    job = start(cluster, "node-a", arguments, f"""
        import os, sys, time
        ended = {str(cluster.folder / "ended")!r}
        if os.environ["RANK"] == "0":
            print("step 1200", flush=True)
            open(ended, "w").write(str(os.getpid()))
            sys.exit(0)
        while not os.path.exists(ended) or not open(ended).read():
            time.sleep(0.01)
        while os.path.exists("/proc/" + open(ended).read()):
            time.sleep(0.01)
        print("loss is NaN in step 1200", file=sys.stderr)
        sys.exit(1)
    """)
    assert job.wait() == 1
    lines = measured(text).splitlines()
    lines.remove("[node-a:0] step 1200")
    assert job.out() == "[node-a:0] step 1200\n"
    assert measured(job.err()).splitlines() == lines


def test_the_daemons_view(cluster):
    daemon = cluster.daemon()
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2, workers=2,
                          run="job1")
    agent.says("waiting for 1 of 2 nodes")
    assert get(daemon.port, "/healthz") == (200, "ok\n")
    [text] = re.findall(r"/api/v1/runs\n(.*?)\n      \.\.\.\n", PAGES, re.S)
    another_each_time = re.compile(r'for \d+ (s|ms)|"instance": "\w+"')
    answer = another_each_time.sub("", get(daemon.port, "/api/v1/runs")[1])
    assert answer.startswith(another_each_time.sub("", text)), answer
    agent.kill(signal.SIGTERM)
    agent.wait()


def test_the_journal_is_read_by_any_tool(cluster):
    daemon = cluster.daemon(free_port())
    agent = cluster.agent("node-a", "--max-restarts=3", endpoint=f"127.0.0.1:{daemon.port}",
                          run="job1")
    cluster.started(1, 1)
    cluster.order(0, "exit 1")
    cluster.started(2, 1)
    daemon.kill()
    daemon.wait()
    [query, row] = re.findall(r"^\$ sqlite3 \S+ '(.*?)'\n(.*?)\n", PAGES, re.M)[0]
    [journal] = (cluster.folder / "state/ddprun").glob(f"*-{daemon.port}/journal.sqlite")
    with sqlite3.connect(journal) as opened:
        found = opened.execute(query).fetchall()
    assert ["|".join("" if value is None else str(value) for value in one)
            for one in found] == [row]
    agent.kill()
    agent.wait()
    cluster.nothing_left()
