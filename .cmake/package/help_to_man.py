#!/usr/bin/env python3
"""Writes a program's manual page out of its --help, so that there is one text for both.

    help_to_man.py PROGRAM --section 1 --summary TEXT [--see NAME(SECTION)]... > PROGRAM.1

--help is read as it is laid out: the usage; paragraphs; headings, with options or settings below
them whose texts begin in one column; and examples, which are indented. What the usage shows as a
command of its own ("ddprun doctor") is asked for its --help, too.
"""

import argparse
import re
import subprocess
from pathlib import Path

COLUMN = 31  # where the text of an option begins (help_column of rendezvous/cli/option.cpp)
ENTRY = re.compile(r"  (-{1,2}[\w]|\w+=)")


def roff(text):
    """As man(7) wants it: a dash as it is typed, and no line that looks like a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def roff_lines(lines):
    return "".join(roff(line) + "\n" for line in lines)


def is_entry(line):
    return ENTRY.match(line) is not None


def split_entry(line):
    """What is typed, and what of its text is in the same line. "a | b" is never taken apart."""
    left, rest = line[:COLUMN].rstrip(), line[COLUMN:]
    if line[COLUMN - 1:COLUMN] == " " and not left.endswith("|") and not rest.startswith("|"):
        return left, rest
    return line, ""


def entries(lines):
    """.TP for each: what is typed, and what it means."""
    text = ""
    for line in lines:
        if is_entry(line):
            left, rest = split_entry(line)
            text += f".TP\n.B {roff(left.strip())}\n" + (roff_lines([rest]) if rest else "")
        else:
            text += roff_lines([line.strip()])
    return text


def block_text(block, heading):
    """A block of --help, which is between two empty lines."""
    title = str.upper if heading == "SH" else str
    if block[0].startswith("Exit code: "):
        return f".{heading} {title('Exit status')}\n" + roff_lines(
            [block[0].removeprefix("Exit code: "), *block[1:]])
    if is_entry(block[0]):
        return f".{heading} {title('Options')}\n" + entries(block)
    if len(block) > 1 and is_entry(block[1]):
        words = block[0] if "--" in block[0] else title(block[0])  # an option stays as it is typed
        return f".{heading} {roff(words)}\n" + entries(block[1:])
    if all(line.startswith("  ") for line in block) and any("  " in line.strip() for line in block):
        return ".PP\n.nf\n.RS\n" + roff_lines([line[2:] for line in block]) + ".RE\n.fi\n"
    return ".PP\n" + roff_lines([line.strip() for line in block])


def blocks(text):
    return [part.splitlines() for part in re.split(r"\n\n+", text.strip("\n")) if part]


def help_of(*command):
    return subprocess.run([*command, "--help"], check=True, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL).stdout


def usage_lines(block):
    return [line.removeprefix("usage:").strip() for line in block]


def synopsis(lines):
    """What is typed; what the usage says of it beside that is in the sections below."""
    text = ".SH SYNOPSIS\n.nf\n"
    for line in lines:
        text += f".B {roff(re.split(r' {2,}', line)[0])}\n"
    return text + ".fi\n"


def page(program, section, summary, see):
    name = program.name
    first, *rest = blocks(help_of(program))
    usages = usage_lines(first)
    version = subprocess.run([program, "--version"], check=True, capture_output=True,
                             text=True).stdout.strip()
    text = f'.TH {roff(name.upper())} {section} "" "{roff(version)}" "ddprun"\n'
    text += f".SH NAME\n{roff(name)} \\- {roff(summary)}\n" + synopsis(usages)
    text += ".SH DESCRIPTION\n" + "".join(block_text(block, "SH") for block in rest)
    for line in usages:
        command = re.match(rf"{re.escape(name)} ([a-z]+) ", line)
        if command:
            _, *rest = blocks(help_of(program, command[1]))
            text += f".SH {roff(f'{name} {command[1]}')}\n" + "".join(
                block_text(block, "SS") for block in rest)
    references = [re.sub(r"(\S+)\((\d)\)", lambda m: f".BR {roff(m[1])} ({m[2]})", one)
                  for one in see]
    return text + ".SH SEE ALSO\n" + " ,\n".join(references) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--section", required=True)
    parser.add_argument("--summary", required=True)
    parser.add_argument("--see", action="append", default=[])
    given = parser.parse_args()
    print(page(given.program.resolve(), given.section, given.summary, given.see), end="")


if __name__ == "__main__":
    main()
