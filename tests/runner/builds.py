"""The three builds: one with g++, as users have it, and two with clang, each with a sanitizer."""

import errno
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from parts import ASAN, PLAIN, TSAN

VERSIONS, MUTATION = "build-versions", "build-mutation"
# `versions` needs the most, because it makes environments in .cache.
NEEDED_GIB = {PLAIN: 3, ASAN: 2, TSAN: 2, VERSIONS: 7, MUTATION: 1}
NEEDED_ANYWAY_GIB = 0.5  # for logs, and for the files of tests that are running
LIMIT_S = 3600
# clang needs half of g++'s time for these, and code that both compile is better C++. With
# optimization UBSan's checks take twice as long to compile, and TSan's a third longer.
SANITIZED = {ASAN: "address", TSAN: "thread"}


class Refused(Exception):
    """One line that says what to do."""


def options(build):
    if build == PLAIN:
        return ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DDDPRUN_SANITIZE="]
    return [f"-DDDPRUN_SANITIZE={SANITIZED[build]}", "-DCMAKE_BUILD_TYPE=None",
            "-DCMAKE_CXX_COMPILER=clang++-14", "-DCMAKE_CXX_FLAGS=-O0 -g1",
            "-DDDPRUN_WITH_TORCH=OFF"]


def cached(build):
    """What the folder was configured with, by CMake's name of the variable."""
    path = Path(build, "CMakeCache.txt")
    text = path.read_text(errors="replace") if path.exists() else ""
    return dict(re.findall(r"^([\w-]+):\w+=(.*)$", text, re.M))


def check(wanted):
    """Refuses folders in which nothing can be built, before anything is built. The disk must have
    room for all new ones."""
    needed = 0
    for build in sorted(wanted):
        home = cached(build).get("CMAKE_HOME_DIRECTORY")
        if home and Path(home).resolve() != Path.cwd().resolve():
            raise Refused(f"{build}/ was made for another checkout, {home}: remove it")
        if not any(Path(build, place).exists() for place in ("build.ninja", "tree/build.ninja")):
            needed += NEEDED_GIB[build]
    if lack := lacking(Path.cwd(), needed or NEEDED_ANYWAY_GIB):
        raise Refused(lack)
    if lack := lacking(tempfile.gettempdir(), NEEDED_ANYWAY_GIB):
        raise Refused(lack)


def lacking(folder, needed_gib):
    """A line if that much is not free."""
    free = shutil.disk_usage(folder).free / 2**30
    return f"{free:.1f} GiB are free in {folder}, and {needed_gib} are needed: make room" \
        if free < needed_gib else ""


def full_disks():
    """A line for each folder into which a run writes and that has no room left, because failures
    may be due to that."""
    return list(filter(None, (lacking(folder, 0.1) for folder in (Path.cwd(),
                                                                  tempfile.gettempdir()))))


def sentence(error):
    """The line for a system error that ends a run."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "; ".join(full_disks()) or f"{error.filename or 'a disk'} is full: make room"
    return str(error)


def make(build, commands, screen, targets=()):
    """Builds; returns whether that succeeded. How the folder was configured before does not
    matter."""
    start, logs = time.monotonic(), Path(build, "test-logs")
    logs.mkdir(parents=True, exist_ok=True)
    if build != PLAIN and "clang" not in cached(build).get("CMAKE_CXX_COMPILER", "clang"):
        Path(build, "CMakeCache.txt").unlink()  # or CMake keeps its first compiler
        shutil.rmtree(Path(build, "CMakeFiles"), ignore_errors=True)
    log = logs / "configure.log"
    status = commands.run(["cmake", "-S", ".", "-B", build, "-G", "Ninja", *options(build)], log,
                          LIMIT_S, is_apart=True)
    if status == 0:
        log = logs / "build.log"

        def tick():
            *_, last = [None, *re.findall(r"^\[(\d+)/(\d+)\]", tail(log, 4000), re.M)]
            if last:
                screen.at(f"{build}: step", int(last[0]), int(last[1]))

        status = commands.run(["ninja", "-C", build, *targets], log, LIMIT_S, is_apart=True,
                              tick=tick)
        screen.over(f"{build}: step")
    took = f"({time.monotonic() - start:.0f} s; {log})"
    if status == 0:
        screen.say(f"{build}: built {took}")
        return True
    screen.say(tail(log, 6000) + f"\n{build}: FAILED to build {took}")
    return False


def tail(path, count):
    """The last characters of a file, from the beginning of a line on."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - count))
        text = file.read().decode(errors="replace")
    return text if size <= count else text.partition("\n")[2]
