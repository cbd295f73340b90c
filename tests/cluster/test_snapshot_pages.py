"""Wherever a page or a header shows a loop that saves snapshots, the loop also calls `progress`.
Without that a run that fails right after each resume cannot be told from one that fails between two
saves."""

import re

import pytest

from tests.support import pages
from tests.support.cluster import ROOT

# Calls on snapshots only; torch.save() and the like have another object before the dot.
SAVES = re.compile(r"(?:kept\)?->|kept\.|snapshots\.)(?:begin_)?save\(")
TELLS = re.compile(r"(?:kept\)?->|kept\.|snapshots\.)progress\(")


def blocks_of_page(text):
    return re.findall(r"^```.*?\n(.*?)^```", text, re.M | re.S)


def blocks_of_header(text):
    """The code in its first comment, which is indented further than the sentences."""
    comment = re.match(r"(?:^//.*\n)+", text, re.M)
    return re.findall(r"(?:^//   .*\n)+", comment[0], re.M) if comment else []


def snippets():
    for page in pages.EVERY:
        for block in blocks_of_page(page.read_text()):
            yield page, block
    for header in sorted((ROOT / "worker").rglob("*.hpp")):
        for block in blocks_of_header(header.read_text()):
            yield header, block


SAVING = [(path, block) for path, block in snippets() if SAVES.search(block)]


def test_some_are_found():
    assert {path.name for path, _ in SAVING} >= {"README.md", "snapshots.hpp", "training_state.hpp"}


@pytest.mark.parametrize("path, block", SAVING, ids=lambda value: getattr(value, "name", ""))
def test_a_snippet_that_saves_tells_its_progress(path, block):
    assert TELLS.search(block), f"{path.relative_to(ROOT)} saves without progress():\n{block}"
