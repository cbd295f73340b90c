"""Builds ddprun and runs its tests; start tests/run, which sets up first. This says what there is:
tests/README.md, and `tests/run --help`."""

import argparse
import contextlib
import fcntl
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import builds
import second_tries
import special
from commands import Commands
from lanes import Lanes
from outcomes import FAILED, PASSED, SKIPPED, Outcome, Report, Reports
from parts import (
    ALONE,
    ASAN,
    COMPUTING,
    PLAIN,
    TRAINING,
    TSAN,
    WAITING,
    WORDS,
    Part,
    chosen,
    effort,
)
from runs import CORES, Runner, python_of_the_tree, text_of
from screen import Screen

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(
        prog="tests/run", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Builds ddprun and runs its tests: those that a landing has to pass, only the "
                    "parts that are named,\nor with the word `thorough` everything.",
        epilog="parts: " + " ".join(WORDS))
    parser.add_argument("parts", nargs="*", metavar="PART", help="thorough, or any of those below")
    parser.add_argument("--repeat", type=int, metavar="N",
                        help="the parts of real processes (process, cluster, interop; or those "
                             "named) N times, without second tries")
    parser.add_argument("--under-load", action="store_true",
                        help="beside a busy loop on each core")
    parser.add_argument("--check-arguments", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    for word in given.parts:
        if given.parts != ["thorough"] and not chosen([word]):
            parser.error(f"no part '{word}'; there are: thorough, {', '.join(WORDS)}")
    if given.repeat is not None and given.repeat < 1:
        parser.error(f"--repeat is {given.repeat}: it must be at least 1")
    if given.repeat and not given.parts:
        given.parts = ["process", "cluster", "interop"]
    return given


@contextlib.contextmanager
def alone_in_this_tree():
    """Two runs would build over each other, and read each other's logs. examples/demo builds here,
    too, so it waits for this lock, and holds it."""
    Path(PLAIN).mkdir(exist_ok=True)
    with open(Path(PLAIN, ".tests-run"), "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "? builds in this tree"
            raise builds.Refused(f"process {owner} already: wait for it, or end it") from None
        file.truncate(0)
        file.write(f"{os.getpid()} runs the tests of this tree")
        file.flush()
        yield


def builds_of(parts):
    return [build for build in (PLAIN, ASAN, TSAN) if any(part.build == build for part in parts)]


class Run:
    def __init__(self, screen, commands):
        self.screen, self.commands = screen, commands
        self.runner = Runner(commands, screen, python_of_the_tree())
        self.reports, self.built = Reports(), {}

    def build(self, build):
        self.built[build] = builds.make(build, self.commands, self.screen)
        if not self.built[build]:
            self.tell(Report(Part(build, "build"), f"{build}/test-logs/build.log",
                             [Outcome("build", FAILED)]))

    def tell(self, report):
        self.reports.add(report)
        text = text_of(report)
        self.screen.say("\n".join(filter(None, [text, report.line(), *report.skip_lines()])))

    def part(self, part, suffix=""):
        """Runs the part; its reports are printed one by one. Without a build there are none."""
        if part.build and not self.built.get(part.build):
            return []
        if part.kind == "own":
            reports = getattr(special, part.name)(self.runner, part)
        else:
            reports = [self.runner.run(part, suffix=suffix)]
        told = []
        for report in reports:
            self.tell(report)
            told.append(report)
        return told

    def all(self, parts):
        """Runs at the same time: the builds, one after the other; each lane of parts with many
        processes, the one that trains only when everything is built, because both need all
        processors; and the parts of one process each, as many as there are cores, both of those
        that compute for minutes and of the others. Parts that compute are outside of this session,
        which has the agents of the tests."""
        builder = Lanes(1)
        lanes = {WAITING: Lanes(1), TRAINING: Lanes(1), COMPUTING: Lanes(CORES), "": Lanes(CORES)}
        made = {build: builder.add(lambda build=build: self.build(build))
                for build in builds_of(parts)}
        last_made = list(made.values())[-1] if made else None
        for part in parts:
            if part.lane != ALONE:
                after = last_made if part.lane == TRAINING else made.get(part.build)
                lanes[part.lane].add(lambda part=part: self.part(part), after)
        for lane in (builder, *lanes.values()):
            lane.finish()
        for part in parts:
            if part.lane == ALONE:
                self.part(part)
        self.sanitizers_reports(made)
        second_tries.take_place(self.runner, self.screen, self.reports)
        self.sanitizers_reports(made)

    def sanitizers_reports(self, wanted):
        """The reports of processes whose output no test reads, such as a daemon at its end."""
        for build in wanted:
            for file in sorted(Path(build, "test-logs").glob("report.*")):
                if file.stat().st_size:
                    self.tell(Report(Part(f"{build}-report", "report", build=build), str(file), [
                        Outcome(file.name, FAILED, 0, file.read_text(errors="replace")[:6000])]))
                file.rename(file.with_name(f"told.{file.name}"))

    def repeat(self, parts, count):
        wanted = builds_of(parts)
        for build in wanted:
            self.build(build)
        if not all(self.built.values()):
            return
        failures = Counter()
        for number in range(1, count + 1):
            for part in parts:
                for report in self.part(part, suffix=f"-{number}"):
                    failures.update(f"{part.name} {one.name}" for one in report.failed())
            self.screen.say(f"{number} of {count} times; failed so far: "
                            f"{sum(failures.values())}")
        self.sanitizers_reports(wanted)
        for name, times in failures.most_common():
            self.screen.say(f"failed {times} of {count} times: {name}")


@contextlib.contextmanager
def load(commands):
    """Runs a busy loop for each core."""
    loops = [commands.start(["sh", "-c", "while :; do :; done"])
             for _ in os.sched_getaffinity(0)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def clear_logs():
    for build in (PLAIN, ASAN, TSAN):
        for file in Path(build, "test-logs").glob("*report.*"):
            file.unlink()
    # State of the tests' daemons must not end up among that of the user.
    shutil.rmtree(Path(PLAIN, "test-state"), ignore_errors=True)


def run(given, screen, commands):
    parts = chosen(given.parts)
    builds.check({build for part in parts for build in special.BUILDS.get(part.name, [part.build])
                  if build})
    clear_logs()
    Path(PLAIN, "test-logs").mkdir(parents=True, exist_ok=True)
    # This applies to parts that start other programs, too. A person may ask for more effort than
    # the words imply.
    wanted, asked = effort(given.parts), os.environ.get("DDPRUN_TEST_EFFORT")
    if asked not in (None, "", "quick", "thorough"):
        raise builds.Refused(f'DDPRUN_TEST_EFFORT is "{asked}": it may be quick or thorough')
    if wanted == "thorough" or not asked:
        os.environ["DDPRUN_TEST_EFFORT"] = wanted
    # One seed for all, so that a second try takes the same cases as the first.
    seed = os.environ.get("DDPRUN_SEED") or str(random.getrandbits(32))
    os.environ["DDPRUN_SEED"] = seed
    whole = Run(screen, commands)
    with load(commands) if given.under_load else contextlib.nullcontext():
        if given.repeat:
            whole.repeat(parts, given.repeat)
        else:
            whole.all(parts)
    reports = whole.reports
    failed = [f"{report.part.name} {outcome.name}" for report in reports.all
              for outcome in report.failed()]
    for line in (f"all in {time.monotonic() - screen.start:.0f} s", *builds.full_disks(),
                 *(f"failed: {name}" for name in failed), second_tries.line(reports),
                 failed and f"the samples of this run: DDPRUN_SEED={seed}"):
        if line:
            screen.say(line)
    passed, bad, skipped = map(reports.total, (PASSED, FAILED, SKIPPED))
    screen.say(f"{passed} passed, {bad} failed, {skipped} skipped")
    return 1 if bad else 0


def fault_line(fault):
    """For a bug in tests/runner, which ends the run: what happened, and where to look."""
    *_, place = traceback.extract_tb(fault.__traceback__)
    text = " ".join(str(fault).split())
    return f"a fault of tests/runner itself, {Path(place.filename).name}:{place.lineno}: " \
           f"{type(fault).__name__}: {text}; what had ended until then is in " \
           f"{PLAIN}*/test-logs: report it, with the command"


def main():
    os.chdir(ROOT)
    given = arguments()
    if given.check_arguments:
        return 0
    screen, commands = Screen(), Commands()

    def leave(number, _):
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    # A shell starts its background jobs with this one ignored, and their children inherit that.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    try:
        with alone_in_this_tree():
            return run(given, screen, commands)
    except builds.Refused as refused:
        print(f"tests/run: {refused}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"tests/run: {builds.sentence(error)}", file=sys.stderr)
        return 2
    except Exception as fault:
        print(f"tests/run: {fault_line(fault)}", file=sys.stderr)
        return 2
    except SystemExit as left:
        name = signal.Signals(left.code - 128).name
        screen.say(f"tests/run: {name}: ending all that was started")
        raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        commands.stop()


if __name__ == "__main__":
    sys.exit(main())
