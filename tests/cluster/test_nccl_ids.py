"""NCCL's unique ids: they are made by the node that leads a round, with the real libnccl (which
needs no GPU for that), given to every worker of the round, and gone with it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from tests.support.cluster import BIN, LIMIT, get, wait_for
from tests.support.installed_nccl import installed_nccl


NCCL = installed_nccl()
pytestmark = pytest.mark.skipif(NCCL is None, reason="this Python has no NCCL (nvidia-nccl-cu13)")
BY_PATH = {"DDPRUN_NCCL_LIBRARY": str(NCCL)}


def told(cluster, ranks, round_number):
    """What these workers of this round have in their environment."""
    for rank in range(ranks):
        cluster.order(rank, "say nccl round=$DDPRUN_ROUND ids=$DDPRUN_NCCL_IDS "
                            "version=$DDPRUN_NCCL_VERSION")
    return wait_for("the workers' words", lambda: answers(cluster, ranks, round_number))


def answers(cluster, ranks, round_number):
    found = [event for event in cluster.events("nccl") if event.round == str(round_number)]
    return found if len(found) == ranks else None


def helpers(cluster):
    return [pid for pid, line in cluster.marked().items() if "ddprun-nccl-id" in line.split()[0]]


def with_address(helper_address):
    host, port = helper_address.rsplit(":", 1)
    return host.strip("[]"), int(port)


def is_open(address):
    with socket.socket() as probe:
        return probe.connect_ex(with_address(address)) == 0


def seen_by_daemon(daemon):
    """What the daemon shows, which does not include the ids themselves, because they are secret."""
    seen = json.loads(get(daemon.port, "/api/v1/runs/test")[1])["leader_data"]
    assert set(seen) == {"given_by", "about"}
    told = re.fullmatch(r"(\d+) ids? of NCCL ([\d.]+); the ranks of the first meet at (\S+)",
                        seen["about"])
    major, minor, patch = (int(part) for part in told[2].split("."))
    return {"made_by": seen["given_by"], "count": int(told[1]), "address": told[3],
            "version": 10000 * major + 100 * minor + patch}


def nodes(cluster, *names, environment=BY_PATH, **more):
    daemon = cluster.daemon()
    agents = []
    for name in names:
        agents.append(cluster.agent(name, "--nccl-ids", "on", "--max-restarts", 3,
                                    endpoint=f"127.0.0.1:{daemon.port}", nnodes=len(names),
                                    environment=environment, **more))
        if len(agents) < len(names):
            agents[-1].says(f"here:.*{name}")  # they join in the order of their ranks
    return daemon, agents


@pytest.mark.main_path
def test_all_workers_of_a_round_get_the_same_and_the_next_round_gets_others(cluster):
    daemon, agents = nodes(cluster, "node-a", "node-b", workers=2)
    cluster.started(1, 4)
    first = told(cluster, 4, 1)
    ids = {event.ids for event in first}
    assert len(ids) == 1 and re.fullmatch(r"[0-9a-f]{32,256}", ids.pop())
    seen = seen_by_daemon(daemon)
    assert (seen["made_by"], seen["count"]) == ("node-a", 1)
    assert {event.version for event in first} == {str(seen["version"])}
    assert seen["version"] > 20000
    assert is_open(seen["address"]), "ranks can meet there"
    cluster.order(3, "exit 3")
    cluster.started(2, 4)
    second = told(cluster, 4, 2)
    assert len({event.ids for event in second}) == 1
    assert second[0].ids != first[0].ids
    again = seen_by_daemon(daemon)
    assert again["address"] != seen["address"]
    assert is_open(again["address"])
    wait_for("the first round's helper to be gone", lambda: not is_open(seen["address"]))
    cluster.finish(4)
    assert [agent.wait() for agent in agents] == [0, 0]
    wait_for("the last round's helper to be gone", lambda: not is_open(again["address"]))
    cluster.nothing_left(but=[daemon])


def test_more_than_eight_are_in_the_job_store(cluster):
    daemon, agents = nodes(cluster, "node-a", "node-b", workers=5,
                           environment={**BY_PATH, "TORCH_NCCL_RANKS_PER_ROOT": "1"})
    worker = cluster.started(1, 10)[0]
    assert {event.ids for event in told(cluster, 10, 1)} == {"store:ddprun/nccl_ids"}
    assert seen_by_daemon(daemon)["count"] == 10
    host, port = worker.master.rsplit(":", 1)
    answer = subprocess.run([BIN / "store_talker", host, port], text=True, capture_output=True,
                            input="get 10000 ddprun/nccl_ids\n", check=True).stdout
    assert answer.startswith("value "), answer
    ids = bytes.fromhex(answer.split()[1]).decode().split(",")
    assert len(set(ids)) == 10
    cluster.finish(10)
    assert [agent.wait() for agent in agents] == [0, 0]


def test_a_cpp_worker_reads_more_than_eight_from_the_job_store(cluster):
    agent = cluster.agent("node-a", "--nccl-ids", "on", "--log-line-prefix-template", "[${rank}] ",
                          workers=10, command=["--no-python", BIN / "nccl_ids_reader"],
                          environment={**BY_PATH, "TORCH_NCCL_RANKS_PER_ROOT": "1"})
    assert agent.wait() == 0
    read = {rank: re.findall(rf"^\[{rank}\] id ([0-9a-f]+)$", agent.out(), re.MULTILINE)
            for rank in range(10)}
    assert len(set(read[0])) == 10
    assert all(ids == read[0] for ids in read.values()), "all in one order"


def test_the_last_ranks_get_an_id_of_their_own(cluster):
    agent = cluster.agent("node-a", "--nccl-ids", "on", workers=10,
                          environment={**BY_PATH, "TORCH_NCCL_RANKS_PER_ROOT": "3"})
    cluster.started(1, 10)
    ids = {event.ids for event in told(cluster, 10, 1)}
    assert len(ids) == 1
    assert len(set(ids.pop().split(","))) == 4
    cluster.finish(10)
    assert agent.wait() == 0


@pytest.mark.parametrize("interface, address", [("lo", "127.0.0.1"), ("eth0", "10.77.0.1")])
def test_the_helper_has_the_workers_nccl_variables(cluster, make_hosts, interface, address):
    host, = make_hosts(1)
    agent = cluster.agent("node-a", "--nccl-ids", "on", host=host,
                          environment={**BY_PATH, "NCCL_SOCKET_IFNAME": interface})
    cluster.started(1, 1)
    ids = told(cluster, 1, 1)[0].ids
    # 8 secret bytes, then the sockaddr_in at which the ranks meet: family, port, address.
    assert socket.inet_ntoa(bytes.fromhex(ids)[12:16]) == address
    cluster.finish(1)
    assert agent.wait() == 0


def test_a_helper_that_dies_is_said_and_the_workers_run_on(cluster):
    daemon, (agent,) = nodes(cluster, "node-a", workers=2)
    cluster.started(1, 2)
    seen = seen_by_daemon(daemon)
    for pid in helpers(cluster):
        os.kill(pid, signal.SIGKILL)
    agent.says(r"ddprun-nccl-id, .* has ended \(killed by SIGKILL\): workers that have not joined")
    assert not is_open(seen["address"])
    cluster.order(0, "exit 3")
    cluster.started(2, 2)
    assert re.fullmatch("[0-9a-f]+", told(cluster, 2, 2)[0].ids), "the next round has new ones"
    cluster.finish(2)
    assert agent.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_a_helper_outlives_a_batch_systems_word_to_every_process(cluster):
    agent = cluster.agent("node-a", "--nccl-ids", "on", environment=BY_PATH, workers=1)
    cluster.started(1, 1)
    before = helpers(cluster)  # the next round's may already be there
    assert before
    for helper in before:
        os.kill(helper, signal.SIGUSR1)
        os.kill(helper, signal.SIGUSR2)
    told(cluster, 1, 1)
    assert set(before) <= set(helpers(cluster))
    cluster.finish(1)
    assert agent.wait() == 0
    assert "ddprun-nccl-id, " not in agent.err()
    cluster.nothing_left()


def test_an_agent_that_is_killed_leaves_no_helper(cluster):
    daemon, (agent,) = nodes(cluster, "node-a")
    cluster.started(1, 1)
    assert helpers(cluster)
    agent.kill()
    agent.wait()
    cluster.nothing_left(but=[daemon])


def test_nccl_that_cannot_be_loaded_is_named(cluster, tmp_path):
    wrong = tmp_path / "libnccl.so.2"
    wrong.write_text("no library")
    agent = cluster.agent("node-a", "--nccl-ids", "on",
                          environment={"DDPRUN_NCCL_LIBRARY": str(wrong)})
    agent.says(r"exit code 1: .*ddprun-nccl-id: NCCL cannot be loaded: .*libnccl.so.2: .*; "
               "install it beside the workers' PyTorch, or name it in DDPRUN_NCCL_LIBRARY")
    assert agent.wait() == 1
    assert not cluster.events("start")
    cluster.nothing_left()


def test_the_nccl_of_the_workers_python_is_taken(cluster, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import os; print('ids', os.environ['DDPRUN_NCCL_IDS'],"
                      " os.environ['DDPRUN_NCCL_VERSION'], flush=True)")
    job = cluster.agent("node-a", "--nccl-ids", "on", command=[script],
                        environment={"PYTHON_EXEC": sys.executable})
    job.says(r"ids [0-9a-f]{32,256} \d{5}")
    assert job.wait() == 0


def test_a_program_that_is_no_nccl_is_told_apart(cluster):
    agent = cluster.agent("node-a", "--nccl-ids", "on",
                          environment={"DDPRUN_NCCL_LIBRARY": "libc.so.6"})
    agent.says("ddprun-nccl-id: libc.so.6: that is not NCCL: .*ncclGetVersion")
    assert agent.wait() == 1


def test_a_worker_with_another_nccl_is_refused(cluster):
    agent = cluster.agent("node-a", "--nccl-ids", "on", environment=BY_PATH, command=[
        "--no-python", "env", "DDPRUN_NCCL_VERSION=21803", BIN / "nccl_ids_reader", "22809"])
    assert agent.wait() == 1
    agent.says("nccl_ids_reader: NCCL 2.28.9 is loaded here, and NCCL 2.18.3 has made this round's "
               "ids, on the node that leads it: give all nodes the same")


def test_by_hand(tmp_path):
    """The helper alone, as a person would run it."""
    line = [BIN / "ddprun-nccl-id", "--library", str(NCCL)]
    said = subprocess.run([*line, "3"], stdin=subprocess.DEVNULL, text=True, capture_output=True,
                          timeout=LIMIT, check=True).stdout.splitlines()
    assert [words.split()[0] for words in said] == ["version", "library", "address",
                                                    "id", "id", "id", "end"]
    wrong = subprocess.run([*line, "many"], stdin=subprocess.DEVNULL, text=True,
                           capture_output=True, timeout=LIMIT, check=False)
    assert wrong.returncode == 2
    assert wrong.stderr == ("ddprun-nccl-id: 'many': the number of ids is a whole number from 1 to "
                            "65536\n")
