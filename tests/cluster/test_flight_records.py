"""What PyTorch's worker server and flight recorder add to the evidence and to the naming of hangs,
with real PyTorch over Gloo."""

import _thread
import ctypes
import importlib
import json
import os
import re
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tests.cluster.test_hangs_across import nodes
from tests.support.needs import needs
from tests.support.standing_script import line_of

needs("torch", "PyTorch is not installed here")
pytestmark = pytest.mark.trains

LIMIT = 300
ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """import ctypes
import os
import sys
import time
from pathlib import Path
import torch
import torch.distributed as dist


def work():
{work}


attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
folder = Path(os.environ["DDPRUN_TEST_CONTROL"])
dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(3):
    dist.all_reduce(torch.ones(8))
if attempt == {hangs_in}:
    work()
dist.barrier()
dist.destroy_process_group()
print(f"attempt {{attempt}} has ended well", flush=True)
"""

STANDS = """
    if rank == 1:
        {how}
    dist.all_reduce(torch.ones(4, 256))
"""
# The second one holds the interpreter's lock, so no Python code runs any more.
SLEEPS = "time.sleep(3600)"
HOLDS = "ctypes.PyDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)"


def write(folder, *work, hangs_in=0):
    script = folder / "train.py"
    lines = "\n".join(textwrap.dedent(one).strip("\n") for one in work)
    script.write_text(SCRIPT.format(hangs_in=hangs_in, work=textwrap.indent(lines, " " * 4)))
    return script


def start(cluster, script, *options, workers=2, **more):
    return cluster.agent("node", "--max-restarts", 1, "--max-quick-failures", 0,
                         "--hang-timeout", 5, "--collectives", "on", *options,
                         workers=workers, command=[script],
                         environment={"PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1"},
                         **more)


@pytest.mark.parametrize("how", [SLEEPS, HOLDS], ids=["sleeps", "holds the interpreter"])
def test_the_collective_that_a_rank_does_not_come_to_is_named(cluster, tmp_path, how):
    script = write(tmp_path, STANDS.format(how=how))
    agent = start(cluster, script, "--log-dir", tmp_path / "logs", "--tee", 3, workers=3)
    assert agent.wait(LIMIT) == 0, agent.err()
    line, call = line_of(script, how), line_of(script, "torch.ones(4, 256)")
    assert (f"rank 1 stood in work (train.py:{line}) while ranks 0 and 2 waited in all_reduce #4, "
            f"work (train.py:{call})") in agent.err()
    (folder,) = (tmp_path / "logs").glob("*/attempt_0/evidence")
    waiting = (folder / "rank_0.txt").read_text()
    assert "the last collective called is #4, the last that has ended #3" in waiting
    assert re.search(r"has not ended: all_reduce #4 of float32\[4, 256\], called .* ago", waiting)
    assert "ended: all_reduce #3 of float32[8]" in waiting
    assert "the last collective called is #3" in (folder / "rank_1.txt").read_text()
    cluster.nothing_left()


def test_of_a_long_job_the_collective_is_named_too(cluster, tmp_path):
    """PyTorch keeps its last 2,000 calls. The processor time of the answer, which grows with them,
    is no move of the rank."""
    script = write(tmp_path, """
        for _ in range(3000):
            dist.all_reduce(torch.ones(8))
    """, STANDS.format(how=SLEEPS))
    agent = start(cluster, script)
    assert agent.wait(LIMIT) == 0, agent.err()
    line, call = line_of(script, SLEEPS), line_of(script, "torch.ones(4, 256)")
    assert (f"rank 1 stood in work (train.py:{line}) while rank 0 waited in all_reduce #3004, "
            f"work (train.py:{call})") in agent.err()
    cluster.nothing_left()


