"""Jobs that run beside the main thread: most tests wait more than they compute, and no core should
be idle while a job is left."""

import threading
from collections import deque

from commands import Stopped

LOOK_S = 0.5  # how often a lane checks whether a job can begin; Ctrl-C is handled in between


class Lanes:
    """`count` jobs at once, each on a thread of its own. Of the jobs that need not wait, the one
    that was added first begins first."""

    def __init__(self, count):
        self.jobs, self.errors = deque(), []
        self.changed = threading.Condition()
        self.is_whole = False  # no more jobs will be added
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def add(self, job, after=None):
        """Returns an event that is set once the job is over, however it ended. The job does not
        begin before `after`, such an event, is set."""
        done = threading.Event()
        with self.changed:
            self.jobs.append((job, after, done))
            self.changed.notify_all()
        return done

    def next(self):
        """The next job and its event; None if no more will come."""
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
            except Exception as error:  # raised when the job is waited for
                self.errors.append(error)
            finally:
                done.set()

    def finish(self):
        with self.changed:
            self.is_whole = True
            self.changed.notify_all()
        for thread in self.threads:
            while thread.is_alive():
                thread.join(LOOK_S)  # Ctrl-C is handled in between
        for error in self.errors:
            raise error
