#!/usr/bin/env python3
"""Checks that pages (*.md) do not name what no longer exists: each path in backticks must exist,
and each identifier in backticks must occur in the tree's sources. Prints each violation as
FILE:LINE, and exits with 1 if there are any.

A path is a word with a known suffix, or one that begins with a folder of the page or of the tree.
It may be relative to the page or to the top, be shortened to its last parts (`base/lifetime.hpp`),
and lack its suffix (`nccl/communicator`). An identifier is a word in lower case with an underscore.
It may be a part of a longer one (`node_timeout`, whose field is `node_timeout_us`).
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^\s*```")
SPAN = re.compile(r"`([^`]+)`")
PATH = re.compile(r"\.{0,2}/?[\w.-]+(/[\w.-]+)*/?")
IDENTIFIER = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
# Fields whose names settings_table.hpp and agent_fields.hpp build from two parts.
JOINED = re.compile(r"_(us|detail)$")
SUFFIXES = (".cpp", ".hpp", ".cu", ".py", ".cmake", ".md")
# Names that are not ours: tests of PyTorch, an argument of Hugging Face's, a script's output.
OF_OTHERS = {"output_dir", "epochs.md", "test_run", "test_api", "exit_barrier_timeout_test",
             "c10d_rendezvous_backend_test", "dynamic_rendezvous_test", "local_elastic_agent_test",
             "rendezvous/utils_test", "file_based_local_timer_test", "test_control_plane",
             "elastic_agent_rendezvous_contract_test", "gpu_health_check_test"}


def tracked(root):
    """The files of the tree: those in git, and new ones that are not ignored."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=root, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (root / name).exists()]


def spans(text):
    """Yields (line number, text) of what is in backticks, outside of code blocks."""
    in_block = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            in_block = not in_block
        elif not in_block:
            for span in SPAN.findall(line):
                yield number, span


def is_path(span, page, root):
    # `NAME_fuzz.cpp` and `tests/...` are patterns, `.cu` is a suffix, `.cache` is not in the tree.
    if not PATH.fullmatch(span) or re.match(r"/|\.[a-z]+$|\.cache/", span):
        return False
    if re.search(r"\bNAME|\.\.\.", span):
        return False
    first = span.removeprefix("./").split("/")[0]
    in_folder = "/" in span.rstrip("/") and first in {
        path.name for folder in (root, page.parent) for path in folder.iterdir() if path.is_dir()}
    is_built = first == "build" or first.startswith("build-")
    return in_folder and not is_built or span.endswith(SUFFIXES)


def exists(span, page, root, names):
    if (page.parent / span).exists() or (root / span).exists():
        return True
    part = re.compile(rf"/{re.escape(span.strip('/'))}(/|\.\w+$|$)")
    return any(part.search(f"/{name}") for name in names)


def breaches(root):
    names = tracked(root)
    words = set()
    for name in names:
        if not name.endswith(".md"):
            try:
                words.update(re.findall(r"\w+", name + " " + (root / name).read_text()))
            except UnicodeDecodeError:
                continue  # golden bytes
    every = "".join(f" _{word}_" for word in words)
    for name in names:
        if not name.endswith(".md"):
            continue
        page = root / name
        for number, span in spans(page.read_text()):
            if span in OF_OTHERS:
                continue
            if is_path(span, page, root):
                if not exists(span, page, root, names):
                    yield f"{name}:{number}: no such file: {span}"
            elif IDENTIFIER.fullmatch(span) and f"_{JOINED.sub('', span)}_" not in every:
                yield f"{name}:{number}: no source has this name: {span}"


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    wrong = list(breaches(root))
    for line in wrong:
        print(line)
    print(f"{len(wrong)} names on pages that are gone")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
