#!/usr/bin/env python3
"""Checks that no message of our programs uses a word that only people who work on ddprun know, or
that means something else in English. Prints each as FILE:LINE, and exits with 1 if there are any.

Looked at are the string literals with a blank in them below launcher, rendezvous and worker, where
nearly all of them are read by people."""

import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
FOLDERS = ("launcher", "rendezvous", "worker")
# The word, and what says it instead.
INSTEAD = {
    r"anew": "again",
    r"broken rule": "internal error",
    r"errands?": "task",
    r"fates?": "say whether the workers may be alive",
    r"fenced": "say that its workers are killed",
    r"first cause": "root cause",
    r"front door": "port",
    r"(?:earlier|last|next) life": "start, or run",
    r"(?:lets?|has let) go": "say what is released",
    r"obey(?:s|ed)?": "say what was not done",
    r"seats?": "rank, or node",
    r"st(?:ands?|ood) still": "hangs, did not move, or did not run",
    r"tenures?": "generation",
    r"(?:holds?|held) the tethers?": "say who is connected to whom",
    r"vouch(?:es|ed)?": "acknowledge",
    r"who(?:ever|soever)": "the one that",
}
# A log of an older ddprun has the first, and the format of snapshots the second.
ALLOWED = {("launcher/report/saved_log.cpp", "first cause"),
           ("worker/snapshot/manifest.cpp", "tenure")}
WORDS = re.compile(r"\b(" + "|".join(INSTEAD) + r")\b", re.IGNORECASE)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def literals_of_cpp(text):
    """Yields (line, text) of the literals. Those of neighbouring lines are one text."""
    joined, begun, last = "", 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("//", "#include")):
            continue
        found = LITERAL.findall(line)
        if found and number == last + 1 and line.lstrip().startswith('"'):
            joined += found[0]
            rest = found[1:]
        else:
            yield begun, joined
            joined, rest = "", found
        for one in rest:
            yield begun, joined
            joined, begun = one, number
        if found:
            last = number
    yield begun, joined


def literals_of_python(text):
    """The same, without documentation strings."""
    before = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and before not in (
                None, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            yield token.start[0], token.string
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type


def breaches(path):
    literals = literals_of_python if path.suffix == ".py" else literals_of_cpp
    for number, text in literals(path.read_text()):
        if " " not in text.strip():
            continue
        for word in WORDS.findall(text):
            if (str(path.relative_to(ROOT)), word) in ALLOWED:
                continue
            instead = next(new for old, new in INSTEAD.items()
                           if re.fullmatch(old, word, re.IGNORECASE))
            yield f"{path.relative_to(ROOT)}:{number}: \"{word}\" in a message; {instead}"


def main():
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))
             if path.suffix in (".cpp", ".hpp", ".cu", ".py")]
    found = [line for path in paths for line in breaches(path)]
    print("\n".join([*found, f"{len(paths)} files, {len(found)} private words in messages"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
