#!/usr/bin/env python3
"""Checks that no function or constant of one file is used by another by mistake. Several files of a
folder are compiled as one, so that what a file declares for itself is visible to its neighbours. If
an enclosing namespace or a neighbour declares the same name, the neighbour may use the wrong one,
and the compiler is silent as long as the types convert. Prints each violation as FILE:LINE, and
exits with 1 if there are any."""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
FOLDERS = ("rendezvous", "launcher", "worker", "examples", "tests")
# In these folders each file is a program.
ONE_BY_ONE = ("tests/benchmark/", "tests/fuzz/", "tests/support/")
# clang-format starts declarations in a namespace at the first column, and names it at its end.
OPENED = re.compile(r"^(?:inline )?namespace ?([\w:]*) ?{(?!.*}$)")
CLOSED = re.compile(r"^}\s*// namespace")
FUNCTION = re.compile(r"^(?:[\w:<>,&*\s\[\]\".()]*[\s&*>])?(?<![:\w])(\w+)\(")
NO_FUNCTION = re.compile(
    r"^(using|template|class|struct|static_assert|extern|TEST_CASE|[A-Z_]+\()\b")
CONSTANT = re.compile(r"^(?:(?:inline|static) )*(?:constexpr|const) (?:[\w:<>,&*\s]*[\s&*>])?"
                      r"(?<![:\w])(\w+)(?:\[\w*\])* ?(?:[={;]|$)")


def declarations(text):
    """Yields (line number, namespace, whether it is local to the file, name) of each function, as
    name(), and of each constant at namespace level."""
    names = []
    for number, line in enumerate(text.splitlines(), 1):
        if opened := OPENED.match(line):
            names.append(opened[1])
        elif CLOSED.match(line):
            names = names[:-1]
        elif re.match(r"[A-Za-z\[]", line) and not NO_FUNCTION.match(line):
            is_own = "" in names or line.startswith("static ")
            if found := CONSTANT.match(line):
                yield number, "::".join(filter(None, names)), is_own, found[1]
            elif found := FUNCTION.match(line):
                yield number, "::".join(filter(None, names)), is_own, found[1] + "()"


def sources(suffix):
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob(f"*{suffix}")):
            yield file.relative_to(ROOT).as_posix(), file.read_text()


def hidden(path, namespace, name, declared):
    """Yields the declarations in headers that this one would hide."""
    for outer, header in sorted(declared[name]):
        # Code under test does not see the tests' headers.
        is_seen = path.startswith("tests/") or not header.startswith("tests/")
        if is_seen and f"{namespace}::".startswith(f"{outer}::"):
            yield f"{outer}::{name} of {header}"


def breaches():
    declared = defaultdict(set)  # by name: where headers declare it
    for path, text in sources(".hpp"):
        for _, namespace, _, name in declarations(text):
            declared[name].add((namespace, path))
    owners = {}  # by folder, namespace and name: the file that declares it for itself
    for path, text in sources(".cpp"):
        folder = path.rpartition("/")[0]
        for number, namespace, is_own, name in declarations(text):
            if not is_own:
                continue
            for other in hidden(path, namespace, name, declared):
                yield f"{path}:{number}: {name} is this file's own and hides {other}: rename it"
            first = owners.setdefault((folder, namespace, name), path)
            if first != path and not path.startswith(ONE_BY_ONE):
                yield f"{path}:{number}: {name} is {first}'s own, too: rename one of them"


def main():
    found = list(breaches())
    print(*found, f"{len(found)} names that another file may take by mistake", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
