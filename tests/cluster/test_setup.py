"""`tests/setup`: which packages it asks for on a machine that has none, what it says without a
network or without room, and that it leaves nothing behind. Nothing is installed."""

import os
import shutil
import signal
import subprocess

import pytest

from tests.support.cluster import ROOT, wait_for

SETUP = ROOT / "tests" / "setup"


@pytest.fixture
def bare_machine(tmp_path):
    """A PATH with a dpkg that knows no package, and no apt-get."""
    for name in ("bash", "dirname", "sed", "grep", "mkdir", "flock", "id"):
        (tmp_path / name).symlink_to(shutil.which(name))
    dpkg = tmp_path / "dpkg-query"
    dpkg.write_text("#!/bin/sh\nexit 1\n")
    dpkg.chmod(0o755)
    return {**os.environ, "PATH": str(tmp_path)}


def wanted(environment, *words):
    done = subprocess.run([SETUP, *words], capture_output=True, text=True, env=environment,
                          check=False)
    assert done.returncode == 1, done.stderr
    line = done.stderr.splitlines()[-1]
    words, _, names = line.rpartition(": ")
    assert words == "setup: these Debian packages are missing, and there is no apt-get here"
    return set(names.split())


def test_what_is_built_and_run_needs_no_tools_of_the_tests(bare_machine):
    build, everything, sanitizers = (wanted(bare_machine, *words)
                                     for words in (["build"], [], ["sanitizers"]))
    assert {"g++", "cmake", "ninja-build", "libboost1.81-dev", "python3-venv"} <= build
    others = {"slurmctld", "openmpi-bin", "mpich", "buildah", "openssh-server", "debootstrap"}
    assert build < everything < sanitizers
    assert not others & build and others <= everything
    assert "clang-14" in sanitizers - everything


def test_the_demo_asks_for_no_more():
    assert "\nforeground ./tests/setup build\n" in (ROOT / "examples" / "demo").read_text()


