"""tests/mutation, without a mutant: what it builds is complete, and its lists name what is there.
Only `thorough` runs the tool itself, so a list that has gone stale would be noticed late."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutation"))

import judge  # noqa: E402
import mutate  # noqa: E402


def own_includes(file):
    """The files of the tree that this one includes, by their paths from the top."""
    named = re.findall(r'^#include "([^"]+)"', (ROOT / file).read_text(), re.M)
    return [one for one in named if (ROOT / one).exists()]


def test_each_file_that_a_mutant_is_built_from_has_what_it_includes():
    copied = judge.copied_files()
    assert {"rendezvous/core/run/run_machine.cpp", "tests/support/run_story.hpp"} <= copied
    missing = {name: wanted for name in copied if (wanted := set(own_includes(name)) - copied)}
    assert not missing


def test_what_a_mutant_includes_is_built_with_it_too():
    """Otherwise the mutant's programs do not link."""
    copied = judge.copied_files()
    not_built = {name for name in copied if name.endswith(".hpp")
                 and (ROOT / name).with_suffix(".cpp").exists()
                 and name.replace(".hpp", ".cpp") not in judge.built_files()}
    assert not not_built


@pytest.mark.parametrize("pattern", mutate.GLOBS)
def test_each_pattern_of_mutated_files_has_mutants(pattern):
    assert mutate.population([pattern])


@pytest.mark.parametrize("name", mutate.LEFT_OUT)
def test_each_file_that_is_left_out_is_there(name):
    assert (ROOT / name).exists()


def test_each_equivalent_mutant_is_one_of_the_tree_and_has_its_reason():
    reasons = mutate.equivalents()
    assert not set(reasons) - {mutant.name for mutant in mutate.population(mutate.GLOBS)}
    assert not [name for name, reason in reasons.items() if not reason]


@pytest.mark.parametrize("group, pattern", [("unit", judge.FUZZ),
                                            *(("simulation", one) for one in judge.SHORT)])
def test_each_choice_of_tests_names_one_that_is_there(group, pattern):
    """Catch2 would run none, and find nothing wrong with that."""
    sources = "".join((ROOT / name).read_text() for name in judge.sources_of(group))
    wanted = pattern.removeprefix("~")
    assert wanted in sources if "[" in wanted else f'TEST_CASE("{wanted.rstrip("*")}' in sources


def test_no_mutant_changes_only_what_is_written_to_the_log():
    lines = {mutant.line for mutant in mutate.population(mutate.GLOBS)}
    assert not [line for line in lines if re.match(r"(out\.)?note(_refusal)?\(", line)]
