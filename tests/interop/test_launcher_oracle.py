"""What PyTorch's own tests require of its launcher, required of ddprun; tests/README.md has the
list.

If PyTorch has a function that parses what people type, that function decides.
"""

import re
import signal
import subprocess
from datetime import timedelta

import pytest
import store_client
from torch.distributed.elastic.multiprocessing import Std
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousTimeout
from torch.distributed.elastic.rendezvous.utils import (
    _parse_rendezvous_config, parse_rendezvous_endpoint)  # fmt: skip
from torch.distributed.run import determine_local_world_size, get_args_parser

from tests.support.cluster import BIN, LIMIT, Program, wait_for


def ddprun(*words, **variables):
    return subprocess.run([BIN / "ddprun", *words], capture_output=True, text=True, timeout=LIMIT,
                          check=False,
                          env={"PATH": "/usr/bin:/bin", "PET_CHECK": "off", **variables})


def refuses(function, *arguments):
    try:
        function(*arguments)
    except ValueError:
        return True
    return False


def ddprun_refuses(option, text):
    """Errors are reported in the order in which they were typed, and nothing is started."""
    done = ddprun(f"{option}={text}", "--nnodes=zero", "/bin/true")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done
    is_taken = done.stderr.startswith("ddprun: --nnodes=zero: ")
    assert is_taken or done.stderr.startswith(f"ddprun: {option}={text}"), done
    return not is_taken


ENDPOINTS = [
    "node.example:0", "node.example:123", "node.example:65535", "node-1.example:123", "10.1.2.3:0",
    "10.1.2.3:65535", "[2001:db8::7]:0", "[2001:db8::7]:123", "node.example", "10.1.2.3",
    "[2001:db8::7]", "", "node.example :123", ":123", "node.example:", "node.example:abc",
    "node.example:-123", "node.example:-", "node.example:65536", "node.example:70000",
]  # fmt: skip


@pytest.mark.parametrize("text", ENDPOINTS)
def test_an_endpoint_is_one_for_both_or_for_none(text):
    assert ddprun_refuses("--rdzv-endpoint", text) == refuses(parse_rendezvous_endpoint, text, 1)


@pytest.mark.parametrize("text", [
    " settle= 2  ,linger=3,  stop_grace =1,drain_grace = 4", "", "   ", "settle=2,=  ,linger=1",
    "settle=2, = ,linger=1", "settle=2,  =,linger=1", "linger=1,settle,stop_grace=2",
    "linger=1,stop_grace=2,settle", "linger=1,settle=,stop_grace=2", "  settle ",
])  # fmt: skip
def test_settings_are_some_for_both_or_for_none(text):
    assert ddprun_refuses("--rdzv-conf", text) == refuses(_parse_rendezvous_config, text)


@pytest.mark.parametrize("text", ["settle=1,", "settle=1,,linger=2", "settle=1,   ,linger=2"])
def test_a_comma_too_many_is_forgiven_here(text):
    assert refuses(_parse_rendezvous_config, text)
    assert not ddprun_refuses("--rdzv-conf", text)


@pytest.mark.parametrize("text", ["1", "True", "tRue", "T", "t", "yEs", "Y", "0", "False", "faLse",
                                  "F", "f", "nO", "N", "01", "Flse", "Ture", "g", "4", "_",
                                  "truefalse", "2", "-1"])
def test_a_truth_is_one_for_both_or_for_none(text):
    asked = RendezvousParameters("c10d", "", "run", 1, 1, is_host=text)
    assert ddprun_refuses("--rdzv-conf", f"is_host={text}") == refuses(asked.get_as_bool, "is_host")


@pytest.mark.parametrize("seconds", [-1, 0, 1, 600])
def test_times_are_positive(seconds):
    assert ddprun_refuses("--rdzv-conf", f"join_timeout={seconds}") == refuses(
        RendezvousTimeout, timedelta(seconds=seconds))


@pytest.mark.parametrize("text", ["0", "1", "2", "3", "0:1", "0:1,1:1", "0:1,", "11", "0:1,1",
                                  "1,0:1", "4", "0:4", "one"])
def test_streams_are_some_for_both_or_for_none(text):
    assert ddprun_refuses("--tee", text) == refuses(Std.from_str, text)


@pytest.mark.parametrize("words, variables", [
    (["--no-python", "--module"], {}),
    (["--no-python"], {"PET_MODULE": "1"}),
    ([], {"PET_MODULE": "1", "PET_NO_PYTHON": "1"}),
])  # fmt: skip
def test_a_module_needs_python(words, variables):
    done = ddprun(*words, "/bin/true", **variables)
    assert done.returncode == 2 and "module" in done.stderr.lower(), done
    if variables:
        variables["PET_MODULE"] = "0"
        assert ddprun("--no-python", "/bin/true", **variables).returncode == 0


