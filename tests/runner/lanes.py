"""A lane does one thing after the other on a thread of its own, beside what the main thread does:
most tests wait more than they compute."""

import queue
import threading

from commands import Stopped


class Lane:
    def __init__(self):
        self.jobs, self.errors = queue.Queue(), []
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while (job := self.jobs.get()) is not None:
            try:
                job()
            except Stopped:
                return
            except Exception as error:  # said when it is waited for
                self.errors.append(error)

    def add(self, job):
        """An event that is set once the job is over, however it ended."""
        done = threading.Event()

        def run():
            try:
                job()
            finally:
                done.set()

        self.jobs.put(run)
        return done

    def finish(self):
        self.jobs.put(None)
        while self.thread.is_alive():
            self.thread.join(0.5)  # Ctrl-C comes between
        for error in self.errors:
            raise error
