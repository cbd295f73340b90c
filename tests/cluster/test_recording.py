"""The picture at the top of README.md: examples/recording/record.py makes it from a real job."""

import importlib.util
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from tests.support.needs import needs
from tests.support.pages import README, ROOT

RECORD = ROOT / "examples/recording/record.py"
PICTURE = ROOT / "examples/recording/restart.svg"
TEXT = "{http://www.w3.org/2000/svg}text"


def rows_of(picture):
    return ["".join(row.itertext()) for row in ElementTree.fromstring(picture).iter(TEXT)]


@pytest.fixture(scope="module")
def recorder():
    spec = importlib.util.spec_from_file_location("record", RECORD)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_story(rows):
    """Checks that it is the story of the picture, in its order."""
    left = iter(rows)
    for words in (r"^\$ ddprun ", r"epoch 8 \| snapshot saved", r"^# in another terminal: kill -9",
                  r"round 1 failed", r"rank 1 \(local rank 1\) killed by SIGKILL",
                  r"round 2 starts", r"resuming from snapshot .* at epoch", r"accuracy",
                  r"every worker succeeded"):
        assert any(re.search(words, row) for row in left), (words, rows)


def test_the_picture_that_is_shown_tells_the_story_and_nothing_of_the_machine_it_was_made_on():
    assert "(examples/recording/restart.svg)" in README.read_text()
    picture = PICTURE.read_text()
    check_story(rows_of(picture))
    assert not re.search(r"/(home|root|work|tmp|usr)/", picture)


def test_lines_are_wrapped_coloured_and_escaped(recorder):
    long = "x" * recorder.COLUMNS
    picture = recorder.svg([(0.0, "$ a <b> & c"), (1.0, "\x1b[33mwarning\x1b[0m: no"),
                            (2.0, long + "y")])
    assert rows_of(picture) == ["$ a <b> & c", "warning: no", long, "y"]
    yellow = recorder.COLOURS["33"]
    assert f'<tspan fill="{yellow}">warning</tspan>' in picture


def test_older_lines_move_up_when_the_window_is_full(recorder):
    lines = [(float(number), f"line {number}") for number in range(recorder.ROWS + 2)]
    picture = recorder.svg(lines)
    assert f"translateY(-{2 * recorder.LINE_HEIGHT}px)" in picture
    assert f"translateY(-{3 * recorder.LINE_HEIGHT}px)" not in picture


def test_long_pauses_are_shortened_and_no_others(recorder):
    recording = recorder.Recording()
    recording.lines = [(0.0, "a"), (0.5, "b"), (30.5, "c"), (31.0, "d")]
    times = [at * recorder.SPEED for at, _ in recording.shortened()]
    assert times == [0.0, 0.5, 0.5 + recorder.LONGEST_PAUSE_S, 1.0 + recorder.LONGEST_PAUSE_S]


@pytest.mark.slow
def test_it_is_recorded_anew(tmp_path):
    needs("torch", "PyTorch is not installed here")
    made = tmp_path / "made.svg"
    done = subprocess.run([sys.executable, RECORD, "--output", made], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    check_story(rows_of(made.read_text()))
