"""tests/run itself: what it counts, what it tries again, what it refuses, and what it leaves
behind."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import catch  # noqa: E402
import computing  # noqa: E402
import runs  # noqa: E402
import second_tries  # noqa: E402
from commands import MARK, Commands  # noqa: E402
from lanes import Lanes  # noqa: E402
from outcomes import (  # noqa: E402
    FAILED,
    PASSED,
    SKIPPED,
    Outcome,
    Report,
    Reports,
    end_of,
)
from parts import COMPUTING, PARTS, TRAINING, TRAINING_FILES, Part, chosen, effort  # noqa: E402
from runs import Runner  # noqa: E402

LIMIT_S = 300


def wait_for(condition):
    end = time.monotonic() + LIMIT_S
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return value


def read(tmp_path, text, status):
    path = tmp_path / "log"
    path.write_text(text)
    stream = catch.Stream(path)
    stream.read()
    stream.ended(status)
    stream.close()
    return [(one.name, one.result, one.may_be_again) for one in stream.outcomes]


GOOD = "##teamcity[testStarted name='it|'s |[good|]']\n" \
       "##teamcity[testFinished name='it|'s |[good|]' duration='7']\n"
BAD = "##teamcity[testStarted name='bad']\n" \
      "##teamcity[testFailed name='bad' message='x.cpp:1|nexpression failed']\n" \
      "##teamcity[testFinished name='bad' duration='7']\n"


def test_each_test_of_a_program_is_counted(tmp_path):
    assert read(tmp_path, GOOD + BAD, 1) == [("it's [good]", PASSED, True), ("bad", FAILED, True)]


def test_a_test_that_says_that_it_cannot_be_run_here_is_skipped(tmp_path):
    path = tmp_path / "log"
    path.write_text("##teamcity[testStarted name='other']\n"
                    "##teamcity[testIgnored name='other' message='needs root']\n"
                    "##teamcity[testFinished name='other' duration='7']\n")
    stream = catch.Stream(path)
    (outcome,) = stream.read()
    stream.close()
    assert (outcome.name, outcome.result, outcome.text) == ("other", SKIPPED, "needs root")


def test_a_skipped_test_that_has_failed_before_has_failed(tmp_path):
    text = BAD.replace("testFinished", "testIgnored")
    assert read(tmp_path, text + BAD.splitlines()[-1] + "\n", 1) == [("bad", FAILED, True)]


def test_what_computes_only_is_known_by_its_folder_or_by_what_it_includes(tmp_path):
    place = BAD.replace("x.cpp:1", "./tests/{}:1|n....|n|n./tests/{}:2")
    for file, may_be_again in (("rendezvous/core/run/close_test.cpp", False),
                               ("launcher/hosts/kubernetes/yaml_test.cpp", False),
                               ("launcher/agent/round_service_test.cpp", True)):
        assert (HERE.parent / file).exists()
        found = read(tmp_path, place.replace("{}", file), 1)
        assert found == [("bad", FAILED, may_be_again)]


@pytest.mark.parametrize("includes, computes", [
    ({"tests/a_test.cpp": "<string>"}, True),
    ({"tests/a_test.cpp": "<fstream>"}, True),  # a file is input
    ({"tests/a_test.cpp": "<boost/asio/ip/address.hpp>"}, True),  # a value
    ({"tests/a_test.cpp": "<boost/asio/io_context.hpp>"}, False),
    ({"tests/a_test.cpp": '"a.hpp"', "a.hpp": '"b.hpp"', "b.hpp": "<thread>"}, False),
    ({"tests/a_test.cpp": '"a.hpp"', "a.hpp": "<string>", "a.cpp": "<sys/socket.h>"}, False),
    ({"tests/a_test.cpp": "<unistd.h>\nauto child = fork();"}, False),
    ({"tests/a_test.cpp": "<chrono>\nauto now = std::chrono::steady_clock::now();"}, False),
    ({"tests/a_test.cpp": "<chrono>\n// no steady_clock::now() here"}, True)])
def test_what_a_test_waits_for_is_found_however_deep_it_is_included(tmp_path, monkeypatch, includes,
                                                                    computes):
    for name, included in includes.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"#include {included}\n")
    monkeypatch.setattr(computing, "ROOT", tmp_path)
    computing.read.cache_clear()
    assert computing.computes_only("tests/a_test.cpp") == computes
    assert computing.tests_of_one_thread() == (["tests/a_test.cpp"] if computes else [])
    computing.read.cache_clear()


def test_each_folder_that_only_computes_is_there():
    for folder in computing.FOLDERS:
        assert list((HERE.parents[1] / folder).rglob("*_test.cpp")), folder


def test_a_program_that_dies_fails_the_test_that_ran_and_is_not_tried_again(tmp_path):
    text = GOOD + "##teamcity[testStarted name='last']\nSegmentation fault\n"
    assert read(tmp_path, text, -11)[1:] == [("last", FAILED, False)]
    assert read(tmp_path, GOOD, -11)[1:] == [("the program", FAILED, False)]
    assert read(tmp_path, text, None)[1:] == [("last", FAILED, True)]  # it took too long
    after_a_failure = BAD + text  # that failure says nothing about this end
    assert read(tmp_path, after_a_failure, 66)[2:] == [("last", FAILED, False)]


CATCH = """#!/usr/bin/env python3
import sys, time
names = ["first, [of] all", "reports", "bad, as said", "crashes", "last"]
def escaped(name):  # as Catch2 wants it, or it takes the comma for the end of the name
    return name.replace(",", "\\\\,").replace("[", "\\\\[").replace("]", "\\\\]")
