"""What runs beside the main thread: most tests wait more than they compute, and no core is to be
idle while anything is left."""

import threading
from collections import deque

from commands import Stopped

LOOK_S = 0.5  # so often a lane looks whether what a job waits for is there; Ctrl-C comes between


class Lanes:
    """`count` jobs at once, each on a thread of its own. Of those that need not wait for anything
    the one that was added first is begun first."""

    def __init__(self, count):
        self.jobs, self.errors = deque(), []
        self.changed = threading.Condition()
        self.is_whole = False  # nothing more is added
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def add(self, job, after=None):
        """An event that is set once the job is over, however it ended. It is not begun before
        `after`, such an event."""
        done = threading.Event()
        with self.changed:
            self.jobs.append((job, after, done))
            self.changed.notify_all()
        return done

    def next(self):
        """The job and its event; None when there will be none."""
        with self.changed:
            while self.jobs or not self.is_whole:
                for one in self.jobs:
                    job, after, done = one
                    if after is None or after.is_set():
                        self.jobs.remove(one)
                        return job, done
                self.changed.wait(LOOK_S)
        return None

    def work(self):
        while found := self.next():
            job, done = found
            try:
                job()
            except Stopped:
                return
            except Exception as error:  # said when it is waited for
                self.errors.append(error)
            finally:
                done.set()

    def finish(self):
        with self.changed:
            self.is_whole = True
            self.changed.notify_all()
        for thread in self.threads:
            while thread.is_alive():
                thread.join(LOOK_S)  # Ctrl-C comes between
        for error in self.errors:
            raise error
