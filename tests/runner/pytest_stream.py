"""A plugin of pytest: it writes a line of JSON for each test that has ended to the file that
DDPRUN_TEST_STREAM names; the first lines say how many tests there are. A line has the seconds that
a test took, and the processor seconds that it and its children used; the rest of the time it
waited."""

import json
import os

import pytest


def cpu():
    """The processor time of this process and of the children that it has waited for."""
    return sum(os.times()[:4])


class Processor:
    """Measures what each test has used, in the process that runs the tests."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        self.before = cpu()
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        if call.when == "teardown":
            outcome.get_result().user_properties.append(("cpu", round(cpu() - self.before, 2)))


class Stream:
    def __init__(self, path):
        self.file = open(path, "a", buffering=1)
        self.tests, self.whole = {}, None

    def write(self, **values):
        self.file.write(json.dumps(values) + "\n")

    def tell_whole(self, count):
        if count != self.whole:
            self.whole = count
            self.write(whole=count)

    def pytest_collection_finish(self, session):
        if session.items:
            self.tell_whole(len(session.items))

    def pytest_xdist_node_collection_finished(self, node, ids):
        self.tell_whole(len(ids))

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(name=report.nodeid or "collection", result="failed",
                       text=str(report.longrepr), seconds=0)

    def pytest_runtest_logreport(self, report):
        seen = self.tests.setdefault(report.nodeid, {"result": "passed", "text": "", "seconds": 0})
        seen["seconds"] += report.duration
        if report.failed:
            seen["result"] = "failed"
            seen["text"] += report.longreprtext + "".join(
                f"\n----- {title}\n{text}" for title, text in report.sections)
        elif report.skipped and not hasattr(report, "wasxfail") and seen["result"] == "passed":
            seen["result"] = "skipped"
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            seen["text"] = str(reason).removeprefix("Skipped: ")
        # A test whose worker process has died has no teardown.
        if report.when == "teardown" or (report.failed and report.when not in ("setup", "call")):
            used = {name: value for name, value in report.user_properties if name == "cpu"}
            self.write(name=report.nodeid, **self.tests.pop(report.nodeid), **used)

    def pytest_sessionfinish(self):
        for name, seen in self.tests.items():
            self.write(name=name, **seen)
        self.tests.clear()


def pytest_configure(config):
    config.pluginmanager.register(Processor(), "ddprun-processor")
    path = os.environ.get("DDPRUN_TEST_STREAM")
    if path and not hasattr(config, "workerinput"):  # xdist's workers report to their parent
        stream = Stream(path)
        config.pluginmanager.register(stream, "ddprun-stream")
