"""What a run prints: whole lines, and now and then how far it is."""

import sys
import threading
import time

EVERY_S = 30  # in a log; on a terminal at once


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
        if now - self.told < (0.2 if self.is_terminal else EVERY_S) or not self.progress:
            return
        self.told = now
        minutes, seconds = divmod(int(now - self.start), 60)
        line = f"... {', '.join(self.progress.values())} ({minutes} min {seconds} s)"
        if not self.is_terminal:
            print(line, flush=True)
            return
        self.clear()
        self.width = len(line)
        print("\r" + line, end="", flush=True)
