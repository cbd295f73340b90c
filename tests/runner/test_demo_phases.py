"""Ctrl-C, and a signal to the script alone, in each phase of examples/demo: one line says so, and
nothing that it has started is left. And what it refuses."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_runner import LIMIT_S, wait_for

ROOT = Path(__file__).resolve().parents[2]
DONE = "#!/bin/sh\n"
# A program that never ends, and a child of it, each of which a signal ends.
HANGS = "#!/bin/sh\nenv --default-signal=INT sleep 1000 &\necho >begun\nwait\n"
AGENT = "#!/bin/sh\necho the job runs\necho >begun\nexec sleep 1000\n"
MUTE_DAEMON = "#!/bin/sh\necho >begun\nexec sleep 1000\n"
DAEMON = """#!/bin/sh
while [ "$1" != --port-file ]; do shift; done
echo 1 >"$2"
exec sleep 1000
"""
BUILT = {"tests/setup": DONE, "bin/ninja": DONE, "build/build.ninja": ""}
PHASES = {
    "setting up": {"tests/setup": HANGS},
    "configuring": {"tests/setup": DONE, "bin/cmake": HANGS},
    "building": {**BUILT, "bin/ninja": HANGS},
    "starting the daemon": {**BUILT, "build/bin/ddprun-rendezvous": MUTE_DAEMON},
    "training": {**BUILT, "build/bin/ddprun-rendezvous": DAEMON, "build/bin/ddprun": AGENT},
}


class Demo:
    """A checkout with the demo and these programs."""

    def __init__(self, folder, files):
        self.folder = folder
        for name in ("examples/demo", "examples/01_snapshot_resume/demo.py",
                     "tests/support/foreground.sh"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        (folder / ".venv/bin").mkdir(parents=True)
        (folder / ".venv/bin/python").symlink_to(sys.executable)
        (folder / "tmp").mkdir()
        self.environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}",
                            "TMPDIR": f"{folder}/tmp"}
        self.environment.pop("DDPRUN_TEST_RUN", None)  # of the run that this test is part of

    def start(self, *words):
        return subprocess.Popen(
            # A shell starts its background jobs with SIGINT ignored, and their children inherit it.
            ["env", "--default-signal=INT", self.folder / "examples/demo", *words],
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True)

    def processes(self):
        def belongs(folder):
            try:
                return f"PATH={self.folder}/bin:".encode() in (folder / "environ").read_bytes()
            except OSError:
                return False

        return [folder.name for folder in Path("/proc").glob("[0-9]*") if belongs(folder)]


@pytest.mark.parametrize("how", ["Ctrl-C", signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("phase", PHASES)
def test_nothing_is_left_of_the_demo(tmp_path, phase, how):
    """Ctrl-C goes to the whole process group."""
    demo = Demo(tmp_path, PHASES[phase])
    run = demo.start()
    try:
        wait_for(lambda: (tmp_path / "begun").exists() or run.poll() is not None)
        assert run.poll() is None, run.communicate()
        if how == "Ctrl-C":
            os.killpg(run.pid, signal.SIGINT)
        else:
            run.send_signal(how)
        _, errors = run.communicate(timeout=LIMIT_S)
        left = demo.processes()
    finally:
        for pid in demo.processes():
            os.kill(int(pid), signal.SIGKILL)
    number = signal.SIGINT if how == "Ctrl-C" else how
    assert run.returncode == 128 + number, errors
    (line,) = filter(None, errors.splitlines())
    assert line.startswith(f"demo: {number.name}: "), errors
    assert not left
    assert not list((tmp_path / "tmp").iterdir())


def refusal(demo, *words):
    run = demo.start(*words)
    _, errors = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 2, errors
    return errors


@pytest.mark.parametrize("words, line", [
    (["--epoch", "x"], "argument --epochs: invalid int value: 'x'"),
    (["--kill-at", "50"], "--kill-at must be after the first snapshot and before the last epoch"),
    (["--gpus"], "unrecognized arguments: --gpus")])
def test_a_wrong_argument_is_refused(tmp_path, words, line):
    errors = refusal(Demo(tmp_path, BUILT), *words)
    assert errors.startswith("usage: demo ") and errors.endswith(f"demo: error: {line}\n")


def test_a_build_of_another_checkout_is_refused(tmp_path):
    demo = Demo(tmp_path, {**BUILT, "build/CMakeCache.txt":
                           "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n"})
    assert refusal(demo) == ("demo: build/ was made for another checkout, /elsewhere: remove it\n")


@pytest.mark.parametrize("files, needed", [({"tests/setup": DONE}, 1000), (BUILT, 200)])
def test_a_full_disk_is_refused(tmp_path, files, needed):
    demo = Demo(tmp_path, {**files, "bin/df": "#!/bin/sh\necho Avail; echo '    199'\n"})
    assert refusal(demo) == (f"demo: 199 MiB are free in {tmp_path}, and {needed} are needed: make "
                             "room\n")


def test_a_program_that_does_not_start_is_one_line(tmp_path):
    run = Demo(tmp_path, BUILT).start()
    _, errors = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 1
    assert errors == ("demo: FAILED: [Errno 2] No such file or directory: "
                      f"'{tmp_path}/build/bin/ddprun-rendezvous'\n")