if "-f" in sys.argv:
    wanted = open(sys.argv[-1]).read().splitlines()
    names = [name for name in names if escaped(name) in wanted]
if "--list-test-names-only" in sys.argv:
    sys.exit(print(*names, sep="\\n"))
with open("begun", "a") as file:
    print(len(names), file=file)
def say(event, name, more=""):
    name = name.replace("[", "|[").replace("]", "|]")
    print(f"##teamcity[{event} name='{name}'{more}]", flush=True)
failed = 0
for name in names:
    say("testStarted", name)
    if name in DEADLY:
        sys.exit(66)
    if name in HANGING:
        time.sleep(1000)
    if name.startswith("bad"):
        failed += 1
        say("testFailed", name, " message='x.cpp:1'")
    say("testFinished", name, " duration='7'")
sys.exit(failed)
"""


def run_program(tmp_path, monkeypatch, deadly, hanging=()):
    """Runs a program of five tests, of which these end the program, or never end."""
    program = tmp_path / "build-x/bin/tests"
    program.parent.mkdir(parents=True)
    program.write_text(CATCH.replace("DEADLY", repr(deadly)).replace("HANGING", repr(hanging)))
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    runner = Runner(Commands(), SimpleNamespace(say=lambda text: None, at=lambda *_: None,
                                                over=lambda part: None), sys.executable)
    report = runner.run(Part("tests", "catch", "tests", "build-x", again=True))
    found = [(one.name, one.result, one.may_be_again) for one in report.outcomes]
    return found, (tmp_path / "begun").read_text().split()


def test_what_stands_behind_a_sanitizers_report_is_run_all_the_same(tmp_path, monkeypatch):
    found, begun = run_program(tmp_path, monkeypatch, ["reports", "crashes"])
    assert found == [("first, [of] all", PASSED, True), ("reports", FAILED, False),
                     ("bad, as said", FAILED, True), ("crashes", FAILED, False),
                     ("last", PASSED, True)]
    assert begun == ["5", "3", "1"]  # none of them twice


def test_one_that_hangs_is_ended_and_tried_again_and_what_stands_behind_it_is_run(
        tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "CATCH_LIMIT_S", 1)
    found, begun = run_program(tmp_path, monkeypatch, [], ["reports"])
    assert found[1:] == [("reports", FAILED, True), ("bad, as said", FAILED, True),
                         ("crashes", PASSED, True), ("last", PASSED, True)]
    assert begun == ["5", "3"]


def test_a_program_that_dies_again_and_again_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "DEATHS_MAX", 2)
    found, begun = run_program(tmp_path, monkeypatch, ["reports", "bad, as said", "crashes"])
    assert found[1:] == [("reports", FAILED, False), ("bad, as said", FAILED, False),
                         ("the program", FAILED, False)]
    assert begun == ["5", "3"]


def test_a_program_that_takes_too_long_is_left_alone(tmp_path, monkeypatch):
    """The limit is that of the whole program, so the rest is not started again and again."""
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + (
        runs.PART_LIMIT_S if (tmp_path / "begun").exists() else 0))
    monkeypatch.setattr(runs, "time", late)
    monkeypatch.setattr(runs, "CATCH_LIMIT_S", 1)
    found, begun = run_program(tmp_path, monkeypatch, [], ["reports", "bad, as said", "crashes"])
    assert found[1:] == [("reports", FAILED, True), ("the program", FAILED, False)]
    assert begun == ["5"]


def test_what_computes_for_minutes_has_all_the_time_of_its_part():
    assert runs.limit_of(Part("fuzz", "fuzz", lane=COMPUTING)) == runs.PART_LIMIT_S
    assert runs.limit_of(Part("unit", "catch")) == runs.CATCH_LIMIT_S


def test_how_a_program_has_ended_is_said():
    assert end_of(66) == "ended with 66"
    assert end_of(-9) == "was killed by SIGKILL"
    assert end_of(None) == "hung, or took too long: it was ended by tests/run"


def test_what_computes_has_a_session_of_its_own_and_what_else_runs_a_group():
    commands = Commands()
    for is_apart in (False, True):
        process = commands.start(["sleep", "1000"], is_apart=is_apart)
        assert os.getpgid(process.pid) == process.pid
        assert os.getsid(process.pid) == (process.pid if is_apart else os.getsid(0))
        commands.end([process])
        assert process.returncode == -signal.SIGINT


def test_all_that_computes_is_apart_from_the_agents_of_tests():
    for part in PARTS:
        starts_agents = part.kind in ("pytest", "own") or part.target == "process_tests"
        assert part.apart != starts_agents, part.name


def test_what_waits_for_a_build_does_not_hold_up_what_does_not():
    lanes, built, done = Lanes(2), threading.Event(), []
    first = lanes.add(lambda: done.append("built"), built)
    second = lanes.add(lambda: done.append("other"))
    assert second.wait(LIMIT_S) and not first.is_set()
    built.set()
    assert first.wait(LIMIT_S)
    lanes.finish()
    assert done == ["other", "built"]


def test_as_many_jobs_run_at_once_as_there_are_lanes():
    lanes, both = Lanes(2), threading.Barrier(2)
    for _ in range(2):
        lanes.add(lambda: both.wait(LIMIT_S))  # each waits for the other
    lanes.finish()


def test_a_fault_of_a_job_ends_no_other_and_is_raised_at_the_end():
    lanes = Lanes(1)
    lanes.add(lambda: 1 // 0)
    assert lanes.add(lambda: None).wait(LIMIT_S)
    with pytest.raises(ZeroDivisionError):
        lanes.finish()


def test_each_test_of_pytest_is_counted_once(tmp_path):
    (tmp_path / "test_it.py").write_text("""
