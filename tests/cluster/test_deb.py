"""The Debian package: its contents, manual pages that say what --help says, and a job that it
runs."""

import gzip
import os
import re
import shutil
import subprocess

import pytest

from tests.support import old_root
from tests.support.cluster import BIN, LIMIT, ROOT, Program
from tests.support.packages import built, cached

PAGES = {"ddprun": 1, "ddprun-nccl-id": 1, "ddprun-rendezvous": 8}
UNITS = ("ddprun-rendezvous.service", "ddprun-rendezvous.socket")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True).stdout


@pytest.fixture(scope="module")
def package():
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb here")
    return built("deb", "*.deb")


@pytest.fixture(scope="module")
def unpacked(package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("deb")
    run("dpkg", "-x", package, folder)
    return folder / "usr"


def page_of(unpacked, name):
    return unpacked / f"share/man/man{PAGES[name]}/{name}.{PAGES[name]}.gz"


def test_it_has_programs_pages_completions_and_units(package, unpacked):
    files = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*")
             if path.is_file()}
    assert files == {
        *(f"bin/{name}" for name in PAGES),
        *(page_of(unpacked, name).relative_to(unpacked).as_posix() for name in PAGES),
        *(f"lib/systemd/system/{unit}" for unit in UNITS),
        "share/bash-completion/completions/ddprun", "share/zsh/vendor-completions/_ddprun"}
    for unit in UNITS:
        assert ((unpacked / "lib/systemd/system" / unit).read_text()
                == (ROOT / "rendezvous/systemd" / unit).read_text())
    for name in PAGES:
        assert os.access(unpacked / "bin" / name, os.X_OK)
    if cached("DDPRUN_OLD_GLIBC") == "ON":
        assert run("dpkg-deb", "--field", package, "Depends") == "libc6 (>= 2.28)\n"


def plain(page):
    """The text that a reader sees of a page's source."""
    text = re.sub(r"^\.[A-Z]+ ?", "", gzip.decompress(page.read_bytes()).decode(), flags=re.M)
    return text.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_help_says(unpacked, name):
    helps = [run(BIN / name, "--help")]
    if name == "ddprun":
        helps += [run(BIN / name, word, "--help")
                  for word in re.findall(r"^ +ddprun ([a-z]+) ", helps[0], re.M)]
        assert len(helps) > 2
    seen = " ".join(plain(page_of(unpacked, name)).split()).lower()
    for line in "\n".join(text.partition("\n\n")[2] for text in helps).splitlines():
        for part in re.split("  +", line.strip()):  # the columns of the layout
            words = " ".join(part.removeprefix("Exit code: ").split()).lower()
            assert words in seen, (line, part)
    for line in helps[0].partition("\n\n")[0].splitlines():  # the usage
        assert re.split("  +", line.removeprefix("usage:").strip())[0].lower() in seen, line


@pytest.mark.parametrize("name", PAGES)
def test_man_shows_a_page_without_a_complaint(unpacked, name):
    if shutil.which("man") is None or shutil.which("lexgrog") is None:
        pytest.skip("no man here (Debian's package man-db)")
    page = page_of(unpacked, name)
    done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True,
                          timeout=LIMIT, check=True,
                          env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
    assert done.stderr == ""
    assert "SYNOPSIS" in done.stdout and "SEE ALSO" in done.stdout
    # The line by which `apropos` finds the page.
    assert re.search(rf'"{name} - \w.*"', run("lexgrog", page))
    if name == "ddprun":  # a value that exceeds the column is not split
        assert re.search(r"^ +--embed-daemon=auto \| always \| never$", done.stdout, re.M)


def test_completions_are_the_programs_own(unpacked):
    for shell, path in (("bash", "share/bash-completion/completions/ddprun"),
                        ("zsh", "share/zsh/vendor-completions/_ddprun")):
        assert (unpacked / path).read_text() == run(BIN / "ddprun", "--print-completion", shell)


def test_programs_of_the_package_run_a_job(cluster, unpacked):
    daemon = Program(cluster, "daemon", [unpacked / "bin/ddprun-rendezvous", "--bind",
                                         "127.0.0.1", "--port", "0", "--recovery-window", "0"])
    port = daemon.says(r"listening on port (\d+)")[1]
    jobs = [Program(cluster, f"job-{node}", [
        unpacked / "bin/ddprun", "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint",
        f"127.0.0.1:{port}", "--embed-daemon", "never", "--no-python", "/bin/sh", "-c",
        "echo rank $RANK of $WORLD_SIZE"]) for node in (1, 2)]
    for job in jobs:
        assert job.wait() == 0, job.err()
    assert sorted(job.out().partition("] ")[2] for job in jobs) == ["rank 0 of 2\n",
                                                                    "rank 1 of 2\n"]


@pytest.mark.slow
def test_dpkg_installs_it_in_a_clean_root_and_takes_it_away(cluster, tmp_path, package):
    """It runs the maintainer scripts, in a system where systemd does not run."""
    root = old_root.make(tmp_path / "root")
    (root / "ddprun.deb").write_bytes(package.read_bytes())
    before = {path.relative_to(root) for path in (root / "usr").rglob("*")}

    def inside(name, *command):
        program = Program(cluster, name, old_root.inside(root, *command))
        assert program.wait() == 0, program.out() + program.err()
        return program.out()

    env = ("env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
    inside("install", *env, "dpkg", "-i", "/ddprun.deb")
    said = inside("job", "ddprun", "--standalone", "--nproc-per-node", "2", "--no-python", "sh",
                  "-c", "echo rank $RANK of $WORLD_SIZE")
    assert sorted(line.partition("] ")[2] for line in said.splitlines()) == [
        "rank 0 of 2", "rank 1 of 2"]
    inside("purge", *env, "dpkg", "--purge", "ddprun")
    assert {path.relative_to(root) for path in (root / "usr").rglob("*")} == before
