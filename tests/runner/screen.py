"""What a run prints: whole lines, and now and then how far it is."""

import os
import sys
import threading
import time

EVERY_S = 30  # in a log; on a terminal at once


def columns():
    """The width of the terminal; None if it has none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def fitted(parts, end, width):
    """One line with as many parts as it has room for. A line that wraps could not be cleared."""
    for count in range(len(parts), -1, -1):
        rest = len(parts) - count
        more = [f"{rest} more" if count else f"{rest} parts"] if rest else []
        line = f"... {', '.join([*parts[:count], *more])} {end}"
        if width is None or len(line) < width:
            return line
    return line[:width - 1]


class Screen:
    def __init__(self):
        self.start = time.monotonic()
        self.lock = threading.RLock()
        self.is_terminal = sys.stdout.isatty()
        self.told = self.start
        self.progress = {}  # of the parts that run now
        self.width = 0

    def say(self, text):
        with self.lock:
            self.clear()
            print(text, flush=True)

    def clear(self):
        if self.width:
            print("\r" + " " * self.width + "\r", end="")
            self.width = 0

    def at(self, part, done, whole):
        """So many tests of this part are done. `whole` is None as long as the total is unknown."""
        with self.lock:
            self.progress[part] = f"{part} {done}" + (f" of {whole}" if whole else "")
            self.tell()

    def over(self, part):
        with self.lock:
            self.progress.pop(part, None)

    def tell(self):
        now = time.monotonic()
        if now - self.told < (0.2 if self.is_terminal else EVERY_S):
            return
        self.told = now
        minutes, seconds = divmod(int(now - self.start), 60)
        width = columns() if self.is_terminal else None
        line = fitted(list(self.progress.values()), f"({minutes} min {seconds} s)", width)
        if not self.is_terminal:
            print(line, flush=True)
            return
        self.clear()
        self.width = len(line)
        print("\r" + line, end="", flush=True)
