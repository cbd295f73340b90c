#!/usr/bin/env python3
"""Four ranks of one node save and resume a state that is the same on all: with one writer and with
four, compared with `dd` with fsync; and all four resume, compared with one that reads alone.

    snapshot_ranks_benchmark.py [--mebibytes=1024] [--rounds=5] [--folder=snapshot-ranks-benchmark]
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
from pathlib import Path

BIN = Path(os.environ.get("DDPRUN_BUILD", "build")).resolve() / "bin"
RANKS = 4
COLUMNS = ["dd", "one writer", "all writers", "one reads", "all read"]


def spread(values):
    return f"{statistics.median(values):8.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default="snapshot-ranks-benchmark")
    given = parser.parse_args()
    try:
        done = subprocess.run(
            [BIN / "ddprun", "--standalone", f"--nproc-per-node={RANKS}", "--no-python",
             BIN / "snapshot_ranks", given.folder, str(given.mebibytes), str(given.rounds)],
            check=True, text=True, stdout=subprocess.PIPE)
    finally:
        shutil.rmtree(given.folder, ignore_errors=True)
    pattern = ", ".join(rf"{name} ([\d.]+)" for name in COLUMNS)
    rounds = [dict(zip(COLUMNS, map(float, found)))
              for found in re.findall(pattern, done.stdout)]
    assert len(rounds) == given.rounds, done.stdout

    def rate(name):
        return spread([given.mebibytes / each[name] for each in rounds])

    def ratio(one, other):
        return spread([each[one] / each[other] for each in rounds])

    print(f"{given.mebibytes} MiB, {RANKS} ranks, {given.rounds} rounds: median (least to most)")
    print("dd with fsync, MiB/s           ", rate("dd"))
    print("1 writer, MiB/s                ", rate("one writer"))
    print("  against dd                   ", ratio("dd", "one writer"))
    print(f"{RANKS} writers, MiB/s               ", rate("all writers"))
    print("  against dd                   ", ratio("dd", "all writers"))
    print("1 rank reads all, MiB/s        ", rate("one reads"))
    print(f"{RANKS} ranks resume, MiB/s          ", rate("all read"))
    print("  against 1 that reads alone   ", ratio("one reads", "all read"))


if __name__ == "__main__":
    main()