# The group of all ranks is none of Gloo's, as in an NCCL job with groups on Gloo beside it.
PART = """
import os
import time
import torch
import torch.distributed as dist
from torch.testing._internal.distributed import fake_pg

if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    store, rank, size = next(dist.rendezvous("env://"))
    dist.init_process_group("fake", store=store, rank=rank, world_size=size)
    part = dist.new_group([0, 1], backend="gloo", group_desc="part")
    dist.all_reduce(torch.ones(8), group=part)
    if rank == 1:
        time.sleep(3600)
    dist.all_reduce(torch.ones(4, 256), group=part)
"""


def test_a_group_is_known_by_its_name_and_not_by_its_number(cluster, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PART)
    agent = start(cluster, script, "--log-dir", tmp_path / "logs", "--tee", 3)
    assert agent.wait(LIMIT) == 0, agent.err()
    assert "while rank 0 waited in all_reduce #2 of group part, <module> " in agent.err()
    (folder,) = (tmp_path / "logs").glob("*/attempt_0/evidence")
    waiting = (folder / "rank_0.txt").read_text()
    assert re.findall("process group .*: the last.*", waiting) == [
        "process group 1 (part): the last collective called is #2, the last that has ended #1"]
    cluster.nothing_left()


@pytest.mark.parametrize("calls, told", [
    (("dist.all_reduce(torch.ones(1024))", "dist.broadcast(torch.ones(7, 3).long(), 0)"),
     ("all_reduce of float32[1024]", "broadcast of int64[7, 3]")),
    (("dist.all_reduce(torch.ones(1024))", "dist.barrier()"),
     ("all_reduce of float32[1024]", "barrier")),
], ids=["broadcast", "barrier"])
def test_ranks_that_wait_in_different_collectives_are_told(cluster, tmp_path, calls, told):
    script = write(tmp_path, f"""
        if rank == 1:
            {calls[1]}
        else:
            {calls[0]}
        time.sleep(3600)
    """)
    agent = start(cluster, script, workers=3)
    assert agent.wait(LIMIT) == 0, agent.err()
    assert ("; ranks called different collectives as #4: rank 1 " + told[1] +
            ", ranks 0 and 2 " + told[0]) in agent.err()
    cluster.nothing_left()


def test_nodes_tell_each_other_in_which_collective_their_ranks_wait(cluster, tmp_path):
    script = write(tmp_path, """
        if rank == 1:
            dist.barrier(group=None)
        else:
            dist.all_reduce(torch.ones(1024))
        time.sleep(3600)
    """)
    _, agents = nodes(cluster, 2, script, "--hang-timeout", 10, "--collectives", "on")
    for agent in agents:
        assert agent.wait(LIMIT) == 0, agent.err()
        told = re.search("no rank of this run has moved for .*", agent.err()).group()
        for rank, name, call in ((0, "all_reduce", "ones(1024)"), (1, "barrier", "(group=None)")):
            line = line_of(script, call)
            assert f"rank {rank} waited in {name} #4, work (train.py:{line})" in told
    cluster.nothing_left(but=cluster.programs[:1])


def test_of_a_warm_worker_the_collective_is_known_too(cluster, tmp_path):
    script = write(tmp_path, """
        if attempt == 0:
            while not (folder / "go").exists():
                print("waits", flush=True)
                time.sleep(0.2)
            sys.exit(3)
        if attempt == 1:
            print("warm", any(hasattr(one, "holds") for one in sys.meta_path), flush=True)
    """, STANDS.format(how=SLEEPS), hangs_in="0 or attempt == 1")
    agent = start(cluster, script, "--warm", "auto", "--max-restarts", 2, "--hang-timeout", 20)
    agent.says("2 spare workers wait", LIMIT)
    (cluster.folder / "go").touch()
    assert agent.wait(LIMIT) == 0, agent.err()
    assert agent.out().count("warm True") == 2
    assert (f"rank 1 stood in work (train.py:{line_of(script, SLEEPS)}) while rank 0 waited in "
            "all_reduce #4, work ") in agent.err()
    cluster.nothing_left()