def test_variables_that_are_empty_are_none():
    names = [action.dest for action in get_args_parser()._actions if action.option_strings]
    done = ddprun("--no-python", "/bin/true", **{f"PET_{name.upper()}": "" for name in names})
    assert done.returncode == 0 and "PET_" not in done.stderr, done


@pytest.mark.parametrize("count", ["4", "auto", "cpu", "gpu", "unknown"])
def test_there_are_as_many_workers_as_torchrun_starts(count):
    done = ddprun(f"--nproc-per-node={count}", "--no-python", "/bin/sh", "-c",
                  'printf "worker %s of %s\\n" $RANK $WORLD_SIZE')
    try:
        expected = determine_local_world_size(count)
    except ValueError:
        assert done.returncode == 2 and count in done.stderr, done
        return
    said = re.findall(r"worker (\d+) of (\d+)", done.stdout)
    assert sorted(map(int, dict(said))) == list(range(expected))
    assert set(dict(said).values()) == {str(expected)}


def run(cluster, script, *options, **variables):
    return Program(cluster, "ddprun", [BIN / "ddprun", "--node-id=here", *options, "--no-python",
                                       "/bin/bash", "-c", script], environment=variables)


def test_an_exit_code_above_128_is_no_signal(cluster, tmp_path):
    job = run(cluster, "echo exit of $RANK >&2; [ $RANK = 1 ] && exec sleep 1000; exit 138",
              "--nproc-per-node=2", "--redirects=0:3", f"--log-dir={tmp_path}/logs")
    assert job.wait() == 138
    assert re.search(r"rank 0 \(local rank 0\) exited with code 138$", job.err(), re.M), job.err()
    assert "SIG" not in job.err() and "rank 1 was stopped" in job.err()
    [place] = (tmp_path / "logs").glob("*/attempt_0")
    files = {str(path.relative_to(place)): path.read_text() for path in place.rglob("*.log")}
    assert files == {"0/stdout.log": "", "0/stderr.log": "exit of 0\n"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_workers_are_sent_the_signal_of_their_launcher_and_none_is_left(cluster, number):
    script = ('for one in TERM INT HUP QUIT; do trap "echo got SIG$one; exit" $one; done; '
              f"touch {cluster.folder}/$RANK.up; while :; do sleep 0.05; done")
    job = run(cluster, script, "--nproc-per-node=2")
    wait_for("both workers", lambda: len(list(cluster.folder.glob("*.up"))) == 2)
    job.kill(number)
    assert job.wait() == 128 + number
    assert re.findall(r"got (\w+)", job.out()) == [number.name] * 2
    cluster.nothing_left()


def test_every_line_of_many_workers_is_shown_and_kept(cluster, tmp_path):
    workers, lines = 32, 1000
    job = run(cluster, f"seq -f \"$RANK:%g\" {lines}", "--tee=1",
              f"--nproc-per-node={workers}", f"--log-dir={tmp_path}/logs")
    assert job.wait() == 0
    expected = {rank: list(range(1, lines + 1)) for rank in range(workers)}
    shown = {rank: [] for rank in expected}
    for rank, number in re.findall(r"^\[here:\d+\] (\d+):(\d+)$", job.out(), re.M):
        shown[int(rank)].append(int(number))
    assert shown == expected
    kept = {int(path.parent.name): [int(line.partition(":")[2]) for line in path.open()]
            for path in (tmp_path / "logs").glob("*/attempt_0/*/stdout.log")}
    assert kept == expected


def test_ranks_that_fail_together_cost_one_restart(cluster):
    """Each time other ranks fail, with another code, so this does not count as a start that fails
    again and again."""
    job = run(cluster, "n=$TORCHELASTIC_RESTART_COUNT; exit $(((RANK + n) % 2 * (n + 3)))",
              "--nproc-per-node=4", "--max-restarts=2")
    assert job.wait() == 5
    assert "round 3 starts" in job.err() and "round 4" not in job.err(), job.err()
    assert "both restarts are used" in job.err() or "2 restarts" in job.err(), job.err()


def test_a_rank_that_kills_itself_once_is_started_again(cluster):
    job = run(cluster, "[ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ] && kill -9 $BASHPID; "
              "echo $RANK ends well", "--nproc-per-node=2", "--max-restarts=3")
    assert job.wait() == 0
    assert "rank 1 (local rank 1) killed by SIGKILL" in job.err(), job.err()
    assert {"[here:0] 0 ends well", "[here:1] 1 ends well"} <= set(job.out().splitlines())


ERROR_FILES = {
    "text and number": ('{"message": "the text", "timestamp": 10}', "the text"),
    "text and text": ('{"message": "the text", "timestamp": "10"}', "the text"),
    "@record": ('{"message": {"message": "ValueError: NaN", "extraInfo": {"py_callstack": '
                '"Traceback (most recent call last):\\n  File \\"/data/train.py\\", line 8, in step'
                '\\n    raise ValueError()\\nValueError: NaN\\n", "timestamp": "10"}}}',
                "ValueError: NaN"),
    "other keys": ('{"unknown": "value"}', "the last word"),
    "no JSON": ("Fatal", "the last word"),
    "nothing": ("", "the last word"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ERROR_FILES)
def test_an_error_file_says_why_and_a_broken_one_does_no_harm(cluster, kind):
    """torchrun's agent itself ends with an exception if the file is broken."""
    text, why = ERROR_FILES[kind]
    (cluster.folder / "error").write_text(text)
    job = run(cluster, f"cp {cluster.folder}/error $TORCHELASTIC_ERROR_FILE; "
              "echo the last word >&2; exit 3")
    assert job.wait() == 3
    box = "".join(line for line in job.err().splitlines(True) if line.startswith("  | "))
    assert why in box, job.err()
    if kind == "@record":
        assert "/data/train.py:8 in step: raise ValueError()" in box


def test_ranks_and_role_ranks_of_seven_nodes_are_consecutive(cluster):
    daemon = cluster.daemon()
    nodes = [("master", 8), ("trainer", 1), ("trainer", 2), ("trainer", 3), ("trainer", 4),
             ("ps", 5), ("ps", 2)]
    script = 'echo "<$ROLE_NAME $RANK $ROLE_RANK $GROUP_RANK $ROLE_WORLD_SIZE $WORLD_SIZE>"'
    agents = [Program(cluster, f"node-{number}",
                      [BIN / "ddprun", f"--rdzv-endpoint=127.0.0.1:{daemon.port}", "--nnodes=7",
                       f"--nproc-per-node={workers}", f"--role={role}", "--node-id",
                       f"node-{number}", "--no-python", "/bin/sh", "-c", script])
              for number, (role, workers) in enumerate(nodes)]
    assert [agent.wait() for agent in agents] == [0] * 7
    sizes = {"master": 8, "trainer": 10, "ps": 7}
    all_ranks, role_ranks = [], {role: [] for role in sizes}
    for agent, (role, workers) in zip(agents, nodes):
        told = re.findall(r"<(\S+) (\d+) (\d+) (\d+) (\d+) (\d+)>", agent.out())
        assert {one[0] for one in told} == {role}
        assert len({one[3] for one in told}) == 1  # its group rank
        assert {one[4:] for one in told} == {(str(sizes[role]), "25")}
        for found, all_found in ((1, all_ranks), (2, role_ranks[role])):
            ranks = sorted(int(one[found]) for one in told)
            assert ranks == list(range(ranks[0], ranks[0] + workers))
            all_found += ranks
    assert sorted(all_ranks) == list(range(25))
    assert {role: sorted(ranks) for role, ranks in role_ranks.items()} == {
        role: list(range(size)) for role, size in sizes.items()}


def test_a_node_that_is_done_waits_for_one_that_is_not(cluster):
    daemon = cluster.daemon()
    a, b = cluster.nodes("node-a", "node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2)
    first, _ = cluster.started(1, 2)
    cluster.order(0, "exit 0")
    wait_for("the first worker to be gone", lambda: int(first.pid) not in cluster.marked())
    assert a.running() and b.running()
    cluster.order(1, "exit 0")
    assert (a.wait(), b.wait()) == (0, 0)


def test_no_node_waits_after_a_failure(cluster):
    """PyTorch's exit barrier is only for success."""
    daemon = cluster.daemon()
    a, b = cluster.nodes("node-a", "node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2)
    cluster.started(1, 2)
    cluster.order(1, "exit 9")
    assert (a.wait(), b.wait()) == (9, 9)
    cluster.nothing_left(but=[daemon])


def test_an_endpoint_that_does_not_resolve_is_named(cluster):
    agent = cluster.agent("node-a", endpoint="no-such-host.invalid:29400", nnodes=2,
                          conf="join_timeout=1")
    assert agent.wait() not in (0, 2)
    assert "no-such-host.invalid" in agent.err().splitlines()[-1], agent.err()


@pytest.fixture
def backend(store):
    return C10dRendezvousBackend(store, "run")


def test_torchruns_state_is_set_by_an_agent_that_knows_the_last_one(backend):
    assert backend.get_state() is None
    state, first, is_set = backend.set_state(b"one")
    assert (state, is_set) == (b"one", True)
    assert backend.get_state() == (b"one", first)
    state, second, is_set = backend.set_state(b"two", first)
    assert (state, is_set) == (b"two", True) and second != first
    for token in (first, None, "no token"):
        assert backend.set_state(b"three", token) == (b"two", second, False)
    assert backend.get_state() == (b"two", second)


def test_torchrun_sees_that_its_state_was_spoilt(server, backend):
    backend.set_state(b"one")
    store_client.connect(server.port).set("torch.rendezvous.run", "spoilt")
    with pytest.raises(Exception, match="corrupt"):
        backend.get_state()
