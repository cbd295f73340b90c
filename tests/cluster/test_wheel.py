"""The wheel: pip installs the programs beside the environment's Python, and they start its jobs."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support import old_root
from tests.support.cluster import LIMIT, ROOT, Program
from tests.support.packages import built, cached

PROGRAMS = ("ddprun", "ddprun-rendezvous", "ddprun-nccl-id")
SCRIPT = """\
import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "in", sys.prefix)
"""


@pytest.fixture(scope="module")
def wheel():
    return built("wheel", "*.whl")


def pip_install(python, *what):
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                    "--disable-pip-version-check", *what], check=True, timeout=LIMIT)


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A new virtual environment with nothing but the wheel."""
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    # The pip is that of the test's Python, because installing one takes a quarter of a minute.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True,
                   timeout=LIMIT)
    pip_install(sys.executable, "--prefix", folder, wheel)
    return folder


def test_the_wheel_has_the_programs_and_a_few_lines_of_python(wheel):
    platform = r"manylinux_2_28_\w+" if cached("DDPRUN_OLD_GLIBC") == "ON" else r"linux_\w+"
    version = re.fullmatch(rf"ddprun-([\d.]+)-py3-none-{platform}\.whl", wheel.name)[1]
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        entries = {entry.filename: entry for entry in archive.infolist()}
    information = f"ddprun-{version}.dist-info"
    scripts = {f"ddprun-{version}.data/scripts/{name}" for name in PROGRAMS}
    modules = {f"ddprun/{name}.py"
               for name in ("__init__", "__main__", "groups", "nccl", "survivors", "vault")}
    assert set(entries) == {*modules, f"{information}/METADATA", f"{information}/WHEEL",
                            f"{information}/RECORD", *scripts}
    for name in scripts:
        assert entries[name].external_attr >> 16 & 0o777 == 0o755


def test_the_same_programs_make_the_same_wheel(wheel, environment, tmp_path):
    made = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        subprocess.run([sys.executable, ROOT / ".cmake/package/wheel/make_wheel.py", "--version",
                        "0.1.0", "--platform", "linux_x86_64", "--readme", ROOT / "README.md",
                        "--to", folder, environment / "bin/ddprun-rendezvous"], check=True,
                       stdout=subprocess.DEVNULL, timeout=LIMIT)
        made += [path.read_bytes() for path in folder.iterdir()]
        os.utime(environment / "bin/ddprun-rendezvous", (0, 0))
    assert len(made) == 2 and made[0] == made[1]


def sections(program):
    done = subprocess.run(["readelf", "--wide", "--sections", program], check=True,
                          capture_output=True, text=True)
    return set(re.findall(r"\] (\.\S+)", done.stdout))


def test_debug_information_lies_apart(wheel, environment):
    for name in PROGRAMS:
        stripped = sections(environment / "bin" / name)
        assert not [each for each in stripped if each.startswith((".debug", ".symtab"))]
        assert ".gnu_debuglink" in stripped
        assert ".debug_line" in sections(wheel.parent / "debug" / f"{name}.debug")


def run_job(cluster, tmp_path, command, variables=None, text=SCRIPT):
    script = tmp_path / "job.py"
    script.write_text(text)
    plain = {name: value for name, value in os.environ.items() if name != "PYTHON_EXEC"}
    job = Program(cluster, "job", [*command, "--standalone", "--nproc-per-node", "2", script],
                  environment={"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": "", "PYTHON_EXEC": "",
                               "HOME": plain.get("HOME", "/"), **(variables or {})})
    assert job.wait() == 0, job.err()
    return sorted(line.partition("] ")[2] for line in job.out().splitlines())


def in_environment(folder):
    return [f"rank {rank} of 2 in {folder}" for rank in (0, 1)]


@pytest.mark.slow
def test_a_pytorch_job_runs_from_the_wheel(cluster, tmp_path, environment):
    torch = pytest.importorskip("torch", reason="./tests/setup installs it")
    [hello] = re.findall(r"\$ cat hello.py\n(.*?)\n\n", (ROOT / "README.md").read_text(), re.S)
    variables = {"PYTHONPATH": str(Path(torch.__file__).parents[1])}  # as if pip had put it there
    assert run_job(cluster, tmp_path, [environment / "bin/ddprun"], variables, hello) == [
        f"rank {rank} of 2: the sum is 1" for rank in (0, 1)]


