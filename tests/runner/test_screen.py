"""What a run shows while it goes on: on a terminal a line that is replaced, in a log a line now and
then."""

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from types import SimpleNamespace

import pytest
from test_runner import BAD, GOOD, LIMIT_S, processes_of, tree, wait_for  # noqa: F401 (a fixture)

import screen
from screen import EVERY_S, Screen


def shown(text, columns):
    """The lines that this output leaves on a terminal."""
    rows, row, column = [[]], 0, 0
    for char in text:
        if char == "\r":
            column = 0
        elif char == "\n":
            row += 1
        else:
            if column == columns:  # only now, not with the last character before it
                row, column = row + 1, 0
            rows += [[] for _ in range(row + 1 - len(rows))]
            rows[row] += [" "] * (column + 1 - len(rows[row]))
            rows[row][column] = char
            column += 1
    return "\n".join("".join(line).rstrip() for line in rows).rstrip("\n").split("\n")


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(screen, "time", SimpleNamespace(monotonic=lambda: self.now))

    def wait(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@contextlib.contextmanager
def opened_terminal(columns):
    """The two ends of a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    try:
        yield ours, theirs
    finally:
        os.close(theirs)
        os.close(ours)


@pytest.fixture
def terminal(monkeypatch):
    """Makes a screen on a terminal of so many columns, and a function that returns what is on
    it."""
    with contextlib.ExitStack() as stack:
        def make(columns):
            ours, theirs = stack.enter_context(opened_terminal(columns))
            output = stack.enter_context(os.fdopen(os.dup(theirs), "w"))
            monkeypatch.setattr(sys, "stdout", output)
            made, said = Screen(), b""

            def look():
                nonlocal said
                output.write("\0")  # what comes before it has arrived with it
                output.flush()
                while not said.endswith(b"\0"):
                    said += os.read(ours, 65536)
                said = said[:-1]
                return shown(said.decode(), columns or 80)

            return made, look

        yield make


def test_the_line_on_a_terminal_has_the_parts_what_is_done_of_all_and_the_minutes(clock, terminal):
    made, look = terminal(80)
    clock.wait(61)
    made.at("unit", 3, 10)
    made.at("cluster", 7, None)  # its total is not known yet
    assert look() == ["... unit 3 of 10 (1 min 1 s)"]
    clock.wait(1)
    made.at("cluster", 8, 12)
    assert look() == ["... unit 3 of 10, cluster 8 of 12 (1 min 2 s)"]
    made.over("unit")
    clock.wait(3600)
    made.at("cluster", 9, 12)
    assert look() == ["... cluster 9 of 12 (61 min 2 s)"]


def test_what_is_said_stands_above_the_line_and_nothing_of_it_is_left(clock, terminal):
    made, look = terminal(80)
    clock.wait(1)
    made.at("unit", 3, 10)
    made.say("one")
    assert look() == ["one"]
    clock.wait(1)
    made.at("unit", 4, 10)
    made.say("two")
    assert look() == ["one", "two"]


@pytest.mark.parametrize("columns, line", [
    (63, "... cluster 8 of 2000, asan-process 1 of 2, 1 more (1 min 2 s)"),
    (62, "... cluster 8 of 2000, 2 more (1 min 2 s)"),
    (42, "... cluster 8 of 2000, 2 more (1 min 2 s)"),
    (24, "... 3 parts (1 min 2 s)"), (10, "... 3 par")])
def test_the_line_is_one_line_on_a_narrow_terminal(clock, terminal, columns, line):
    made, look = terminal(columns)
    for part in ("cluster", "asan-process", "simulation"):
        made.at(part, 1, 2)
    for done in (7, 8):  # the second replaces the first
        clock.wait(31)
        made.at("cluster", done, 2000)
    assert look() == [line]
    made.say("one")
    assert look() == ["one"]


def test_a_terminal_without_a_size_has_the_whole_line(clock, terminal):
    made, look = terminal(0)
    clock.wait(1)
    made.at("asan-main-paths", 1, 2)
    assert look() == ["... asan-main-paths 1 of 2 (0 min 1 s)"]


def test_without_a_terminal_there_is_a_line_now_and_then(clock, monkeypatch):
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    made = Screen()
    for second in range(1, 2 * EVERY_S + 1):
        clock.wait(1)
        made.at("unit", second, 100)
    made.say("unit: FAILED: one")
    assert output.getvalue() == (f"... unit {EVERY_S} of 100 (0 min {EVERY_S} s)\n"
                                 f"... unit {2 * EVERY_S} of 100 (1 min 0 s)\n"
                                 "unit: FAILED: one\n")


def test_a_run_shows_a_failure_at_once_and_goes_on_with_its_line(tree):  # noqa: F811
    """The whole of tests/run, on a terminal."""
    for name in ("cmake", "ninja"):
        (tree / "bin" / name).write_text("#!/bin/sh\n")
        (tree / "bin" / name).chmod(0o755)
    program = tree / "build/bin/unit_tests"
    program.parent.mkdir(parents=True)
    (tree / "events").write_text(GOOD + BAD)
    program.write_text('#!/bin/sh\ncase "$*" in *--list-test-names-only*) '
                       'echo "it\'s [good]"; echo bad; echo last; exit ;; esac\n'
                       f"cat {tree}/events\nuntil [ -e {tree}/go ]; do sleep 0.1; done\n")
    program.chmod(0o755)
    with opened_terminal(72) as (ours, theirs):
        run = subprocess.Popen([sys.executable, tree / "tests/runner", "unit"],
                               env={**os.environ, "PATH": f"{tree}/bin:{os.environ['PATH']}"},
                               stdout=theirs, stderr=theirs)
        os.set_blocking(ours, False)
        text = ""

        def screen_says(pattern):
            nonlocal text
            with contextlib.suppress(BlockingIOError):
                text += os.read(ours, 65536).decode()
            return re.search(pattern, "\n".join(shown(text, 72)))

        try:
            wait_for(lambda: screen_says(
                r"unit: FAILED: bad \(build/test-logs/unit\.log\)\n"
                r"\.\.\. unit 2 of 3 \(\d+ min \d+ s\)$"))
            assert run.poll() is None
            (tree / "go").touch()
            wait_for(lambda: screen_says(r"1 passed, \d failed, 0 skipped$"))
            assert run.wait(LIMIT_S) == 1
        finally:
            run.kill()
            run.wait()
    assert "..." not in "".join(shown(text, 72)), shown(text, 72)
    assert not processes_of(tree)
