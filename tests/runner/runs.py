"""Runs one part, and again the tests of it that failed."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import catch
from builds import tail
from follow import Follower
from outcomes import FAILED, PASSED, SKIPPED, Outcome, Report, end_of
from parts import ALONE, ASAN, COMPUTING, PLAIN, TRAINING, TSAN, WAITING

PART_LIMIT_S = 7200  # for everything that a part runs together
TEST_LIMIT_S = 900  # for a test in Python; only one that hangs reaches it
CATCH_LIMIT_S = 1800  # for one in C++, except a million schedules; sanitizers are slow
LIST_LIMIT_S = 300  # for a program to list its tests
DEATHS_MAX = 20  # how often a program goes on after a crash or a sanitizer's report
CORES = len(os.sched_getaffinity(0))
GIB = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def at_once(cores, gib):
    """How many tests run at once in each lane. With PyTorch each rank takes 0.4 GB, and few tests
    have more than five ranks; half of the time they wait for each other, or for a limit."""
    return {WAITING: min(4 * cores, 24), TRAINING: max(2, min(2 * cores + 1, 12, int(gib / 3))),
            ALONE: max(2, min(3 * cores, 12, int(gib / 2))), "": cores}


AT_ONCE = at_once(CORES, GIB)
# What tests/support/cluster.py prints about a crash of one of our programs, and about a leak.
NEVER_AGAIN = ("has crashed: ", "processes were left behind: ")
HERE = Path(__file__).resolve().parent


def limit_of(part):
    """The limit for one of its tests in C++. Beside compilers and everything else a minute of work
    takes many minutes."""
    return PART_LIMIT_S if part.lane == COMPUTING else CATCH_LIMIT_S


class Runner:
    def __init__(self, commands, screen, python):
        self.commands, self.screen, self.python = commands, screen, python
        self.prefix = {TSAN: self.without_randomization()}

    @staticmethod
    def without_randomization():
        """clang's TSan cannot map its shadow memory with some kernels' address randomization."""
        setarch = shutil.which("setarch")
        if setarch and subprocess.run([setarch, "-R", "true"], capture_output=True,
                                      check=False).returncode == 0:
            return [setarch, "-R"]
        return []

    @staticmethod
    def logs(part):
        return Path(part.build or PLAIN, "test-logs")

    def environment(self, part):
        """The environment of this part's tests."""
        logs = self.logs(part).resolve()
        reports = f"log_path={logs}/report"
        told = {"DDPRUN_BUILD": part.build or PLAIN,
                "XDG_STATE_HOME": str(logs.parent / "test-state")}
        if part.build in (ASAN, TSAN):
            tsan = "halt_on_error=1:second_deadlock_stack=1:die_after_fork=0"
            told |= {"ASAN_OPTIONS": reports, "UBSAN_OPTIONS": f"print_stacktrace=1:{reports}",
                     "TSAN_OPTIONS": f"{tsan}:{reports}", "DDPRUN_TEST_LIMIT": "300"}
        return {**told, **dict(part.environment)}

    def run(self, part, only=(), suffix=""):
        """Returns its report. `only`: names of tests, which then run one after the other."""
        logs = self.logs(part)
        logs.mkdir(parents=True, exist_ok=True)
        log = logs / f"{part.name}{suffix}.log"
        report = Report(part, str(log))
        start = time.monotonic()
        environment = self.environment(part)
        how = {"catch": self.catch, "pytest": self.pytest, "fuzz": self.fuzz}[part.kind]
        how(part, report, environment, only)
        report.seconds = time.monotonic() - start
        report.write_junit(log.with_suffix(".xml"))
        self.screen.over(part.name)
        return report

    def failed(self, report, outcome):
        self.screen.say(f"{report.part.name}: FAILED: {outcome.name} ({report.log})")

    def take(self, report, outcomes):
        for outcome in outcomes:
            report.outcomes.append(outcome)
            if outcome.result == FAILED:
                self.failed(report, outcome)

    def catch(self, part, report, environment, only):
        program = Path(part.build, "bin", part.target)
        if not program.exists():
            self.take(report, [Outcome(part.target, SKIPPED, text="it is not built here")])
            return
        command = [*self.prefix.get(part.build, []), program]
        selected = [catch.selector(name) for name in only] or list(part.arguments)
        wanted = [",".join(selected)] if selected else []
        names = self.names_of_tests([*command, *wanted], report.log, environment)
        Path(report.log).write_bytes(b"")
        stream = catch.Stream(report.log)

        def tick():
            self.take(report, stream.read())
            self.screen.at(part.name, len(report.outcomes), len(names))
            return part.quick and stream.hangs(limit_of(part))

        until = time.monotonic() + PART_LIMIT_S
        for death in range(1, DEATHS_MAX + 1):
            status = self.commands.run(
                [*command, "-r", "teamcity", *wanted], report.log, until - time.monotonic(),
                environment, part.apart, tick, append=True)
            self.take(report, stream.read())
            self.take(report, stream.ended(status))
            rest = stream.rest_of(names)
            if status == 0 or not rest:
                break
            is_late = time.monotonic() > until
            if death == DEATHS_MAX or len(rest) == len(names) or is_late:
                self.take(report, [Outcome("the program", FAILED, may_be_again=False, text=
                                           f"{len(rest)} of {len(names)} tests were not run")])
                break
            # A crash, a sanitizer's report and a test that hangs end the program; then the tests
            # after it run without that one.
            file = Path(report.log).with_suffix(".rest")
            file.write_text("".join(f"{catch.selector(name)}\n" for name in rest))
            wanted = ["-f", file]
        stream.close()

    def names_of_tests(self, command, log, environment):
        self.commands.run([*command, "--list-test-names-only"], log, LIST_LIMIT_S, environment)
        return Path(log).read_text(errors="replace").splitlines()

    def fuzz(self, part, report, environment, only):
        targets = sorted(Path(part.build, "bin").glob("fuzz_*"))
        Path(report.log).write_bytes(b"")
        for target in targets:
            start = time.monotonic()
            # A failing input is left in the working folder, among the logs.
            status = self.commands.run(
                [*self.prefix.get(part.build, []), target.resolve(), *part.arguments], report.log,
                limit_of(part), environment, part.apart, append=True,
                cwd=Path(report.log).parent)
            text = "" if status == 0 else f"{tail(report.log, 4000)}\n{end_of(status)}"
            self.take(report, [Outcome(target.name, FAILED if text else PASSED,
                                       time.monotonic() - start, text)])
            self.screen.at(part.name, len(report.outcomes), len(targets))

    def pytest(self, part, report, environment, only):
        stream = Path(report.log).with_suffix(".jsonl")
        stream.write_bytes(b"")
        spread = ["-n", AT_ONCE[part.lane], "--dist", "worksteal"] if not only else []
        files = {file for pattern in part.target.split() for file in Path("tests").glob(pattern)}
        what = list(only) or sorted(files) or [f"tests/{part.target}"]
        environment = {**environment, "DDPRUN_TEST_STREAM": str(stream.resolve()),
                       "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [
                           os.environ.get("PYTHONPATH")])])}
        file, whole = Follower(stream), None

        def tick():
            nonlocal whole
            for line in file.lines():
                values = json.loads(line)
                whole = values.pop("whole", whole)
                if values:
                    self.take(report, [Outcome(**values)])
            self.screen.at(part.name, len(report.outcomes), whole)

        status = self.commands.run(
            [*self.prefix.get(part.build, []), self.python, "-m", "pytest", "-q", "-rs",
             "-p", "no:cacheprovider", "-p", "pytest_stream", f"--timeout={TEST_LIMIT_S}", *spread,
             *what, *part.arguments], report.log, PART_LIMIT_S, environment, part.apart, tick)
        tick()
        file.close()
        for outcome in report.outcomes:
            outcome.may_be_again = not any(words in outcome.text for words in NEVER_AGAIN)
        lost = whole is not None and len(report.outcomes) < whole and not only
        if status is None or status not in (0, 1, 5) or lost:
            how = f"pytest {end_of(status)}"
            if lost:
                how += f", {len(report.outcomes)} of {whole} tests have ended"
            self.take(report, [Outcome("all of it", FAILED, 0, how, may_be_again=False)])
        elif status == 1 and not report.failed():
            self.take(report, [Outcome("all of it", FAILED, 0, tail(report.log, 4000), False)])


def text_of(report, characters=6000):
    """The text of what failed, for people who read only the run's output."""
    return "\n".join(f"---- {report.part.name}: {one.name}\n{one.text[-characters:]}"
                     for one in report.failed())


def python_of_the_tree():
    return Path(".venv/bin/python") if Path(".venv/bin/python").exists() else Path(sys.executable)
