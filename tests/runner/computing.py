#!/usr/bin/env python3
"""Which C++ tests only compute, known by what they include: such a test fails each time or never,
so it is not tried again. A new test needs no entry anywhere. Started as a program, this prints the
files of those that have one thread, which TSan's build leaves out.

A file is examined together with our headers that it includes, directly or not, and with the source
of the same name as each of these. If any of these includes something that waits for a process, a
thread, a socket or a clock, or if a clock is read, the tests may depend on more than their input.
Plain files are input."""

import re
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = tuple(f"tests/{folder}/" for folder in (
    "rendezvous/base", "rendezvous/core", "rendezvous/protocol", "rendezvous/cli", "launcher/cli",
    "launcher/report", "worker/metrics", "simulation"))
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.M)
WAITS = re.compile(
    r"boost/asio(?!/(ip/(address|network)|error|buffer))|boost/(beast|process)|torch/|nccl\.h|"
    r"(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|stop_token|"
    r"poll\.h|spawn\.h|pthread\.h|semaphore\.h|netdb\.h|ifaddrs\.h|dlfcn\.h|termios\.h)$|"
    r"sys/(socket|un|wait|epoll|select|eventfd|timerfd|signalfd|inotify|prctl|ioctl|ptrace|file)"
    r"\.h|linux/(futex|netlink|rtnetlink)")
CLOCK = re.compile(r"\b(\w+_clock::now|clock_gettime|gettimeofday|getrusage|u?sleep|nanosleep|"
                   r"sleep_(for|until))\(")
# Searched in the text of tests only, because elsewhere these words are also names of ours.
PROCESS = re.compile(r"\b(::)?(v?fork|pipe2?|kill|raise|sigaction|sigtimedwait|alarm)\(")
COMMENT = re.compile(r"//.*")


@lru_cache(maxsize=None)
def read(path):
    """What this file of the tree waits for or reads, and the files of the tree that belong to
    it."""
    text = (ROOT / path).read_text(errors="replace")
    includes, code = INCLUDE.findall(text), COMMENT.sub("", text)
    asks = [name for _, name in includes if WAITS.match(name)]
    asks += [found[0] for found in CLOCK.finditer(code)]
    if path.startswith("tests/"):
        asks += [found[0] for found in PROCESS.finditer(code)]
    near = [name for name, _ in includes if name]
    near += [re.sub(r"\.hpp$", ".cpp", name) for name in near if name.endswith(".hpp")]
    return asks, [name for name in near if (ROOT / name).is_file()]


def has_one_thread(path):
    """Whether, according to its includes, it waits for nothing and reads no clock."""
    if not (ROOT / path).is_file():
        return False
    seen, left = {path}, [path]
    while left:
        asks, near = read(left.pop())
        if asks:
            return False
        new = set(near) - seen
        seen |= new
        left += new
    return True


def computes_only(path):
    return path.startswith(FOLDERS) or has_one_thread(path)


def tests_of_one_thread():
    files = (file.relative_to(ROOT).as_posix() for file in ROOT.glob("tests/**/*_test.cpp"))
    return sorted(filter(has_one_thread, files))


if __name__ == "__main__":
    print(*tests_of_one_thread(), sep="\n")
