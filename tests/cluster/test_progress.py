"""Scripts that say how far they are: a rank that computes, and makes no step, hangs."""

import json
import re
import sys

import pytest

from tests.cluster.test_hangs import start
from tests.support.cluster import ROOT
from tests.support.standing_script import line_of, write

SAYS = """
    with open(os.environ["DDPRUN_PROGRESS"], "w") as file:
        file.write(f"{1200 + step}")
    time.sleep(1 if attempt == 0 else 0)  # a look at the ranks sees several steps
"""
SPINS = """
    if rank == 1 and attempt == 0 and step == 4:
        sum(range(10**15))
"""


@pytest.mark.main_path
def test_a_rank_that_spins_and_makes_no_step_is_named_with_its_step(cluster, tmp_path):
    """It uses the processor, like a rank that waits for its GPU."""
    script = write(tmp_path, SAYS + SPINS, steps=6)
    report = tmp_path / "report"
    agent = start(cluster, script, "--hang-timeout", 3, "--report", report, workers=2)
    assert agent.wait() == 0, agent.err()
    cause = json.loads(report.read_text().splitlines()[0])["root_cause"]
    assert (cause["kind"], cause["rank"]) == ("hung", 1)
    assert (f"rank 1 stood in forward (train.py:{line_of(script, 'sum(range')}) in step 1204 while "
            "rank 0 waited in all_reduce, ") in cause["sentence"]
    assert cause["sentence"].endswith(" in step 1204")
    reports = [json.loads(line)["reached"] for line in report.read_text().splitlines()]
    assert reports == ["step 1204", "step 1205"]
    assert "| this node had reached step 1204" in agent.err()
    assert re.search(r"\| round 1, .*, step 1204: node: rank 1 ", agent.err())
    assert agent.out().count("attempt 1 has ended well") == 2
    cluster.nothing_left()


@pytest.mark.parametrize("how", ["(folder / 'snapshot').write_bytes(bytes(1 << 20))",
                                 "__import__('subprocess').run([sys.executable, '-c', "
                                 "'sum(range(3 * 10**7))'])"])
def test_a_rank_that_writes_or_has_others_compute_moves_though_it_makes_no_step(cluster, tmp_path,
                                                                                how):
    script = write(tmp_path, SAYS + f"""
    until = time.monotonic() + 6
    while rank == 0 and step == 4 and time.monotonic() < until:
        {how}; time.sleep(0.3)
    """, steps=6)
    agent = start(cluster, script, "--hang-timeout", 3, workers=2)
    assert agent.wait() == 0, agent.err()
    assert "hang" not in agent.err() and "attempt 0 has ended well" in agent.out()
    cluster.nothing_left()


def test_the_lines_that_the_page_shows_say_it(cluster, tmp_path):
    (lines,) = re.findall(r"```python\n(if \"DDPRUN_PROGRESS\" in.*?)```",
                          (ROOT / "launcher/evidence/README.md").read_text(), re.S)
    script = tmp_path / "train.py"
    script.write_text("import os\nstep = 1204\n" + lines + "raise SystemExit(3)\n")
    agent = cluster.agent("node", "--report", tmp_path / "report", command=[script],
                          environment={"PYTHON_EXEC": sys.executable})
    assert agent.wait() == 3
    assert json.loads((tmp_path / "report").read_text())["reached"] == "step 1204"
    cluster.nothing_left()


def test_the_wheels_module_tells_its_progress_only_if_the_launcher_asks(cluster, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("""
import os, sys
sys.path.insert(0, sys.argv[1])
import ddprun
ddprun.progress(1204)
path = os.environ.get("DDPRUN_PROGRESS")
print("said", open(path).read() if path else None)
""")
    wheel = ROOT / ".cmake" / "package" / "wheel"
    for options, said in (((), "said 1204"), (("--evidence", 0, "--hang-timeout", "off"),
                                              "said None")):
        agent = cluster.agent("node", *options, run=f"run{len(options)}", command=[script, wheel],
                              environment={"PYTHON_EXEC": sys.executable,
                                           "DDPRUN_PROGRESS": "/of/another/agent"})
        assert agent.wait() == 0, agent.err()
        assert said in agent.out()


def test_what_is_no_step_says_nothing(cluster, tmp_path):
    script = write(tmp_path, """
        if rank == 2 and attempt == 0 and step == 1:
            open(os.environ["DDPRUN_PROGRESS"], "w").write("almost there" * 10000)
            time.sleep(3600)
    """)
    agent = start(cluster, script, "--hang-timeout", 2)
    assert agent.wait() == 0, agent.err()
    assert "rank 2 stood in forward" in agent.err() and "in step" not in agent.err()
    cluster.nothing_left()