# What a script sees of itself, before and after its first process group.
PROBE = """
import json, os, signal, sys, threading
START = sorted(sys.modules)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
import ctypes, warnings
import torch
import torch.distributed as dist


def look():
    table = dist.distributed_c10d._world.pg_map
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return {
        "modules": sorted(sys.modules), "path": sys.path, "meta_path": repr(sys.meta_path),
        "folders": sorted(sys.path_importer_cache),
        "finders": [name for name, one in sys.path_importer_cache.items()
                    if "find_spec" in getattr(one, "__dict__", {})],
        "environ": sorted(os.environ.keys() - {"DDPRUN_PROGRESS"}), "descriptors": sorted(
            (number, os.readlink("/proc/self/fd/" + number).partition(":")[0])
            for number in os.listdir("/proc/self/fd") if int(number) < 900 and
            os.path.exists("/proc/self/fd/" + number)),
        "threads": [one.name for one in threading.enumerate()],
        "signals": {name: status[name] for name in ("SigIgn", "SigBlk")},
        "caught": int(status["SigCgt"], 16) & ~(3 << 60), "table": len(table),
        "pipe": repr(signal.getsignal(signal.SIGPIPE)), "frames": len(sys._current_frames()),
    }


kept = dist.distributed_c10d._pg_map  # as torch_npu keeps it
kept_call = dist.distributed_c10d._register_process_group
assert type(kept) is dict
before = look()
dist.init_process_group("gloo")
after = look()
assert dist.distributed_c10d._world.pg_map is kept and len(kept) == 1
assert (dist.distributed_c10d._register_process_group is
        torch._C._distributed_c10d._register_process_group)
dist.all_reduce(torch.ones(2))
servers = sum(line.endswith(f"/{os.getpid()}\\n") for line in open("/proc/net/unix"))
child = os.fork()
if child == 0:
    os.closerange(3, 900)
    os._exit(len(os.listdir("/proc/self/task")))
_, status = os.waitpid(child, 0)
kept_call("again", dist.group.WORLD)
assert torch._C._distributed_c10d._resolve_process_group("again") == dist.group.WORLD
dist.destroy_process_group()
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
print("servers", servers, flush=True)
print("seen", json.dumps([START, before, after, os.waitstatus_to_exitcode(status)]), flush=True)
"""


def test_a_script_sees_none_of_it(cluster, tmp_path):
    script = tmp_path / "probe.py"
    script.write_text(PROBE)
    seen, servers, errors = [], [], []
    for limit in (0, 2):
        agent = cluster.agent(f"node{limit}", "--evidence", limit, "--hang-timeout", "off",
                              "--collectives", "on",
                              run=f"run{limit}", command=[script],
                              environment={"PYTHON_EXEC": sys.executable,
                                           "OMP_NUM_THREADS": "1"})
        assert agent.wait(LIMIT) == 0, agent.err()
        (line,) = [line for line in agent.out().splitlines() if "seen [" in line]
        (count,) = re.findall(r"servers (\d+)", agent.out())
        servers.append(int(count))
        seen.append(json.loads(re.sub(" at 0x[0-9a-f]+", "", line.partition("seen ")[2])))
        errors.append("WorkerServer.cpp" in agent.out() + agent.err())
    assert servers == [0, 1]
    finders = [one.pop("finders") for one in seen[1][1:3]]
    assert finders == [[], []] and seen[0][1].pop("finders") == seen[0][2].pop("finders") == []
    assert seen[0] == seen[1]
    assert errors == [False, False]
    cluster.nothing_left()


def test_a_script_that_forks_ranks_of_its_own_is_let_alone(cluster, tmp_path):
    """Its children have process groups; they are not asked, and how they end is their own
affair."""
    script = tmp_path / "train.py"
    script.write_text("""
import os
import torch
import torch.distributed as dist

children = []
for rank in range(2):
    child = os.fork()
    if child == 0:
        dist.init_process_group("gloo", init_method=f"file://{os.environ['DDPRUN_TEST_CONTROL']}/m",
                                rank=rank, world_size=2)
        total = torch.ones(4)
        dist.all_reduce(total)
        listens = any(line.endswith(f"/{os.getpid()}\\n") for line in open("/proc/net/unix"))
        os._exit(int(total[0]) + 10 * listens)
    children.append(child)
print("ends", [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children], flush=True)
""")
    agent = cluster.agent("node", "--collectives", "on", command=[script],
                          environment={"PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1"})
    assert agent.wait(LIMIT) == 0, agent.err()
    assert "ends [2, 2]" in agent.out()
    cluster.nothing_left()