def test_help_and_a_mistake():
    done = subprocess.run([SETUP, "--help"], capture_output=True, text=True, check=True)
    for words in ("tests/setup build ", "tests/setup sanitizers ", "DDPRUN_PYTHON"):
        assert words in done.stdout
    done = subprocess.run([SETUP, "biuld"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == ("setup: 'biuld': write nothing, build or sanitizers; see tests/setup "
                           "--help\n")


DONE = "#!/bin/sh\n"
FAILS = "#!/bin/sh\necho 'no route to host' >&2\nexit 100\n"
HANGS = "#!/bin/sh\necho $$ >begun.new\nmv begun.new begun\nexec sleep 1000\n"
ALL_INSTALLED = """#!/bin/sh
shift 2
for package; do echo "installed $package"; done
"""
NONE_INSTALLED = "#!/bin/sh\nexit 1\n"
# The Python of .venv, which never has everything that is asked for.
PYTHON = """#!/bin/sh
case "$*" in
  "-m pip install "*) exec ./pip ;;
  "-m pip --version") exec ./pip_version ;;
  "-m ensurepip"*) exec ./ensurepip ;;
esac
exit 1
"""


class Checkout:
    """A checkout with nothing but tests/setup, on a machine that has these programs."""

    def __init__(self, folder, programs):
        self.folder = folder
        (folder / "tests/support").mkdir(parents=True)
        for name in ("setup", "requirements.txt", "constraints.txt", "support/foreground.sh"):
            shutil.copy(ROOT / "tests" / name, folder / "tests" / name)
        # tee and what follows it must not create a file outside.
        self.write({"bin/id": "#!/bin/sh\necho 0\n", "bin/tee": DONE, "bin/chmod": DONE,
                    "pip_version": DONE, **programs})

    def write(self, programs):
        for name, text in programs.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def start(self):
        return subprocess.Popen(
            # A shell starts its background jobs with SIGINT ignored, and their children inherit it.
            ["env", "--default-signal=INT", self.folder / "tests/setup", "build"],
            env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def refusal(self):
        """The last line that it prints when it exits with 1."""
        setup = self.start()
        self.out, errors = setup.communicate()
        assert setup.returncode == 1, errors
        return errors.splitlines()[-1]

    def has_called(self, name):
        return (self.folder / name).exists()


@pytest.fixture
def checkout(tmp_path):
    return lambda programs: Checkout(tmp_path, programs)


WITHOUT_PACKAGES = {"bin/dpkg-query": NONE_INSTALLED}
WITHOUT_PYTHON = {"bin/dpkg-query": ALL_INSTALLED, ".venv/bin/python": PYTHON,
                  "bin/df": "#!/bin/sh\necho Avail; echo 90000\n"}


def test_packages_without_a_network(checkout):
    bare = checkout({**WITHOUT_PACKAGES, "bin/apt-get": FAILS})
    line = bare.refusal()
    assert line.startswith("setup: apt-get could not install g++ cmake ")
    assert line.endswith(", see above: is there a network, and disk space?")
    assert "apt-get update failed; going on with the lists that are here\n" in bare.out


def test_python_without_a_network(checkout):
    assert checkout({**WITHOUT_PYTHON, "pip": FAILS}).refusal() == (
        "setup: pip could not install tests/requirements.txt, see above: is there a network, and "
        "disk space?")


def test_a_disk_without_room_for_pytorch_is_refused_before_it_is_fetched(checkout, monkeypatch,
                                                                         tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    small = checkout({**WITHOUT_PYTHON, "pip": "#!/bin/sh\necho >called\n",
                      "bin/df": "#!/bin/sh\necho Avail; echo 8000\n"})
    assert small.refusal() == (f"setup: 8000 MiB are free in {tmp_path}/.venv, and PyTorch needs "
                               "8500: make room")
    assert not small.has_called("called")


def test_a_temporary_folder_without_room_for_the_wheels_is_named(checkout, monkeypatch, tmp_path):
    """The folder seems to be on a disk of its own, because a fake stat says so."""
    monkeypatch.setenv("TMPDIR", "/tmp")
    small = checkout({**WITHOUT_PYTHON, "bin/stat": "#!/bin/sh\neval echo \\$$#\n", "bin/df":
                      "#!/bin/sh\ncase $* in */tmp) echo 2400 ;; *) echo 6000 ;; esac\n"})
    assert small.refusal() == ("setup: 2400 MiB are free in /tmp, and PyTorch needs 2500: make "
                               "room, or name another folder with TMPDIR")


def test_a_python_that_makes_no_environment(checkout, monkeypatch):
    bare = checkout({**WITHOUT_PYTHON, "python": FAILS})
    (bare.folder / ".venv/bin/python").unlink()
    monkeypatch.setenv("DDPRUN_PYTHON", "./python")
    assert bare.refusal() == ("setup: ./python could not make .venv, see above: has it its modules "
                              "venv and ensurepip?")


def test_an_environment_that_was_not_made_to_its_end_gets_its_pip(checkout):
    half = checkout({**WITHOUT_PYTHON, "pip_version": FAILS, "pip": FAILS,
                     "ensurepip": "#!/bin/sh\necho >called\n"})
    assert half.refusal().startswith("setup: pip could not install ")
    assert half.has_called("called")


def test_an_environment_of_another_place_that_is_gone_is_named(checkout):
    moved = checkout(WITHOUT_PYTHON)
    shutil.rmtree(moved.folder / ".venv")
    (moved.folder / ".venv").symlink_to("/elsewhere/.venv")
    assert moved.refusal() == "setup: .venv points to nothing: /elsewhere/.venv; remove it"


def test_a_second_call_waits_for_the_first(checkout):
    bare = checkout({**WITHOUT_PYTHON, "pip": HANGS})
    first = bare.start()
    try:
        wait_for("it to begin", lambda: bare.has_called("begun") or first.poll() is not None)
        second = bare.start()
        assert second.stdout.readline() == "setup: waiting for another tests/setup in this " \
                                           "checkout\n"
        bare.write({"pip": FAILS})
        first.send_signal(signal.SIGTERM)
        first.communicate()
        _, errors = second.communicate()  # it is its turn now
        assert "setup: pip could not install tests/requirements.txt" in errors
    finally:
        first.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("programs", [
    {**WITHOUT_PACKAGES, "bin/apt-get": HANGS},
    {**WITHOUT_PYTHON, "pip": HANGS},
], ids=["apt-get", "pip"])
def test_a_signal_ends_what_it_installs_with(checkout, programs, number):
    bare = checkout(programs)
    setup = bare.start()
    wait_for("it to begin", lambda: bare.has_called("begun") or setup.poll() is not None)
    assert setup.poll() is None, setup.communicate()
    installer = int((bare.folder / "begun").read_text())
    try:
        setup.send_signal(number)
        setup.wait()
        with pytest.raises(ProcessLookupError):
            os.kill(installer, 0)
    finally:
        subprocess.run(["kill", "-KILL", str(installer)], check=False, capture_output=True)
    _, errors = setup.communicate()
    assert setup.returncode == 128 + number
    assert errors == f"setup: {number.name}: ending all that was started\n"
