#!/usr/bin/env python3
"""Records what a job looks like in a terminal, as an animated SVG picture.

    examples/recording/record.py                  writes restart.svg, which README.md shows
    examples/recording/record.py --output FILE    writes another file

Runs the snapshot example on two workers with the ddprun of build/bin, kills one of them with
SIGKILL in the middle, and records each line with its time. Nothing is made up, but two things are
shortened: pauses of more than a second, so that nobody has to watch Python import torch, and the
names of this machine's folders. It plays at half the real speed. Exits with 1 if the job does not
resume and succeed.
"""
import argparse
import html
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS, ROWS = 104, 26
LONGEST_PAUSE_S = 1.0
SPEED = 0.5  # of the picture, because the lines come too fast to read
LAST_PICTURE_S = 8.0  # how long the end is shown before the picture restarts
RUN_LIMIT_S = 600

COMMAND = ["ddprun", "--nproc-per-node", "2", "--max-restarts", "3", "--node-id", "node-a",
           "train.py", "14", "4"]
KILL_AFTER = re.compile(r"\[rank 1\] epoch 10 \|")
SHOWN_AS_COMMENT = "# in another terminal: kill -9 {pid}    (rank 1)"

COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff",
           "36": "#76e3ea", "2": "#8b949e", "90": "#8b949e", "1": "#ffffff"}
PLAIN, BACKGROUND, COMMENT = "#d6dbe1", "#0d1117", "#e3b341"
CHARACTER_WIDTH, LINE_HEIGHT, MARGIN = 7.8, 18, 14


class Recording:
    """Lines, each with the time at which it was complete, in seconds since the start."""

    def __init__(self):
        self.start = time.monotonic()
        self.lines = []

    def add(self, text):
        self.lines.append((time.monotonic() - self.start, text))

    def shortened(self):
        """Returns the lines at SPEED, with no pause longer than LONGEST_PAUSE_S."""
        shown, before, left_out = [], 0.0, 0.0
        for at, text in self.lines:
            left_out += max(0.0, at - before - LONGEST_PAUSE_S)
            before = at
            shown.append(((at - left_out) / SPEED, text))
        return shown


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "restart.svg")
    return parser.parse_args()


def record(folder):
    """Runs the job on a terminal of its own; returns its output, with the kill in its place."""
    environment = dict(os.environ, PATH=f"{ROOT / 'build' / 'bin'}:{os.environ['PATH']}",
                       PYTHON_EXEC=sys.executable, COLUMNS=str(COLUMNS), OMP_NUM_THREADS="1",
                       DDPRUN_DIGITS=str(ROOT / ".cache" / "digits.csv"), TERM="xterm-256color")
    script = ROOT / "examples" / "01_snapshot_resume" / "train.py"
    (folder / "train.py").symlink_to(script)
    recording = Recording()
    recording.add("$ " + " ".join(COMMAND))
    terminal, far_end = pty.openpty()
    job = subprocess.Popen(COMMAND, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                           stdout=far_end, stderr=far_end, start_new_session=True)
    os.close(far_end)
    try:
        is_killed = False
        for line in lines_of(terminal):
            recording.add(with_short_names(line, folder))
            if KILL_AFTER.search(line) and not is_killed:
                victim = worker_of(job.pid, rank=1)
                recording.add(SHOWN_AS_COMMENT.format(pid=victim))
                os.kill(victim, signal.SIGKILL)
                is_killed = True
        code = job.wait(RUN_LIMIT_S)
        if code != 0 or not is_killed:
            sys.exit(f"record.py: the job exited with {code}, "
                     + ("after" if is_killed else "before") + " a worker was killed")
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGINT)
            job.wait()
        os.close(terminal)
    return recording


def worker_of(agent, rank):
    """Returns the process that the agent has started for this rank."""
    for children in Path(f"/proc/{agent}/task").glob("*/children"):
        for child in children.read_text().split():
            if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                return int(child)
    sys.exit(f"record.py: rank {rank} is not a child of ddprun (process {agent})")