import pytest
@pytest.fixture
def leaky():
    yield
    raise RuntimeError("left behind")
def test_good(): pass
def test_bad(): assert 1 == 2
def test_leaky(leaky): pass
def test_bad_and_leaky(leaky): assert 1 == 2
def test_left_out(): pytest.skip("no GPU")
@pytest.mark.xfail
def test_known(): assert False
""")
    environment = {**os.environ, "DDPRUN_TEST_STREAM": str(tmp_path / "stream"),
                   "PYTHONPATH": str(HERE)}
    for spread in ([], ["-n", "2"]):
        (tmp_path / "stream").unlink(missing_ok=True)
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "pytest_stream", "-p",
                        "no:cacheprovider", *spread, tmp_path / "test_it.py"], check=False,
                       env=environment, capture_output=True, cwd=tmp_path)
        lines = [json.loads(line) for line in (tmp_path / "stream").read_text().splitlines()]
        assert lines[0] == {"whole": 6}
        found = {line["name"].partition("::")[2]: line for line in lines[1:]}
        assert len(lines) == 7
        assert {name: line["result"] for name, line in found.items()} == {
            "test_good": PASSED, "test_bad": FAILED, "test_leaky": FAILED,
            "test_bad_and_leaky": FAILED, "test_left_out": SKIPPED, "test_known": PASSED}
        assert all(line["cpu"] >= 0 for line in lines[1:])
        assert "left behind" in found["test_leaky"]["text"]
        assert found["test_left_out"]["text"] == "no GPU"


class Machine:
    """Runs tests again; those that `better` names pass at that try."""

    def __init__(self, **better):
        self.better, self.tried = better, []

    def run(self, part, names, suffix):
        self.tried.append(names[0])
        number = self.tried.count(names[0])
        is_good = self.better.get(names[0]) == number
        return Report(part, "log" + suffix, [Outcome(names[0], PASSED if is_good else FAILED)])


def tried_again(machine, part, outcomes):
    reports = Reports()
    reports.add(Report(part, "log", outcomes))
    second_tries.take_place(machine, SimpleNamespace(say=lambda text: None), reports)
    return reports


PROCESSES = Part("processes", "pytest", again=True)


def test_a_test_that_passes_alone_is_counted_as_passed_and_named():
    machine = Machine(late=1, later=2)
    reports = tried_again(machine, PROCESSES, [Outcome(name, FAILED)
                                               for name in ("late", "later", "never")])
    assert machine.tried == ["late", "later", "later", "never", "never"]
    assert (reports.total(PASSED), reports.total(FAILED)) == (2, 1)
    assert second_tries.line(reports) == "2 on a second try: processes late, processes later"


def test_what_computes_only_and_what_crashed_has_no_second_try():
    machine = Machine(a=1)
    assert tried_again(machine, Part("sums", "catch"), [Outcome("a", FAILED)]).total(FAILED) == 1
    crash = Outcome("a", FAILED, may_be_again=False)
    assert tried_again(machine, PROCESSES, [crash]).total(FAILED) == 1
    assert not machine.tried


def test_more_than_five_are_red():
    names = "abcdef"
    machine = Machine(**dict.fromkeys(names, 1))
    outcomes = [Outcome(name, FAILED) for name in names]
    assert tried_again(machine, PROCESSES, outcomes).total(FAILED) == 6
    assert not machine.tried
    assert tried_again(machine, PROCESSES, outcomes[:5]).total(FAILED) == 0


def test_the_tiers():
    for part in PARTS:
        computes = part.name.endswith(("simulation", "fuzz")) or part.name == "million"
        assert not (computes and part.again), part.name
    quick, thorough = chosen([]), chosen(["thorough"])
    assert {part.name for part in quick} - {part.name for part in thorough} == {
        "asan-main-paths", "tsan-main-paths"}  # the second tier takes all paths
    assert [part.name for part in chosen(["asan-cluster"])] == ["asan-cluster"]
    assert [part.name for part in chosen(["cluster"])] == ["cluster", "cluster-torch"]


def test_thorough_does_all_of_a_test_and_the_first_tier_does_not():
    assert [effort(words) for words in ([], ["unit"], ["cluster", "million"])] == ["quick"] * 3
    assert [effort(words) for words in (["thorough"], ["million"], ["slow", "asan-cluster"])] == \
        ["thorough"] * 3


@pytest.mark.parametrize("word, asked, told", [
    ("unit", None, "quick"), ("unit", "thorough", "thorough"), ("million", None, "thorough"),
    ("million", "quick", "thorough")])
def test_the_tests_are_told_how_much_to_do(tree, monkeypatch, word, asked, told):
    monkeypatch.delenv("DDPRUN_TEST_EFFORT", raising=False)
    if asked:
        monkeypatch.setenv("DDPRUN_TEST_EFFORT", asked)
    for name in ("cmake", "ninja"):
        (tree / "bin" / name).write_text("#!/bin/sh\n")
        (tree / "bin" / name).chmod(0o755)
    for name in ("unit_tests", "simulation_tests"):
        program = tree / "build/bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$DDPRUN_TEST_EFFORT" > {tree}/told\n'
                           f'echo "DDPRUN_SEED=$DDPRUN_SEED" >> {tree}/seeds\nexit 3\n')
        program.chmod(0o755)
    run = start(tree, word)
    text, _ = run.communicate(timeout=LIMIT_S)
    assert (tree / "told").read_text() == f"{told}\n", text
    # Each start takes the same sample, and so does a second try. It is printed if anything failed.
    first, *others = (tree / "seeds").read_text().splitlines()
    assert others and {*others} == {first}
    assert (f"the samples of this run: {first}\n" in text) == ("failed: " in text), text


def test_tests_that_train_leave_no_core_idle_and_have_room():
    assert [runs.at_once(cores, gib)[TRAINING] for cores, gib in (
        (1, 64), (2, 64), (4, 64), (64, 512), (64, 12), (2, 2))] == [3, 5, 9, 12, 4, 2]


COLLECTS = """
import sys, pytest
status = pytest.main(sys.argv[1:])
print("imported:", *[name for name in ("torch", "matplotlib") if name in sys.modules])
sys.exit(status)
"""


def collected(part, *arguments):
    """The cluster tests that this part would run. What is in the lane of those that wait is found
    without packages that take long to import, as each of many processes has to find it."""
    files = [HERE.parent / file for file in TRAINING_FILES.split()]
    what = files if "/" in part.target else [HERE.parent / "cluster"]
    done = subprocess.run([sys.executable, "-c", COLLECTS, "-q", "--collect-only", "-p",
                           "no:cacheprovider", *map(str, what), *arguments], cwd=HERE.parents[1],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert part.name != "cluster" or "\nimported:\n" in done.stdout, done.stdout
    return {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}


def test_each_test_that_trains_is_in_the_lane_of_those_and_in_no_other():
    waiting, training = (next(part for part in PARTS if part.name == name)
                         for name in ("cluster", "cluster-torch"))
    every = collected(training)
    trains, others = collected(training, *training.arguments), collected(waiting,
                                                                         *waiting.arguments)
    assert not trains & others and every <= trains | others
    files = {name.partition("::")[0].rpartition("/")[2] for name in trains}
    assert {f"cluster/{name}" for name in files} == set(training.target.split())
    assert {"test_torch.py", "test_training_loop.py", "test_readme.py", "test_hangs.py",
            "test_slurm_examples.py"} <= files


@pytest.fixture
def tree(tmp_path):
    """A checkout with this runner, in which the build is a program that never ends and has a
    child."""
    shutil.copytree(HERE, tmp_path / "tests/runner", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "bin").mkdir()
    cmake = tmp_path / "bin/cmake"
    cmake.write_text(f"#!/bin/sh\nsetsid sleep 1000 &\necho > {tmp_path}/begun\nwait\n")
    cmake.chmod(0o755)
    return tmp_path


def start(tree, *words):
    environment = {**os.environ, "PATH": f"{tree}/bin:{os.environ['PATH']}"}
    return subprocess.Popen([sys.executable, tree / "tests/runner", *words], env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def refusal(tree, *words):
    run = start(tree, *words)
    text, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 2
    assert text.count("\n") == 1 or text.startswith("usage: "), text
    return text.splitlines()[-1]


def processes_of(tree):
    """The processes that this tree's run has started, known by the environment that it gives
    them."""
    def belongs(folder):
        try:
            variables = (folder / "environ").read_bytes()
        except OSError:
            return False
        return f"{tree}/bin:".encode() in variables and f"{MARK}=".encode() in variables

    return [folder.name for folder in Path("/proc").glob("[0-9]*")
            if int(folder.name) != os.getpid() and belongs(folder)]


def test_an_unknown_part_is_refused(tree):
    assert "no part 'unti'; there are: thorough, style" in refusal(tree, "unti")


def test_an_unknown_effort_is_refused(tree, monkeypatch):
    monkeypatch.setenv("DDPRUN_TEST_EFFORT", "much")
    assert refusal(tree, "unit") == ('tests/run: DDPRUN_TEST_EFFORT is "much": it may be quick or '
                                     'thorough')


def test_a_build_of_another_checkout_is_refused(tree):
    (tree / "build").mkdir()
    (tree / "build/CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
    assert refusal(tree, "unit") == ("tests/run: build/ was made for another checkout, /elsewhere: "
                                     "remove it")


@pytest.fixture
def full_disk(tree):
    """The same tree on a disk with no room."""
    folder = tree / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount a file system")
    for name in ("tests", "bin"):
        shutil.copytree(tree / name, folder / name)
    (folder / "build/test-logs").mkdir(parents=True)
    (folder / "build/build.ninja").touch()
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(folder):
    with contextlib.suppress(OSError), open(folder / "fill", "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def test_a_full_disk_is_refused_and_one_that_fills_is_named(full_disk):
    words = f"0.0 GiB are free in {full_disk}, and "
    assert refusal(full_disk, "unit") == f"tests/run: {words}0.5 are needed: make room"
    fill(full_disk)
    run = start(full_disk, "style")
    text, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode != 0 and words in text, text


def test_a_part_that_needs_no_build_is_repeated_and_its_failures_counted(tree):
    (tree / "tests/support").mkdir()
    for name, code in (("layers", ""), ("hiding", ""), ("names", ""), ("ports", ""),
                       ("messages", ""), ("sizes", "raise SystemExit('too long')")):
        (tree / f"tests/support/check_{name}.py").write_text(code)
    run = start(tree, "--repeat", "2", "style")
    text, _ = run.communicate(timeout=LIMIT_S)
    assert "failed 2 of 2 times: style sizes" in text
    assert text.endswith("\n12 passed, 2 failed, 0 skipped\n")


def test_builds_that_repeated_parts_need_are_made(tree):
    (tree / "bin/cmake").write_text(f"#!/bin/sh\necho $4 >> {tree}/begun\n")
    (tree / "bin/ninja").write_text("#!/bin/sh\nexit 1\n")
    (tree / "bin/ninja").chmod(0o755)
    run = start(tree, "--repeat", "2", "asan", "unit")
    text, _ = run.communicate(timeout=LIMIT_S)
    assert (tree / "begun").read_text() == "build\nbuild-asan\n"
    assert text.endswith("\n0 passed, 2 failed, 0 skipped\n")


def test_a_failure_is_shown_at_once_and_junit_has_it(tree):
    for name in ("cmake", "ninja"):
        (tree / "bin" / name).write_text("#!/bin/sh\n")
        (tree / "bin" / name).chmod(0o755)
    program = tree / "build/bin/unit_tests"
    program.parent.mkdir(parents=True)
    (tree / "events").write_text(GOOD + BAD)
    program.write_text('#!/bin/sh\ncase "$*" in *--list-test-names-only*) exit;; esac\n'
                       f"cat {tree}/events\nuntil [ -e {tree}/go ]; do sleep 0.1; done\nexit 1\n")
    program.chmod(0o755)
    run = start(tree, "--repeat", "1", "unit")
    shown = next(line for line in run.stdout if "FAILED" in line)
    assert shown == "unit: FAILED: bad (build/test-logs/unit-1.log)\n"
    assert run.poll() is None
    (tree / "go").touch()
    text, _ = run.communicate(timeout=LIMIT_S)
    assert text.endswith("\n1 passed, 1 failed, 0 skipped\n"), text
    suite = ElementTree.parse(tree / "build/test-logs/unit-1.xml").getroot()
    assert [suite.get(name) for name in ("name", "tests", "failures")] == ["unit", "2", "1"]
    good, bad = suite
    assert good.get("name") == "it's [good]" and not list(good)
    assert "x.cpp:1\nexpression failed" in bad.find("failure").text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_run_at_a_time_and_nothing_is_left_of_one_that_is_ended(tree, number):
    run = start(tree, "unit")
    wait_for((tree / "begun").exists)
    assert refusal(tree, "unit") == (f"tests/run: process {run.pid} runs the tests of this tree "
                                     "already: wait for it, or end it")
    assert processes_of(tree)
    run.send_signal(number)
    text, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 128 + number
    assert text == f"tests/run: {number.name}: ending all that was started\n"
    assert not processes_of(tree)
