#!/usr/bin/env python3
"""Checks the limits of the style guide: 70 lines for a function, 100 columns of C++ and Python; and
that nothing was left for later. Prints each violation as FILE:LINE, and exits with 1 if there are
any. A file of more than 600 lines is a warning: split it by concept, or not at all."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("rendezvous", "launcher", "worker", "examples", "tests", ".cmake", ".ci")
LINES_WARNED = 600
FUNCTION_MAX = 70
COLUMNS_MAX = 100
LATER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
# clang-format puts a function's brace at the end of a line, and the closing one in the first
# column.
SCOPE = re.compile(r"^\s*(namespace|class|struct|union|enum|extern)\b|^\s*$")


def functions(lines):
    """Yields (first line number, length) of the functions at namespace level."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None and line[:1] not in ("", " ", "#", "}", "/") and line.endswith("{"):
            is_other = SCOPE.match(line) or line.startswith("TEST_CASE") or line.endswith("= {")
            start = None if is_other else number
        elif line.startswith("}"):
            if start is not None:
                yield start, number - start + 1
            start = None


def breaches(path, text):
    lines = text.splitlines()
    is_cpp = path.suffix in (".cpp", ".hpp")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX and path.suffix in (".cpp", ".hpp", ".py"):
            yield number, f"{len(line)} columns, at most {COLUMNS_MAX}"
        if LATER.search(line):
            yield number, f"{LATER.search(line).group()}: finish it, or put it into an issue"
    if is_cpp:
        for number, length in functions(lines):
            if length > FUNCTION_MAX:
                yield number, f"a function of {length} lines, at most {FUNCTION_MAX}"


def main():
    count = 0
    wrong = 0
    files = [ROOT / "CMakeLists.txt"]
    for folder in FOLDERS:
        files += sorted((ROOT / folder).rglob("*"))
    for file in files:
        if not file.is_file() or "__pycache__" in file.parts:
            continue
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue  # golden bytes
        count += 1
        path = file.relative_to(ROOT)
        lines = text.count("\n")
        if lines > LINES_WARNED:
            print(f"{path}:{lines}: warning: {lines} lines: is it more than one concept?")
        for number, what in breaches(path, text):
            print(f"{path}:{number}: {what}")
            wrong += 1
    print(f"{count} files, {wrong} breaches of the sizes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
