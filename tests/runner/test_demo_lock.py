"""examples/demo and tests/run build in one folder, but never at the same time, and neither leaves
anything behind."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from test_runner import LIMIT_S, refusal, start, tree, wait_for  # noqa: F401 (a fixture)

from commands import MARK

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def demo(tree):  # noqa: F811
    """Starts the demo of that tree, whose job reports its start and ends when it is told."""
    for name, text in (("tests/setup", "exit 0"), ("bin/ninja", "exit 0"),
                       (".venv/bin/python", "echo the job runs\nread line")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(f"#!/bin/sh\n{text}\n")
        (tree / name).chmod(0o755)
    (tree / "build").mkdir()
    (tree / "build/build.ninja").touch()
    (tree / "examples").mkdir()
    shutil.copy(ROOT / "examples/demo", tree / "examples")
    (tree / "tests/support").mkdir()
    shutil.copy(ROOT / "tests/support/foreground.sh", tree / "tests/support")
    started = []

    def begin(**variables):
        started.append(subprocess.Popen(
            [tree / "examples/demo"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PATH": f"{tree}/bin:{os.environ['PATH']}", MARK: "", **variables}))
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.communicate()


def runs(one):
    assert one.stdout.readline().startswith("demo: building ")
    assert one.stdout.readline() == "the job runs\n"
    return one


def test_the_demo_waits_for_tests_run(tree, demo):  # noqa: F811
    run = start(tree, "unit")
    wait_for((tree / "begun").exists)
    late = demo()
    assert late.stdout.readline() == (f"demo: waiting: process {run.pid} runs the tests of this "
                                      "tree already\n")
    run.terminate()
    run.communicate(timeout=LIMIT_S)
    runs(late).communicate("\n", timeout=LIMIT_S)


def test_tests_run_is_refused_beside_a_demo(tree, demo):  # noqa: F811
    first = runs(demo())
    assert refusal(tree, "unit") == (f"tests/run: process {first.pid} runs examples/demo in this "
                                     "tree already: wait for it, or end it")
    first.communicate("\n", timeout=LIMIT_S)


def test_a_demo_within_tests_run_does_not_wait_for_it(tree, demo):  # noqa: F811
    run = start(tree, "unit")
    wait_for((tree / "begun").exists)
    runs(demo(**{MARK: "that run"})).communicate("\n", timeout=LIMIT_S)
    run.terminate()
    run.communicate(timeout=LIMIT_S)


def test_a_signal_to_the_demo_ends_its_build(tree, demo):  # noqa: F811
    (tree / "bin/ninja").write_text("#!/bin/sh\necho $$ >pid\nmv pid building\nexec sleep 1000\n")
    run = demo()
    wait_for((tree / "building").exists)
    run.terminate()
    assert run.wait(LIMIT_S) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tree / "building").read_text()), signal.SIGKILL)
