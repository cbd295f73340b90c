"""The guardian of a killed agent, whose daemon is gone too but may come back: it keeps trying to
report for ten seconds. A guardian that started later but ends before it has not waited that long.
"""

import os
import signal

from tests.cluster.test_deaths import guardian_of
from tests.support.cluster import wait_for


class PatientGuardian:
    def __init__(self, cluster):
        self.cluster = cluster
        self.daemon = cluster.daemon()
        self.agent = cluster.agent("elsewhere", endpoint=f"127.0.0.1:{self.daemon.port}",
                                   run="elsewhere", command=["--no-python", "sleep", "1000"])
        self.agent.says("round 1 starts")
        self.pid = guardian_of(cluster, self.agent)

    def begins(self):
        self.daemon.kill()
        self.daemon.wait()
        self.agent.kill()
        self.agent.wait()

    def has_outlasted_the_others(self):
        assert self.pid in self.cluster.marked(), "guardians have stayed for their whole limit"
        os.kill(self.pid, signal.SIGKILL)
        wait_for("it to end", lambda: self.pid not in self.cluster.marked())
