"""examples/02_store_client under the launcher, and by hand at the daemon's own store."""

import re
import subprocess

from tests.support.cluster import BIN, ROOT, Program

ROLL_CALL = BIN / "roll_call"


def places(text, world_size):
    """The process of each rank in a roll that was printed."""
    found = re.findall(rf"rank (\d+) of {world_size}: .+, process (\d+)", text)
    assert [int(rank) for rank, _ in found] == list(range(world_size)), text
    return [int(process) for _, process in found]


def come(cluster, port, rank, world_size, meeting):
    return Program(cluster, f"rank{rank}",
                   [ROLL_CALL, "127.0.0.1", port, rank, world_size, meeting])


def test_under_the_launcher_rank_0_reads_the_roll(cluster):
    agent = cluster.agent("", "--nproc-per-node", "4", "--no-python", command=[ROLL_CALL])
    assert agent.wait() == 0, agent.err()
    assert len(set(places(agent.out(), 4))) == 4
    assert all(line.startswith("[") and ":0] " in line for line in agent.out().splitlines())


def test_by_hand_the_ranks_meet_at_the_daemon(cluster):
    daemon = cluster.daemon()
    for meeting in ("monday", "tuesday"):
        ranks = [come(cluster, daemon.port, rank, 3, meeting) for rank in (2, 0, 1)]
        for rank in ranks:
            assert rank.wait() == 0, rank.err()
        pids = places(ranks[1].out(), 3)
        assert pids == [ranks[1].pid, ranks[2].pid, ranks[0].pid]
        assert ranks[0].out() == ranks[2].out() == ""
    late = come(cluster, daemon.port, 0, 3, "monday")
    assert late.wait() == 1
    assert late.err() == "roll_call: meeting 'monday' was held before\n"


def test_a_daemon_that_dies_ends_the_wait_with_one_line(cluster):
    daemon = cluster.daemon()
    alone = come(cluster, daemon.port, 0, 2, "never")
    told = subprocess.run([BIN / "store_talker", "127.0.0.1", str(daemon.port)], text=True,
                          input="wait 60000 roll_call/never/count\n", capture_output=True)
    assert told.stdout == "ok\n", told.stderr
    daemon.kill()
    assert alone.wait() == 1
    assert re.fullmatch(
        rf"roll_call: rank 0 of 2: store at 127\.0\.0\.1:{daemon.port}: "
        r"WAIT 'roll_call/never/complete': the store closed the connection after .*s "
        r"\(a peer is gone or late\)\n",
        alone.err())
    daemon.wait()


def test_the_readme_says_what_the_program_says():
    shown = (ROOT / "examples/02_store_client/README.md").read_text()
    assert len(places(shown, 3)) == 3
