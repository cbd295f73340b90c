"""Parts that are more than one program; each is a function with the part's name."""

import itertools
import time
from pathlib import Path

import builds
from outcomes import FAILED, PASSED, Outcome, Report
from parts import ALONE, PLAIN, TRAINING_FILES, Part

LIMIT_S = 7200
# The folders in which a part builds by itself.
BUILDS = {"versions": [builds.VERSIONS], "mutation": [builds.MUTATION]}
SOURCES = ("rendezvous", "launcher", "worker", "examples", "tests")


def check(runner, report, name, command, environment=None):
    """One test that passes or fails."""
    log, start = Path(PLAIN, "test-logs", f"{name}.log"), time.monotonic()
    status = runner.commands.run(command, log, LIMIT_S, environment)
    seconds = time.monotonic() - start
    report.seconds += seconds
    runner.take(report, [Outcome(name, PASSED if status == 0 else FAILED, seconds,
                                 "" if status == 0 else builds.tail(log, 4000))])


def style(runner, part):
    report = Report(part, f"{PLAIN}/test-logs")
    files = [path for folder in SOURCES for path in Path(folder).rglob("*")
             if path.suffix in (".cpp", ".hpp", ".cu")]
    check(runner, report, "format", ["clang-format", "--dry-run", "-Werror", *files])
    for name in ("layers", "sizes", "hiding", "names", "ports", "messages"):
        check(runner, report, name, ["python3", f"tests/support/check_{name}.py"])
    yield report


def mutation(runner, part):
    report = Report(part, f"{PLAIN}/test-logs")
    check(runner, report, "mutation", ["tests/mutation/run"])
    yield report


# The code paths of oneDNN and ATen on processors without AVX-512 or AVX2, and numbers of threads.
ISAS, CAPABILITIES, THREADS = ("", "AVX2", "SSE41"), ("", "avx2", "default"), ("1", "2")


def every_pair():
    """A small number of settings in which each value of one of the three meets each value of the
    others."""
    for one, two in itertools.product(range(len(ISAS)), range(len(CAPABILITIES))):
        yield ISAS[one], CAPABILITIES[two], THREADS[(one + two) % 2]
    yield "SSE41", "default", "2"  # the weakest


def arithmetic(runner, part):
    """Runs all tests that train as on other processors, because no test may depend on how a sum is
    rounded."""
    for isa, capability, threads in every_pair():
        name = f"arithmetic-{isa or 'all'}-{capability or 'all'}-{threads}"
        told = (("OMP_NUM_THREADS", threads), ("DDPRUN_TEST_THREADS", threads),
                *((("ONEDNN_MAX_CPU_ISA", isa),) if isa else ()),
                *((("ATEN_CPU_CAPABILITY", capability),) if capability else ()))
        yield runner.run(Part(f"{name}-torch", "catch", "torch_tests", environment=told))
        yield runner.run(Part(f"{name}-cluster", "pytest", TRAINING_FILES,
                              arguments=("-m", "trains"), environment=told, again=True,
                              lane=ALONE))
        yield runner.run(Part(f"{name}-interop", "pytest", "interop", environment=told, again=True,
                              lane=ALONE))
        report = Report(part, f"{PLAIN}/test-logs/{name}-demo.log")
        check(runner, report, f"{name}-demo", ["examples/demo"], dict(told))
        yield report


def versions(runner, part):
    """Builds worker/torch with each supported PyTorch, and runs it and the scripts that use it."""
    build, python = builds.VERSIONS, runner.python
    for line in Path("tests/torch_versions.txt").read_text().splitlines():
        packages = line.partition("#")[0].split()
        if not packages:
            continue
        name = packages[0].replace("==", "-")
        report = Report(part, f"{PLAIN}/test-logs/{name}.log")
        environment = f"{name}-environment"
        check(runner, report, environment, ["tests/support/torch_environment", *packages])
        if report.failed():
            yield report
            continue
        *_, folder = Path(PLAIN, "test-logs", f"{environment}.log").read_text().splitlines()
        runner.python = Path(folder, "bin", "python")
        check(runner, report, name, ["sh", "-c", f"""
            cmake -S . -B {build} -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DDDPRUN_SANITIZE= \
                -DDDPRUN_PYTHON={runner.python} &&
            ninja -C {build} torch_tests ddprun ddprun-rendezvous store_server store_talker"""])
        yield report
        if not report.failed():
            yield runner.run(Part(f"{name}-torch", "catch", "torch_tests", build))
            yield runner.run(Part(f"{name}-interop", "pytest", "interop", build, lane=ALONE))
            yield runner.run(Part(f"{name}-records", "pytest", "cluster/test_flight_records.py",
                                  build, lane=ALONE))
            yield runner.run(Part(f"{name}-survivors", "pytest",
                                  "cluster/test_torch_survivors_group.py", build, lane=ALONE))
    runner.python = python


def programs(runner, part):
    """Tests with other people's libraries, in an environment of their own."""
    report = Report(part, f"{PLAIN}/test-logs/programs-environment.log")
    check(runner, report, "programs-environment", ["tests/support/programs_environment"])
    yield report
    if report.failed():
        return
    *_, folder = Path(PLAIN, "test-logs", "programs-environment.log").read_text().splitlines()
    python, runner.python = runner.python, Path(folder, "bin", "python")
    patient = (("DDPRUN_TEST_LIMIT", "400"),)  # two trainings each, and the imports of a third
    yield runner.run(Part("programs-of-others", "pytest", "programs", environment=patient))
    runner.python = python
