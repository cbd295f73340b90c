#!/usr/bin/env python3
"""Which C++ tests only compute, told by what they include: such a test fails each time or never, so
that it is not tried again. Nobody has to write that down for a new test. Started as a program, this
prints the files of those that have one thread, which TSan's build leaves out.

A file is looked at together with the headers of ours that it includes, with theirs, and with the
source of the same name as each of these. Wherever in there something is included that waits for a
process, a thread, a socket or a clock, or one of the clocks is asked, its tests may depend on more
than their input. Plain files are input."""

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
# In the text of a test. Elsewhere these words are also names of ours.
PROCESS = re.compile(r"\b(::)?(v?fork|pipe2?|kill|raise|sigaction|sigtimedwait|alarm)\(")
COMMENT = re.compile(r"//.*")


@lru_cache(maxsize=None)
def read(path):
    """What this file of the tree waits for or asks, and the files of the tree that belong to it."""
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
    """By its includes: it waits for nothing, and asks no clock."""
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
