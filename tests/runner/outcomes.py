"""The outcome of each test, counted and written down."""

import signal
import threading
from collections import Counter
from dataclasses import dataclass, field
from xml.etree import ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


def end_of(status):
    """How a program has ended, for people: the status is None if it was ended because it took too
    long."""
    if status is None:
        return "hung, or took too long: it was ended by tests/run"
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with {status}"


@dataclass
class Outcome:
    name: str
    result: str
    seconds: float = 0.0
    text: str = ""  # of a failure; the reason of a skip
    may_be_again: bool = True  # a crash or a sanitizer's report is never tried again
    cpu: float | None = None  # processor seconds, if known


@dataclass
class Report:
    """The outcomes of one part."""

    part: object
    log: str
    outcomes: list = field(default_factory=list)
    seconds: float = 0.0

    def count(self, result):
        return sum(outcome.result == result for outcome in self.outcomes)

    def failed(self):
        return [outcome for outcome in self.outcomes if outcome.result == FAILED]

    def line(self):
        passed, failed, skipped = map(self.count, (PASSED, FAILED, SKIPPED))
        end = f"({self.seconds:.0f} s; {self.log})"
        if failed:
            return f"{self.part.name}: FAILED: {passed} passed, {failed} failed, " \
                   f"{skipped} skipped {end}"
        return f"{self.part.name}: {passed} passed, {skipped} skipped {end}"

    def skip_lines(self):
        reasons = Counter(one.text for one in self.outcomes if one.result == SKIPPED)
        return [f"  skipped {count}: {reason}" for reason, count in reasons.most_common()]

    def write_junit(self, path):
        suite = ElementTree.Element("testsuite", {
            "name": self.part.name, "tests": str(len(self.outcomes)),
            "failures": str(self.count(FAILED)), "skipped": str(self.count(SKIPPED)),
            "time": f"{self.seconds:.1f}"})
        for outcome in self.outcomes:
            case = ElementTree.SubElement(suite, "testcase", {
                "classname": self.part.name, "name": printable(outcome.name),
                "time": f"{outcome.seconds:.3f}",
                **({} if outcome.cpu is None else {"cpu": f"{outcome.cpu:.2f}"})})
            if outcome.result != PASSED:
                kind = {FAILED: "failure", SKIPPED: "skipped"}[outcome.result]
                ElementTree.SubElement(case, kind).text = printable(outcome.text)
        ElementTree.ElementTree(suite).write(path, "utf-8", xml_declaration=True)


def printable(text):
    """XML allows no other control characters."""
    return "".join(char if char >= " " or char in "\n\t" else "?" for char in text)


class Reports:
    """The reports of the whole run; used by several threads."""

    def __init__(self):
        self.all, self.second_tries = [], []
        self.lock = threading.Lock()

    def add(self, report):
        with self.lock:
            self.all.append(report)

    def total(self, result):
        with self.lock:
            return sum(report.count(result) for report in self.all)