def with_short_names(line, folder):
    line = re.sub(r"[^ \"]*/site-packages/", "site-packages/", line)
    return line.replace(str(folder), "/data").replace(str(ROOT), "ddprun")


def lines_of(terminal):
    pending = b""
    while True:
        try:
            some = os.read(terminal, 65536)
        except OSError:  # EIO: the job has closed the terminal
            return
        *whole, pending = (pending + some).split(b"\n")
        for line in whole:
            yield line.rstrip(b"\r").decode("utf-8", "replace")


def wrapped(line):
    """Splits a line into rows as a terminal does: lists of (colour, text)."""
    rows, row, width, colour = [], [], 0, PLAIN
    for part in re.split(r"(\x1b\[[\d;]*m)", line):
        if part.startswith("\x1b"):
            numbers = [number for number in part[2:-1].split(";") if number]
            colour = next((COLOURS[number] for number in reversed(numbers) if number in COLOURS),
                          PLAIN)
            continue
        while part:
            if width == COLUMNS:
                rows.append(row)
                row, width = [], 0
            piece, part = part[:COLUMNS - width], part[COLUMNS - width:]
            row.append((colour, piece))
            width += len(piece)
    return [*rows, row]


def svg(lines):
    """Returns a picture of ROWS rows: each row appears at its time, and older ones move up."""
    rows = []
    for at, line in lines:
        if line.startswith("# "):
            line = "\x1b[33m" + line
        rows += [(at, row) for row in wrapped(line)]
    length = rows[-1][0] + LAST_PICTURE_S
    width = round(COLUMNS * CHARACTER_WIDTH + 2 * MARGIN)
    height = ROWS * LINE_HEIGHT + 2 * MARGIN
    style, body, moves = [], [], {"0": 0}
    for number, (at, row) in enumerate(rows):
        percent = f"{100 * at / length:.3f}"
        style.append(f"@keyframes r{number}{{0%{{opacity:0}}{percent}%,100%{{opacity:1}}}}"
                     f"#r{number}{{animation:r{number} {length:.2f}s step-end infinite}}")
        moves[percent] = max(0, number - ROWS + 1) * LINE_HEIGHT
        spans = "".join(f'<tspan fill="{colour}">{html.escape(text)}</tspan>'
                        for colour, text in row)
        body.append(f'<text id="r{number}" y="{MARGIN + number * LINE_HEIGHT + 13}" '
                    f'x="{MARGIN}" xml:space="preserve">{spans}</text>')
    last = max(moves.values())
    steps = "".join(f"{percent}%{{transform:translateY(-{up}px)}}" for percent, up in moves.items())
    style.append(f"@keyframes up{{{steps}100%{{transform:translateY(-{last}px)}}}}"
                 f"#all{{animation:up {length:.2f}s step-end infinite}}")
    # Show the end in viewers without animation, and to users who prefer no motion.
    still = (f"@media (prefers-reduced-motion:reduce){{text,#all{{animation:none!important}}"
             f"#all{{transform:translateY(-{last}px)}}}}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">\n'
            "<title>ddprun restarts a killed worker, and the job resumes</title>\n"
            f"<style>text{{font:13px ui-monospace,Menlo,Consolas,monospace}}"
            f"#all{{transform:translateY(-{last}px)}}{''.join(style)}{still}</style>\n"
            f'<clipPath id="window"><rect x="0" y="{MARGIN}" width="{width}" '
            f'height="{height - 2 * MARGIN}"/></clipPath>\n'
            f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>\n'
            '<g clip-path="url(#window)"><g id="all">\n' + "\n".join(body)
            + "\n</g></g>\n</svg>\n")


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        lines = record(Path(folder).resolve()).shortened()
    if not any("resuming from snapshot" in line for _, line in lines):
        sys.exit("record.py: the job did not resume from a snapshot")
    arguments.output.write_text(svg(lines))
    print(f"{arguments.output}: {len(lines)} lines, {lines[-1][0]:.1f} s")


if __name__ == "__main__":
    main()