class FewThreads:
    """Replaces the _thread module; the system allows so many threads and no more."""

    def __init__(self, left):
        self.left = left
        self.allocate_lock = _thread.allocate_lock

    def start_new_thread(self, *call):
        if self.left == 0:
            raise RuntimeError("can't start new thread")
        self.left -= 1
        return _thread.start_new_thread(*call)


def test_where_threads_are_short_there_is_no_server(monkeypatch):
    """PyTorch's server would end the process if one of its threads could not be started."""
    monkeypatch.syspath_prepend(ROOT / "launcher" / "evidence")
    has_room = importlib.import_module("ddprun_server")._has_room
    assert not has_room(FewThreads(0)) and not has_room(FewThreads(9))
    assert has_room(FewThreads(100_000))


@pytest.mark.parametrize("files, is_modest", [
    ({}, True),
    ({"proc/self/limits": "Max processes   100000000   200000000   processes\n"}, True),
    ({"proc/self/limits": "Max processes   100   100000000   processes\n"}, False),
    ({"proc/self/limits": "Max processes   unlimited   unlimited   processes\n"}, True),
    ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/pids.max": "max\n",
      "sys/fs/cgroup/a/pids.max": "100000000\n", "sys/fs/cgroup/a/pids.current": "99999900\n"},
     False),
    ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/pids.max": "100000000\n",
      "sys/fs/cgroup/pids.current": "7\n"}, True),
    # It is in a container that does not see the host's folder.
    ({"proc/self/cgroup": "3:cpu:/x\n2:pids:/docker/4711\n",
      "sys/fs/cgroup/pids/pids.max": "100\n", "sys/fs/cgroup/pids/pids.current": "1\n"}, False),
])
def test_the_server_takes_little_of_the_threads_that_are_left(monkeypatch, tmp_path, files,
                                                              is_modest):
    monkeypatch.syspath_prepend(ROOT / "launcher" / "evidence")
    server = importlib.import_module("ddprun_server")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert server._is_modest(8, str(tmp_path)) == is_modest


class OlderKernel:
    """A libc on a kernel without close_range()."""

    def __init__(self, may_unshare):
        self.unshare = ctypes.CDLL(None).unshare if may_unshare else lambda flags: -1

    @staticmethod
    def syscall(*call):
        return -1


@pytest.mark.parametrize("may_unshare", [True, False])
def test_a_thread_leaves_the_descriptors_of_the_others(monkeypatch, may_unshare):
    monkeypatch.syspath_prepend(ROOT / "launcher" / "evidence")
    server = importlib.import_module("ddprun_server")
    # Whatever file system the tests write their own output to.
    monkeypatch.setattr(server, "_is_any_close_told", lambda end: False)
    read, write = os.pipe()
    seen = []

    def leave():
        seen.append(server._leave_descriptors(OlderKernel(may_unshare), ctypes))
        seen.append(is_open(write))
        if seen[0]:
            seen.append(is_open(1))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert seen == ([True, False, False] if may_unshare else [False, True])
    os.write(write, b"x")
    assert os.read(read, 1) == b"x"
    for one in (read, write):
        os.close(one)