def test_a_job_runs_with_the_python_beside_the_program(cluster, tmp_path, environment):
    """As with torchrun, an environment need not be activated if its program is named."""
    expected = in_environment(environment)
    assert run_job(cluster, tmp_path, [environment / "bin/ddprun"]) == expected
    # Nor does another one that is active take its place,
    other = {"PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin", "VIRTUAL_ENV": sys.prefix}
    assert run_job(cluster, tmp_path, [environment / "bin/ddprun"], other) == expected
    # unless it is asked for, or the program was found through a link that the user has made.
    asked = {"PYTHON_EXEC": sys.executable}
    assert run_job(cluster, tmp_path, [environment / "bin/ddprun"], asked) == (
        in_environment(sys.prefix))
    (tmp_path / "ddprun").symlink_to(environment / "bin/ddprun")
    assert run_job(cluster, tmp_path, [tmp_path / "ddprun"], other) == in_environment(sys.prefix)


def test_python_m_ddprun_is_the_program_with_that_python(cluster, tmp_path, environment):
    python = environment / "bin/python"
    assert run_job(cluster, tmp_path, [python, "-m", "ddprun"]) == in_environment(environment)
    done = subprocess.run([python, "-m", "ddprun", "--nproc-per-node"], capture_output=True,
                          text=True, timeout=LIMIT, check=False)
    assert done.returncode == 2 and done.stderr.startswith("ddprun: "), done
    (environment / "bin/ddprun").rename(environment / "bin/elsewhere")
    try:
        done = subprocess.run([python, "-m", "ddprun", "--version"], capture_output=True,
                              text=True, timeout=LIMIT, check=False)
    finally:
        (environment / "bin/elsewhere").rename(environment / "bin/ddprun")
    assert done.returncode == 1
    assert re.fullmatch(r"ddprun: ddprun is in none of .*: install ddprun again\n", done.stderr)


def test_a_daemon_of_the_wheel_serves_agents_of_the_wheel(cluster, environment):
    daemon = Program(cluster, "daemon", [environment / "bin/ddprun-rendezvous", "--bind",
                                         "127.0.0.1", "--port", "0", "--recovery-window", "0"])
    port = daemon.says(r"listening on port (\d+)")[1]
    job = Program(cluster, "job", [environment / "bin/ddprun", "--nproc-per-node", "1",
                                   "--nnodes", "1", "--rdzv-endpoint", f"127.0.0.1:{port}",
                                   "--embed-daemon", "never", "--no-python", "/bin/true"])
    assert job.wait() == 0, job.err()


@pytest.mark.slow
def test_pip_of_an_old_system_takes_the_wheel_and_runs_a_job(cluster, tmp_path, wheel):
    if cached("DDPRUN_OLD_GLIBC") != "ON":
        pytest.skip("built for this system alone (DDPRUN_OLD_GLIBC)")
    root = old_root.make(tmp_path / "root")
    (root / wheel.name).write_bytes(wheel.read_bytes())
    (root / "job.py").write_text(SCRIPT)
    # Its pip is too old to know all names of PEP 600, but has to accept this one.
    line = (f"python3 -m venv /venv && /venv/bin/pip install --no-index /{wheel.name} && "
            "exec /venv/bin/ddprun --standalone --nproc-per-node 2 /job.py")
    job = Program(cluster, "job", old_root.inside(root, "sh", "-ec", line))
    assert job.wait() == 0, job.out() + job.err()
    ranks = sorted(line.partition("] ")[2] for line in job.out().splitlines() if "rank" in line)
    assert ranks == in_environment("/venv")


def test_the_readme_installs_the_wheel_that_the_build_makes(wheel):
    shown = re.search(r"## Install\n\n```\npip install (\S+)\n```",
                      (ROOT / "README.md").read_text())[1]
    if cached("DDPRUN_OLD_GLIBC") != "ON" or os.uname().machine != "x86_64":
        pytest.skip("the page shows the wheel for older systems, on x86-64")
    assert shown == wheel.name
