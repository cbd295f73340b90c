"""Ctrl-C in each phase of tests/run leaves nothing that it has started."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from test_runner import LIMIT_S, processes_of, start, tree, wait_for  # noqa: F401 (a fixture)

ROOT = Path(__file__).resolve().parents[2]
# A program that never ends, and a child that has left its session.
HANGS = "#!/bin/sh\nsetsid sleep 1000 &\necho >begun\nwait\n"
DONE = "#!/bin/sh\n"
BUILT = {"bin/cmake": DONE, "bin/ninja": DONE}
ONE_TEST = 'case "$*" in *--list-test-names-only*) echo one; exit ;; esac\n'
FAILS = "".join(f"echo \"##teamcity[{event} name='one' message='x.cpp:1' duration='1']\"\n"
                for event in ("testStarted", "testFailed", "testFinished"))
PYTEST = """
import subprocess, time
from pathlib import Path

def test_it():
    left = subprocess.Popen(["setsid", "sleep", "1000"])
    Path("begun").touch()
    time.sleep(1000)
"""
CHECKS = {f"tests/support/check_{name}.py": ""
          for name in ("layers", "hiding", "names", "ports", "messages")}
# The files of the tree, and the arguments of tests/run.
PHASES = {
    "configuring": ({"bin/cmake": HANGS}, ["unit"]),
    "building": ({"bin/cmake": DONE, "bin/ninja": HANGS}, ["unit"]),
    "asking a program for its tests": ({**BUILT, "build/bin/unit_tests": HANGS}, ["unit"]),
    "a program of tests": (
        {**BUILT, "build/bin/unit_tests": DONE + ONE_TEST + HANGS}, ["unit"]),
    "a program of tests that compute": (
        {**BUILT, "build/bin/simulation_tests": DONE + ONE_TEST + HANGS}, ["simulation"]),
    "a second try": (
        {**BUILT, "build/bin/process_tests":
         DONE + ONE_TEST + "[ ! -e tried ] || exec ./hangs\necho >tried\n" + FAILS + "exit 1\n",
         "hangs": HANGS}, ["process"]),
    "fuzzing": ({**BUILT, "build/bin/fuzz_one": HANGS.replace("begun", "../../begun")}, ["fuzz"]),
    "pytest": ({**BUILT, "tests/cluster/test_it.py": PYTEST}, ["cluster"]),
    "a check of the style": ({**CHECKS, "tests/support/check_sizes.py":
                              "import os\nos.system('./hangs')\n", "hangs": HANGS}, ["style"]),
    "a round under load": ({**BUILT, "build/bin/process_tests": DONE + ONE_TEST + HANGS},
                           ["--repeat", "1", "--under-load", "process"]),
    "the demo on other processors": (
        {**BUILT, "examples/demo": HANGS, "tests/cluster/test_torch.py": "def test(): pass\n",
         "tests/interop/test_it.py": "def test(): pass\n"}, ["arithmetic"]),
    "an environment with another PyTorch": (
        {"tests/torch_versions.txt": "torch==1.0.0\n", "tests/support/torch_environment": HANGS},
        ["versions"]),
    "mutants": ({"tests/mutation/run": HANGS}, ["mutation"]),
}


def write(tree, files):  # noqa: F811
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
        (tree / name).chmod(0o755)


@pytest.mark.parametrize("phase", PHASES)
def test_nothing_is_left(tree, phase):  # noqa: F811
    files, words = PHASES[phase]
    write(tree, files)
    run = start(tree, *words)
    try:
        wait_for(lambda: (tree / "begun").exists() or run.poll() is not None)
        assert run.poll() is None, run.communicate()[0]
        assert len(processes_of(tree)) >= 2
        run.send_signal(signal.SIGINT)
        text, _ = run.communicate(timeout=LIMIT_S)
    finally:
        run.kill()
    assert run.returncode == 128 + signal.SIGINT, text
    assert "tests/run: SIGINT: ending all that was started\n" in text
    assert not processes_of(tree)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_of_setting_up(tree, number):  # noqa: F811
    """Ctrl-C goes to the whole process group, other signals only to the script."""
    for name in ("run", "setup", "requirements.txt", "constraints.txt", "support/foreground.sh"):
        (tree / "tests" / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests" / name, tree / "tests" / name)
    write(tree, {"bin/dpkg-query": "#!/bin/sh\nexit 1\n", "bin/id": "#!/bin/sh\necho 0\n",
                 "bin/apt-get": "#!/bin/sh\necho >begun\nexec sleep 1000\n"})
    run = subprocess.Popen(
        # A shell starts its background jobs with SIGINT ignored, and their children inherit that.
        ["env", "--default-signal=INT", tree / "tests/run", "unit"], start_new_session=True,
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": f"{tree}/bin:{os.environ['PATH']}"})
    try:
        wait_for(lambda: (tree / "begun").exists() or run.poll() is not None)
        assert run.poll() is None, run.communicate()[0]
        (os.killpg if number == signal.SIGINT else os.kill)(run.pid, number)
        text, _ = run.communicate(timeout=LIMIT_S)  # until no process has its output open
    finally:
        subprocess.run(["pkill", "-KILL", "-s", str(run.pid)], check=False)
    assert run.returncode == 128 + number, text
    assert f"run: {number.name}: ending all that was started\n" in text
    assert "setup: packages: installing g++" in text