@pytest.mark.parametrize("told_below", [64, sys.maxsize])
def test_a_thread_copies_no_descriptor_whose_close_a_file_system_is_told_of(monkeypatch,
                                                                            told_below):
    """close_range() copies the lowest 64, unshare() all."""
    monkeypatch.syspath_prepend(ROOT / "launcher" / "evidence")
    server = importlib.import_module("ddprun_server")
    monkeypatch.setattr(server, "_is_any_close_told", lambda end: end >= told_below)
    calls = []

    class Kernel:
        @staticmethod
        def syscall(*call):
            calls.append("close_range")
            return -1

        @staticmethod
        def unshare(flags):
            calls.append("unshare")
            return -1

    assert not server._leave_descriptors(Kernel, ctypes)
    assert calls == ([] if told_below == 64 else ["close_range"])


MOUNTS = """21 1 0:19 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:20 / /data rw,relatime - nfs4 server:/export rw,vers=4.2
23 21 0:21 / /home/me/with\\040blank rw - fuse.sshfs me@server:/ rw
24 21 0:22 / /dev/shm rw,nosuid master:3 propagate_from:1 - tmpfs tmpfs rw
"""


@pytest.mark.parametrize("number, target, mount, is_told", [
    (3, "/home/me/data.bin", 21, False),
    (3, "/dev/shm/data.bin", 24, False),
    (3, "/data/step-100.pt", 22, True),
    (3, "/home/me/with blank/step-100.pt", 23, True),
    (63, "/data/step-100.pt", 22, True),
    (64, "/data/step-100.pt", 22, False),
    # A worker's streams, which the agent has opened.
    (2, "/data/logs/stderr.log", 22, False),
    (3, "pipe:[4711]", 14, False),
    (3, "socket:[4711]", 9, False),
    (3, "anon_inode:[eventpoll]", 15, False),
    (3, "/memfd:ddprun-stack (deleted)", 1, False),
    # Of another mount namespace.
    (3, "/data/step-100.pt", 99, True),
    (3, "/data/step-100.pt", None, True),
])
def test_closes_that_a_file_system_is_told_of_are_known(monkeypatch, tmp_path, number, target,
                                                        mount, is_told):
    monkeypatch.syspath_prepend(ROOT / "launcher" / "evidence")
    server = importlib.import_module("ddprun_server")
    own = tmp_path / "proc" / "self"
    for folder in ("fd", "fdinfo"):
        (own / folder).mkdir(parents=True)
    (own / "mountinfo").write_text(MOUNTS)
    (own / "fd" / str(number)).symlink_to(target)
    if mount is not None:
        (own / "fdinfo" / str(number)).write_text(f"pos:\t0\nflags:\t02\nmnt_id:\t{mount}\n")
    assert server._is_any_close_told(64, str(tmp_path)) == is_told


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


HOSTILE = {
    "silent": "time.sleep(9999)",
    "closes": "peer.close()",
    "nonsense": "peer.sendall(head + b'Content-Length: 9' + end * 2 + b'[' * 9)",
    "endless": "while not peer.sendall(head + end + b'x' * 65536): pass",
}


@pytest.mark.parametrize("answer", HOSTILE)
def test_whatever_answers_in_the_servers_place_training_goes_on(cluster, tmp_path, answer):
    script = write(tmp_path, """
        import socket, threading
        (found,) = [Path(line.split()[-1]) for line in open("/proc/net/unix")
                    if line.endswith(f"/{os.getpid()}\\n")]
        found.unlink()
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(found))
        server.listen()
        head, end = b"HTTP/1.1 200 OK\\r\\n", b"\\r\\n"
        def answer():
            while True:
                try:
                    peer = server.accept()[0]
                    peer.recv(1000)
                    ANSWER
                except OSError:
                    pass
        threading.Thread(target=answer, daemon=True).start()
    """.replace("ANSWER", HOSTILE[answer]),
                   STANDS.format(how=SLEEPS))
    one_is_mute = ("--evidence", 5) if answer == "silent" else ()
    agent = start(cluster, script, "--log-dir", tmp_path / "logs", "--tee", 3, *one_is_mute)
    assert agent.wait(LIMIT) == 0, agent.err()
    line = line_of(script, SLEEPS)
    assert (f"rank 1 stood in work (train.py:{line}) while rank 0 waited in all_reduce, "
            in agent.err())
    cluster.nothing_left()
