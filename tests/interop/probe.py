#!/usr/bin/env python3
"""A worker that writes what it was given into DIR/RANK, where DIR is its last argument, and prints
a few lines on each stream."""

import json
import os
import sys

WORDS = ("an apple", "a kiwi", "a fig, ripe", "no fruit")


def status_of(name):
    with open("/proc/self/status") as lines:
        return next(line.split()[1] for line in lines if line.startswith(name + ":"))


def open_files():
    """The open files, except the one that is used to list them."""
    # Without the handler by which ddprun asks a worker where it stands
    # (launcher/evidence/README.md).
    return sorted(int(number) for number in os.listdir("/proc/self/fd")
                  if os.path.exists(f"/proc/self/fd/{number}")
                  and not os.readlink(f"/proc/self/fd/{number}").startswith("/memfd:ddprun-stack"))


facts = {
    "environment": dict(os.environ),
    "arguments": sys.argv[1:-1],
    "script": sys.argv[0],
    "name": __name__,
    "unbuffered": sys.stdout.write_through,
    "folder": os.getcwd(),
    "leads its session": os.getsid(0) == os.getpid() == os.getpgrp(),
    "stdin": os.readlink("/proc/self/fd/0"),
    "descriptors": open_files(),
    "ignored signals": status_of("SigIgn"),
    "blocked signals": status_of("SigBlk"),
    "mask of new files": status_of("Umask"),
    "processors": sorted(os.sched_getaffinity(0)),
    "niceness": os.nice(0),
}
rank = os.environ["RANK"]
with open(os.path.join(sys.argv[-1], rank), "w") as to:
    json.dump(facts, to)
# Each line is one write, so that lines of several workers do not mix; print() would write the
# newline separately.
for word in WORDS:
    sys.stdout.write(f"{rank} says {word}\n")
    sys.stderr.write(f"{rank} warns of {word}\n")
if "PROBE_FAILS" in os.environ and facts["environment"]["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(7)
