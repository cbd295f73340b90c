"""Reads the output of a Catch2 program's TeamCity reporter, a line for each event, while it is
being written. So it is known which test is running, whatever happens to the program."""

import re
import time

import computing
from follow import Follower
from outcomes import FAILED, PASSED, SKIPPED, Outcome, end_of

EVENT = re.compile(r"##teamcity\[(\w+) (.*)\]$")
VALUE = re.compile(r"(\w+)='((?:\|.|[^'|])*)'")
ESCAPED = {"n": "\n", "r": "\r"}


def unescaped(text):
    return re.sub(r"\|(.)", lambda match: ESCAPED.get(match[1], match[1]), text)


def may_be_again(text):
    """Whether it is not a crash, and the test does more than compute: the text begins with its
    place."""
    place = text.removeprefix("./").partition(":")[0]
    return "fatal error condition" not in text and not computing.computes_only(place)


class Stream:
    def __init__(self, path):
        self.file = Follower(path)
        self.outcomes, self.current = [], None
        self.since = 0.0  # when the current one began, as far as is known
        self.begun = 0  # the number of outcomes when the program was last started

    def close(self):
        self.file.close()

    def read(self):
        """The tests that have ended since the last call."""
        before = len(self.outcomes)
        for line in self.file.lines():
            if match := EVENT.search(line):
                self.take(match[1], {key: unescaped(value)
                                     for key, value in VALUE.findall(match[2])})
        return self.outcomes[before:]

    def take(self, event, values):
        if event == "testStarted":
            self.current, self.since = Outcome(values["name"], PASSED), time.monotonic()
        elif event == "testFailed" and self.current:
            self.current.result = FAILED
            self.current.text += values.get("message", "") + values.get("details", "") + "\n"
            self.current.may_be_again = may_be_again(self.current.text)
        elif event == "testIgnored" and self.current and self.current.result == PASSED:
            self.current.result, self.current.text = SKIPPED, values.get("message", "")
        elif event == "testFinished" and self.current:
            self.current.seconds = float(values.get("duration", 0)) / 1000
            self.outcomes.append(self.current)
            self.current = None

    def ended(self, status):
        """What is wrong with the way the program ended, as a failure of the test that ran, or of
        all. What is read after this belongs to another run of the program."""
        since, self.begun = self.outcomes[self.begun:], len(self.outcomes)
        has_said = status is not None and any(one.result == FAILED for one in since)
        if self.current is None and (status == 0 or has_said):
            return []
        lost, self.current = self.current or Outcome("the program", FAILED), None
        lost.result, lost.text = FAILED, lost.text + end_of(status)
        lost.may_be_again = status is None
        self.outcomes.append(lost)
        self.begun = len(self.outcomes)
        return [lost]

    def hangs(self, limit_s):
        return self.current is not None and time.monotonic() - self.since > limit_s

    def rest_of(self, names):
        """The tests that have not been run."""
        known = {one.name for one in self.outcomes}
        return [name for name in names if name not in known]


def selector(name):
    """A test's name as an argument of its program, or as a line of its --input-file."""
    return re.sub(r"([,\[\]\\])", r"\\\1", name)
