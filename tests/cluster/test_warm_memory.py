"""Spares are the first to go when a worker needs their memory; they come back when there is
room."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support import cgroups
from tests.support.cluster import Program, wait_for

LIMIT = 600_000_000
KEPT = 64 << 20  # ddprun keeps so much free (launcher/warm/memory_watch.hpp)

# The worker holds as many bytes as the file says.
SCRIPT = textwrap.dedent("""
    import os, sys, time
    import decimal
    folder = os.environ["DDPRUN_TEST_CONTROL"]
    is_warm = any(hasattr(one, "holds") for one in sys.meta_path)
    print("attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], "is warm" if is_warm else "is cold",
          flush=True)
    held = b""
    while os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        with open(folder + "/wanted") as file:
            wanted = file.read()
        if wanted == "end":
            os._exit(3)
        if wanted and int(wanted) != len(held):
            held = b""
            held = b"x" * int(wanted)
            print("holds", wanted, flush=True)
        time.sleep(0.01)
""")


@pytest.fixture
def small_memory():
    with cgroups.of_memory(LIMIT) as folder:
        yield folder


@pytest.mark.parametrize("goes_back", [False, True])
def test_spares_give_way_to_a_worker_that_grows(small_memory, cluster, tmp_path, goes_back):
    (tmp_path / "train.py").write_text(SCRIPT)
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}"
    subprocess.run([base, "-m", "venv", "--without-pip", tmp_path / "environment"], check=True)
    wanted = cluster.folder / "wanted"
    wanted.write_text("0")
    line = cluster.agent_line("node", "--warm", "auto", "--max-restarts", 1,
                              command=[tmp_path / "train.py"])
    enter = f"echo $$ > {small_memory}/cgroup.procs; exec \"$@\""
    agent = Program(cluster, "node", ["/bin/sh", "-c", enter, "sh", *line], environment={
        "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHON_EXEC": str(tmp_path / "environment" / "bin" / "python")})

    def want(text):  # atomically
        (cluster.folder / "new").write_text(text)
        (cluster.folder / "new").rename(wanted)

    agent.says("1 spare worker waits")
    full = cgroups.memory_left(small_memory, LIMIT) - KEPT // 2
    want(str(full))
    agent.says(rf"warm: memory is short: .* are left in cgroup {small_memory}: "
               "no spare workers until there is room")
    wait_for("the worker's memory", lambda: f"holds {full}" in agent.out())
    if goes_back:
        want("1")
        wait_for("another spare", lambda: agent.err().count("1 spare worker waits") == 2)
    want("end")
    assert agent.wait() == 0, agent.err()
    assert f"attempt 1 is {'warm' if goes_back else 'cold'}" in agent.out(), agent.err()
    assert agent.err().count("memory is short") == 1
    cluster.nothing_left()
