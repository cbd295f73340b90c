"""`ddprun doctor --nnodes N` on hosts as network namespaces of one machine: seconds from the first
command to the last node's table.

Run it by `tests/benchmark/run`, never beside tests. All hosts share this machine's processors.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("DDPRUN_BUILD", ROOT / "build")).resolve() / "bin"
sys.path.insert(0, str(ROOT))
from tests.support.hosts import Switch, available  # noqa: E402

ROUNDS = 3


def seconds(switch, words):
    """The seconds of one meeting of all hosts, and what the first one prints."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "PYTHON_EXEC": "/nonexistent/python"}
    begin = time.perf_counter()
    doctors = [subprocess.Popen(
        [*host.prefix, BIN / "ddprun", "doctor", "--json", "--nnodes", str(len(switch.hosts)),
         "--rdzv-endpoint", switch.hosts[0].address, *words],
        stdout=subprocess.PIPE, env=environment) for host in switch.hosts]
    told = [json.loads(each.communicate()[0]) for each in doctors]
    took = time.perf_counter() - begin
    assert all(each["errors"] == 0 for each in told), told[0]
    return took, told[0]


def main():
    if not available():
        print("this machine does not allow network namespaces (needs root)")
        return
    print("doctor, all nodes started at once, to the last table")
    for count in (2, 8, 32):
        switch = Switch(count)
        try:
            times = [seconds(switch, []) for _ in range(ROUNDS)]
            pairs = len(times[0][1]["pairs"])
            middle = statistics.median(took for took, _ in times)
            print(f"  {count:>2} hosts, {pairs:>3} pairs               {middle:.1f} s", flush=True)
            if count < 32:
                continue
            took, _ = seconds(switch, ["--bandwidth"])
            print(f"  {count:>2} hosts, with --bandwidth      {took:.1f} s")
        finally:
            switch.remove()


if __name__ == "__main__":
    main()
