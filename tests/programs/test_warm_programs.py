"""Training with other people's libraries, by two ranks: a warm worker writes what a cold one does,
to the last digit."""

import re
import sys

import pytest
from scripts import SCRIPTS

from tests.support.cluster import wait_for
from tests.support.spares import spares_wait
from tests.support.warm_agent import ahead

# A warm worker is one of the second attempt: the first trains, too, so that its imports are known,
# and fails when the test says so.
BEFORE = """import sys
is_warm = {is_warm}
"""
AFTER = """
import os
import time
folder, rank = os.environ["DDPRUN_TEST_CONTROL"], os.environ["RANK"]
if os.environ["TORCHELASTIC_RESTART_COUNT"] != os.environ["DDPRUN_TEST_LAST"]:
    open(f"{folder}/trained.{rank}", "w").close()
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.01)
    os._exit(3)
open(f"{folder}/is_warm.{rank}", "w").write(str(is_warm))
"""
# Seconds, speeds, dates, ports, processes and places in memory.
ANEW = re.compile(r"0x[0-9a-f]+|\d+\.\d+ ?(s|it/s|seconds)\b|'train_\w+': '?[\d.]+'?|tmp\w{8}|"
                  r"\[[WI][\d :.]+|\[?20\d\d-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+\]?|"
                  r"(MASTER_PORT|master_port)=\d+|\[(PID|pid) ?:?\d+\]|[\d.]+(e-\d+)? sec\w*")


def job(cluster, tmp_path, name, warm):
    """What each rank of the last attempt has written."""
    last = 0 if warm == "off" else 1
    script = tmp_path / "train.py"
    script.write_text(BEFORE.format(is_warm=ahead("torch")) + SCRIPTS[name] + AFTER)
    logs = tmp_path / f"logs-{warm}"
    agent = cluster.agent("node", "--warm", warm, "--max-restarts", 1, "--log-dir", logs,
                          "--redirects", 3, workers=2, command=[script],
                          environment={"PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1",
                                       "DDPRUN_TEST_LAST": str(last),
                                       "XDG_CACHE_HOME": str(tmp_path / "cache")})
    if last:
        for rank in range(2):
            trained = cluster.folder / f"trained.{rank}"
            wait_for(f"the first attempt of rank {rank} to have trained",
                     lambda trained=trained: trained.exists() or not agent.running())
        spares_wait(agent, 2)
        (cluster.folder / "go").touch()
    assert agent.wait() == 0, agent.err()
    texts = []
    for rank in range(2):
        said = (cluster.folder / f"is_warm.{rank}").read_text()
        assert said == str(warm != "off"), agent.err()
        # DeepSpeed's extension was compiled when it was installed.
        assert not (tmp_path / "cache" / "torch_extensions").exists(), agent.err()
        texts.append([next(logs.glob(f"*/attempt_{last}/{rank}/{stream}.log")).read_text()
                      for stream in ("stdout", "stderr")])
    # What packages write as they are imported is written once, by whoever imports them ahead.
    ahead_of_all = re.findall(r"^\[node:warm\] ?(.*)", agent.out() + agent.err(), re.M)
    return texts, set(map(compared, ahead_of_all))


def compared(line):
    return ANEW.sub("~", line)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_warm_rank_writes_what_a_cold_one_does(cluster, tmp_path, needs, name):
    needs(name)
    cold, _ = job(cluster, tmp_path, name, "off")
    warm, ahead_of_all = job(cluster, tmp_path, name, "auto")

    def lines(text):
        return [line for line in map(compared, text.splitlines()) if line not in ahead_of_all]

    for was, now in zip(cold, warm):
        assert len(was[0].splitlines()) >= 2 and "of 2" in was[0]
        for one, other in zip(was, now):
            assert lines(other) == lines(one)
