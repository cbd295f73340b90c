"""examples/bench_hosts: one node compared with two, over a fast and over a slow network."""

import importlib.util
import json
import shutil
import subprocess
import sys

import pytest

from tests.support.cluster import BIN, ROOT, environment_of
from tests.support.hosts import available
from tests.support.ssh_jobs import two_servers

EXAMPLE = ROOT / "examples" / "bench_hosts" / "bench_hosts.py"
# Three epochs; the last two each wait for as long as one megabyte takes between the ranks.
SCRIPT = """import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
begin = time.perf_counter()
for epoch in (1, 2, 3):
    begin = time.perf_counter()
    {work}
    if rank == 0:
        print(f"Epoch: [{{epoch}}] took {{time.perf_counter() - begin:.4f}} s", flush=True)
"""
# Like gloo, it connects the addresses of the interface that the launcher has named.
TALK = """if world > 1:
        import subprocess
        name = os.environ["GLOO_SOCKET_IFNAME"]
        shown = subprocess.run(["ip", "-4", "-o", "address", "show", "dev", name], text=True,
                               capture_output=True, check=True).stdout
        net = shown.split("inet ")[1].rsplit(".", 1)[0]
        if rank == 0:
            server = socket.create_server((net + ".1", 4000 + epoch))
            peer = server.accept()[0]
            while peer.recv(65536):
                pass
        else:
            while True:
                try:
                    peer = socket.create_connection((net + ".1", 4000 + epoch))
                    break
                except ConnectionRefusedError:
                    time.sleep(0.01)
            peer.sendall(bytes(1000000))
            peer.close()"""


def run(cluster, *words, prefix=(), environment=None):
    """Returns the process, which has ended; the names of its namespaces contain its number."""
    process = subprocess.Popen([*prefix, sys.executable, EXAMPLE, "--ddprun", BIN / "ddprun",
                                "--output", cluster.folder / "shown", *map(str, words)],
                               env=environment_of(cluster, environment), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.out, process.err = process.communicate()
    return process


def nothing_left(process):
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return f"bench-{process.pid}-" not in names.stdout


def script(cluster, work):
    path = cluster.folder / "train.py"
    path.write_text(SCRIPT.format(work=work))
    return path


def test_one_node_and_two_over_each_network(cluster):
    if not available() or shutil.which("tc") is None:
        pytest.skip("this machine does not allow network namespaces, or has no tc")
    # A megabyte takes four seconds there, however busy this machine is; some kernels cannot delay.
    done = run(cluster, "--namespaces", "--delay", "1ms", "--rate", "2mbit", "--",
               script(cluster, TALK), environment={"PYTHON_EXEC": sys.executable})
    assert done.returncode == 0, done.err + done.out
    rows = json.loads((cluster.folder / "shown" / "epochs.json").read_text())
    one, fast, slow = (row["name"] for row in rows)
    assert (one, fast) == ("1 node", "2 nodes, eth0")
    has_delay = "no delay: the kernel lacks sch_netem" not in done.err
    assert slow == "2 nodes, eth1, 2mbit" + (", delay 1ms" if has_delay else "")
    assert all(len(row["epochs"]) == 3 for row in rows)
    assert rows[2]["median"] > 3
    assert (cluster.folder / "shown" / "epochs.md").read_text() == done.out
    assert nothing_left(done)


def test_hosts_over_ssh(cluster, net, make_hosts):
    here, _ = two_servers(net, make_hosts)
    options = f"--ssh-args=-F{net.folder}/config -x DDPRUN_TEST_MARK"
    done = run(cluster, "--hosts", "node-a,node-b", "--interface", "eth0", "--head-options",
               options, "--", script(cluster, "pass"), prefix=here.prefix,
               environment={"PYTHON_EXEC": sys.executable})
    assert done.returncode == 0, done.err + done.out
    assert "| 2 nodes, eth0 |" in done.out


def test_a_job_that_fails_is_shown(cluster):
    if not available() or shutil.which("tc") is None:
        pytest.skip("this machine does not allow network namespaces, or has no tc")
    done = run(cluster, "--namespaces", "--", script(cluster, "raise SystemExit(3)"),
               environment={"PYTHON_EXEC": sys.executable})
    assert done.returncode == 1
    assert "1 node ...\nbench_hosts: exit code 3 of ip netns exec" in done.err
    assert nothing_left(done)


def test_the_table_and_the_plot(tmp_path):
    pytest.importorskip("matplotlib", reason="./tests/setup installs it")
    spec = importlib.util.spec_from_file_location("bench_hosts", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = [{"name": "1 node", "nodes": 1, "epochs": [5.0, 4.0, 4.0], "median": 4.0},
            {"name": "2 nodes, eth0", "nodes": 2, "epochs": [3.0, 2.5], "median": 2.5}]
    assert "| 2 nodes, eth0 | 3.00, 2.50 | 2.50 | 1.60x |" in module.table(rows)
    module.plot(rows, tmp_path / "epochs.png")
    assert (tmp_path / "epochs.png").read_bytes().startswith(b"\x89PNG")
