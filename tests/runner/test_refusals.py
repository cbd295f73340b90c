"""What tests/run refuses before anything is built, each with one line; and bugs of its own."""

from collections import namedtuple
from pathlib import Path

import pytest
from test_runner import refusal, tree  # noqa: F401 (a fixture)

import builds
import special
from parts import ASAN, PLAIN, TSAN

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize("count", ["0", "-1"])
def test_no_round_is_refused(tree, count):  # noqa: F811
    assert f"--repeat is {count}: it must be at least 1" in refusal(tree, "--repeat", count)


def test_all_builds_that_are_new_have_to_fit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builds.shutil, "disk_usage", lambda _: Usage(0, 0, 3.5 * 2**30))
    for build in (PLAIN, ASAN, TSAN):
        builds.check({build})
    with pytest.raises(builds.Refused, match="3.5 GiB are free in .*, and 7 are needed: make room"):
        builds.check({PLAIN, ASAN, TSAN})
    for build in (PLAIN, TSAN):
        Path(build).mkdir()
        Path(build, "build.ninja").touch()
    builds.check({PLAIN, ASAN, TSAN})


@pytest.mark.parametrize("part", special.BUILDS)
def test_a_part_that_builds_by_itself_is_refused_for_its_folder(tree, part):  # noqa: F811
    build, = special.BUILDS[part]
    (tree / build).mkdir()
    (tree / build / "CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
    assert refusal(tree, part) == (f"tests/run: {build}/ was made for another checkout, "
                                   "/elsewhere: remove it")


def test_a_fault_of_the_runner_is_one_line(tree):  # noqa: F811
    with open(tree / "tests/runner/special.py", "a") as file:
        file.write("\n\ndef style(*_):\n    raise ValueError('no such\\nthing')\n")
    number = (tree / "tests/runner/special.py").read_text().count("\n")
    assert refusal(tree, "style") == (
        f"tests/run: a fault of tests/runner itself, special.py:{number}: ValueError: no such "
        "thing; what had ended until then is in build*/test-logs: report it, with the command")
