"""The three builds: g++'s as users have it, and clang's with a sanitizer each."""

import os
import re
import shutil
import time
from pathlib import Path

from parts import ASAN, PLAIN, TSAN

NEEDED_GIB = {PLAIN: 3, ASAN: 2, TSAN: 2}
LIMIT_S = 3600
# clang takes half of g++'s time for these, and what both can read is better C++. UBSan's checks
# take twice as long to compile once they are optimized; TSan's do not.
SANITIZED = {ASAN: ("address", "-O0"), TSAN: ("thread", "-O1")}


class Refused(Exception):
    """One line that says what to do."""


def options(build):
    if build == PLAIN:
        return ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DDDPRUN_SANITIZE="]
    sanitizer, optimize = SANITIZED[build]
    return [f"-DDDPRUN_SANITIZE={sanitizer}", "-DCMAKE_BUILD_TYPE=None",
            "-DCMAKE_CXX_COMPILER=clang++-14", f"-DCMAKE_CXX_FLAGS={optimize} -g1",
            "-DDDPRUN_WITH_TORCH=OFF"]


def cached(build):
    """What the folder was configured with, by CMake's name for it."""
    path = Path(build, "CMakeCache.txt")
    text = path.read_text(errors="replace") if path.exists() else ""
    return dict(re.findall(r"^([\w-]+):\w+=(.*)$", text, re.M))


def check(build):
    """Refuses a folder that cannot be built in, before anything is."""
    home = cached(build).get("CMAKE_HOME_DIRECTORY")
    if home and Path(home).resolve() != Path.cwd().resolve():
        raise Refused(f"{build}/ was made for another checkout, {home}: remove it")
    free = shutil.disk_usage(".").free / 2**30
    if not Path(build, "build.ninja").exists() and free < NEEDED_GIB[build]:
        raise Refused(f"{free:.1f} GiB are free here, and {build}/ takes {NEEDED_GIB[build]}: "
                      "make room")


def make(build, commands, screen, is_nice=False, targets=()):
    """True once it is built. What the folder was configured with before does not matter."""
    start, logs = time.monotonic(), Path(build, "test-logs")
    logs.mkdir(parents=True, exist_ok=True)
    if build != PLAIN and "clang" not in cached(build).get("CMAKE_CXX_COMPILER", "clang"):
        Path(build, "CMakeCache.txt").unlink()  # CMake goes on with the one that it began with
        shutil.rmtree(Path(build, "CMakeFiles"), ignore_errors=True)
    log = logs / "configure.log"
    status = commands.run(["cmake", "-S", ".", "-B", build, "-G", "Ninja", *options(build)], log,
                          LIMIT_S, is_nice=is_nice)
    if status == 0:
        log = logs / "build.log"

        def tick():
            *_, last = [None, *re.findall(r"^\[(\d+)/(\d+)\]", tail(log, 4000), re.M)]
            if last:
                screen.at(f"{build}: step", int(last[0]), int(last[1]))

        status = commands.run(["ninja", "-C", build, *targets], log, LIMIT_S, is_nice=is_nice,
                              tick=tick)
        screen.over(f"{build}: step")
    took = f"({time.monotonic() - start:.0f} s; {log})"
    if status == 0:
        screen.say(f"{build}: built {took}")
        return True
    screen.say(tail(log, 6000) + f"\n{build}: FAILED to build {took}")
    return False


def tail(path, count):
    """The last characters of a file, from the beginning of a line."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - count))
        text = file.read().decode(errors="replace")
    return text if size <= count else text.partition("\n")[2]
