"""A process that a test leaves behind is a failure that is never tried again. If a process merely
ends too late, that may be the machine's fault."""

import sys
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT)]

from commands import Commands  # noqa: E402
from outcomes import FAILED, PASSED  # noqa: E402
from parts import Part  # noqa: E402
from runs import Runner  # noqa: E402
from tests.support.cluster import Cluster  # noqa: E402

TESTS = """
import os, subprocess
from tests.support.cluster import wait_for

def leave(cluster):
    subprocess.Popen(["sleep", "1000"], env={**os.environ, "DDPRUN_TEST_MARK": cluster.mark},
                     start_new_session=True)
    wait_for("it to have its environment", cluster.marked)

def test_clean(cluster):
    pass

def test_leaks(cluster):
    leave(cluster)

def test_waits_in_vain(cluster):
    leave(cluster)
    cluster.nothing_left()

def test_is_wrong(cluster):
    assert 1 == 2
"""


def test_what_leaves_processes_is_never_tried_again(tmp_path, monkeypatch):
    there = tmp_path / "tests/leaks"
    there.mkdir(parents=True)
    (there / "test_it.py").write_text(TESTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("DDPRUN_TEST_LIMIT", "1")
    runner = Runner(Commands(), SimpleNamespace(say=lambda text: None, at=lambda *_: None,
                                                over=lambda part: None), sys.executable)
    report = runner.run(Part("leaks", "pytest", "leaks", again=True,
                             arguments=("-p", "tests.cluster.conftest")))
    found = {one.name.partition("::")[2]: (one.result, one.may_be_again)
             for one in report.outcomes}
    assert found == {"test_clean": (PASSED, True), "test_leaks": (FAILED, False),
                     "test_waits_in_vain": (FAILED, False), "test_is_wrong": (FAILED, True)}


def test_what_ends_behind_its_test_is_no_leak(tmp_path, monkeypatch):
    cluster = Cluster(tmp_path)
    looks = iter([{77: "sleep"}, {77: "sleep"}, {}])
    monkeypatch.setattr(cluster, "marked", lambda: next(looks))
    assert cluster.left_behind() == "processes ended only after their test: {77: 'sleep'}"
    monkeypatch.setattr(cluster, "marked", dict)
    assert not cluster.left_behind()
