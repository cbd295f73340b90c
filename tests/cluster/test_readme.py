"""What the pages for users show is true: the first script runs as shown, and options, files and
headings exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import pages
from tests.support.cluster import BIN, ROOT
from tests.support.needs import needs

README = pages.README.read_text()
PAGES = pages.text()


def helps():
    """The help texts of all commands."""
    return "".join(subprocess.run([BIN / words[0], *words[1:], "--help"], capture_output=True,
                                  text=True, check=True).stdout
                   for words in (["ddprun"], ["ddprun", "doctor"], ["ddprun-rendezvous"],
                                 ["ddprun", "manifest", "kubernetes"]))


def benchmark_help():
    """The help texts of the benchmarks whose options a page shows."""
    return "".join(subprocess.run([sys.executable, ROOT / "tests/benchmark" / name, "--help"],
                                  capture_output=True, text=True, check=True).stdout
                   for name in ("hosts_benchmark.py", "evidence_benchmark.py"))


def test_every_option_it_names_is_known():
    known = helps() + benchmark_help()
    of_others = {"--build", "--target", "--now", "--install", "--prefix", "--logs-specs", "--nodes",
                 "--ntasks-per-node", "--gpus-per-node", "--min_replicas", "--bind"}
    for option in set(re.findall(r"(?<![\w-])--[a-z][a-z_-]+", PAGES)) - of_others:
        assert option in known, option


def test_every_option_is_on_a_page():
    every = "".join(page.read_text() for page in pages.EVERY)
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", helps(), re.M))
    assert len(options) > 90
    missing = [option for option in sorted(options - {"--help", "--version"})
               if not re.search(option + r"(?![\w-])", every)]
    assert not missing


def test_the_last_line_of_install_makes_ddprun_and_python_found():
    block = re.search(r"\nFrom source:\n\n```\n(.*?)```", README, re.S)[1]
    programs = [ROOT / "build/bin/ddprun", ROOT / ".venv/bin/python"]
    if not all(program.exists() for program in programs):
        pytest.skip("built elsewhere, or with another Python")
    ask = f"{block.splitlines()[-1]}\ncd / && command -v ddprun python"
    done = subprocess.run(["bash", "-c", ask], cwd=ROOT, env={"PATH": "/usr/bin:/bin"}, text=True,
                          capture_output=True, check=True)
    # The folders are compared, because an environment's Python is a link to the system's.
    found = [Path(line).parent.resolve() for line in done.stdout.splitlines()]
    assert found == [program.parent.resolve() for program in programs]


def test_every_timer_is_in_the_protocol():
    text = subprocess.run([BIN / "ddprun", "--help"], capture_output=True, text=True,
                          check=True).stdout
    timers = re.findall(r"^  ([a-z_]+)=[\d.]+ ", text, re.M)
    assert len(timers) > 10
    protocol = (ROOT / "rendezvous" / "PROTOCOL.md").read_text()
    for timer in timers:
        assert f"`{timer}_us`" in protocol, timer


def prose_of(path):
    """A page without its blocks of code: a lambda of C++ looks like a link."""
    return re.sub(r"```.*?```", "", path.read_text(), flags=re.S)


def heading_links(path):
    """The names by which a page's headings are linked to."""
    headings = re.findall(r"^#+ (.*)$", prose_of(path), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages.EVERY, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", prose_of(page)):
        if target.startswith("http"):
            continue
        name, _, heading = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), target
        assert not heading or heading in heading_links(path), target


def test_what_one_is_told_to_add_to_exists():
    page = (ROOT / "tests/README.md").read_text()
    section = page.split("## Adding something\n", 1)[1].split("\n## ", 1)[0]
    named = re.findall(r"`((?:launcher|rendezvous|tests|worker)/[\w./]+)`", section)
    assert len(named) > 15
    assert not [name for name in named if not (ROOT / name).exists()]


def test_every_program_it_names_exists():
    for name in ("examples/demo", "tests/run", "tests/setup", "tests/benchmark/run"):
        assert name in PAGES
        assert (ROOT / name).exists(), name


def test_the_first_page_is_one_page():
    assert len(README.splitlines()) <= 150


def test_every_test_that_shows_a_rule_exists():
    design = (ROOT / "rendezvous" / "DESIGN.md").read_text()
    named = set(re.findall(r"`(tests/[\w./]+)`", design))
    assert len(named) > 20
    for name in named:
        assert (ROOT / name).exists(), name


def test_no_place_was_left_empty():
    assert "<!--" not in PAGES


@pytest.mark.trains
def test_the_first_job_prints_what_it_shows(cluster, tmp_path):
    needs("torch", "PyTorch is not installed here")
    shown = re.search(r"\$ cat hello.py\n(.*?)\n\n\$ ddprun (.*?) hello.py\n(.*?)```", README, re.S)
    script = tmp_path / "hello.py"
    script.write_text(shown[1] + "\n")
    agent = cluster.agent("", *shown[2].split(), command=[script], workers=2,
                          environment={"PYTHON_EXEC": sys.executable})
    assert agent.wait(180) == 0, agent.err()
    lines = sorted(line for line in shown[3].splitlines() if line.startswith("["))
    assert sorted(agent.out().splitlines()) == lines
    for line in shown[3].splitlines():
        if line.startswith("ddprun "):
            assert line.split(": ", 1)[1] in agent.err(), agent.err()
