"""The page of each example says how to build it and how to run it."""

import re

import pytest

from tests.support.cluster import ROOT
from tests.support.pages import section

PAGES = sorted(ROOT.glob("examples/0*/README.md"))
OURS = {"ddprun", "ddprun-rendezvous", "ddprun-nccl-id"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_page_of_an_example_builds_what_it_runs(page):
    made = (page.parent / "CMakeLists.txt").read_text()
    programs = set(re.findall(r"(?:add_executable|ddprun_(?:gpu_)?example)\((\w+)", made))
    built = set(re.search(r"^ninja -C build (.+)$", section(page, "Build"), re.M)[1].split())
    assert built - OURS == programs
    assert "ddprun" in built
    run = set(re.findall(r"build/bin/([\w-]+)", page.read_text().split("\n## Build\n")[1]))
    assert run, "no command starts the program"
    of_gpus = {f"{name}_cuda" for name in programs}
    assert run <= built | (of_gpus if "_cuda` as well" in page.read_text() else set())
    assert section(page, "Run").strip()
