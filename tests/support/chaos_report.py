"""The report of a failed chaos episode: all that is needed to find the cause."""

import json
import re
import time
from collections import defaultdict
from pathlib import Path

from tests.support.cluster import DIRECT

STAMP = re.compile(r"\b(\d\d:\d\d:\d\d\.\d{3})\b")
LINES = 200
LINES_WITHOUT_TIME = 8


def clock(wall):
    return time.strftime("%H:%M:%S", time.localtime(wall)) + f".{int(wall % 1 * 1000):03d}"


def rounds_text(checker, wall_offset):
    """For each round and node, the time span in which its ranks were seen."""
    found = defaultdict(list)
    for life in checker.lives.values():
        process = life.process
        kind = "workers" if process.is_worker else "children"
        found[(process.instance, process.round, process.node, kind)].append(life)
    rows = []
    for (instance, number, node, kind), lives in found.items():
        first, last = min(each.first for each in lives), max(each.last for each in lives)
        ranks = sorted(each.process.rank for each in lives)
        rows.append((first, f"  {clock(first + wall_offset)} to {clock(last + wall_offset)}  "
                     f"instance {instance[:6]} round {number:3} {node} {kind} of ranks {ranks} of "
                     f"{lives[0].process.world_size}, {lives[0].process.restarts} restarts"))
    return [text for _, text in sorted(rows)][-40:]


def program_lines(cluster):
    """(stamp, line) of all standard error output; a line without a time follows the one before it.
    """
    rows = []
    loose = []
    for index, program in enumerate(cluster.programs):
        stamp = ""
        for line in program.err().splitlines():
            found = STAMP.search(line[:60])
            if found:
                stamp = found.group(1)
            elif not stamp:
                loose.append(f"  {program.name}.{index}: {line}")
                continue
            rows.append((stamp, f"{program.name}.{index} {line}"))
    return rows, loose


def daemon_view(chaos):
    try:
        address = f"http://127.0.0.1:{chaos.port}/api/v1/runs"
        with DIRECT.open(address, timeout=3) as answer:
            return json.dumps(json.load(answer), indent=1)[:4000]
    except (OSError, ValueError) as problem:
        return f"no answer: {problem}"


def read(path):
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return "?"


def threads_text(pid, depth=0):
    """Where each thread of a process and its children is waiting, to diagnose a hang."""
    lines = []
    try:
        tasks = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
    except OSError:
        return lines
    for task in tasks:
        state = read(task / "stat").rpartition(")")[2].split()[:1]
        lines.append(f"  {'  ' * depth}{task.name} {read(task / 'comm')} {''.join(state)} in "
                     f"{read(task / 'wchan')}, system call {read(task / 'syscall').split()[:1]}")
        for child in read(task / "children").split():
            if child.isdigit():
                lines += threads_text(int(child), depth + 1)
    return lines


def report(chaos, text):
    setting = chaos.setting
    rows, loose = program_lines(chaos.cluster)
    rows += [(clock(wall), f"{clock(wall)} CHAOS {line}") for wall, line in chaos.log]
    # The sort is stable, so that a program's lines of one millisecond stay in order.
    rows.sort(key=lambda row: row[0])
    offset = time.time() - time.monotonic()
    checker = chaos.checker
    return "\n".join([
        text,
        f"again: tests/cluster/chaos --seed {setting.seed}",
        f"{setting}",
        f"longest time between two looks: {checker.longest_gap * 1000:.0f} ms; "
        f"two rounds lived at once for {checker.overlap_seconds:.2f} s",
        f"output of all programs: {chaos.cluster.folder}",
        "--- rounds",
        *rounds_text(checker, offset),
        "--- the daemon's view",
        daemon_view(chaos),
        "--- faults and standard error of all programs",
        *[line for _, line in rows[-LINES:]],
        "--- lines without a time",
        *loose[-LINES_WITHOUT_TIME:],
        "--- threads",
        *[line for program in chaos.cluster.programs if program.running()
          for line in threads_text(program.pid)],
        # Repeated, because only the end of a long log is kept.
        text,
    ])
