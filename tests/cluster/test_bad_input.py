"""Bad input gets one clear line, an exit code, and loses nothing else."""

import json
import signal
import socket
import subprocess

import pytest

from tests.support.cluster import BIN, LIMIT


def ddprun(*arguments, **more):
    return subprocess.run([BIN / "ddprun", *map(str, arguments)], capture_output=True, text=True,
                          timeout=LIMIT, check=False, **more)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--nnodez", "2", "x.py"], ["--nnodez", "--nnodes"]),
        (["--nnodes", "3:2", "x.py"], ["3:2"]),
        (["--nnodes", "0", "x.py"], ["--nnodes"]),
        (["--nproc-per-node", "0", "x.py"], ["--nproc-per-node"]),
        (["--nproc-per-node", "many", "x.py"], ["many"]),
        (["no-such-script.py"], ["no-such-script.py"]),
        ([], ["script"]),
        (["--rdzv-endpoint", "host:port", "--nnodes", "2", "/bin/true"], ["host:port"]),
        (["--rdzv-backend", "zookeeper", "/bin/true"], ["zookeeper"]),
        (["--rdzv-conf", "node_timeout=-1", "/bin/true"], ["node_timeout"]),
    ],
)
def test_wrong_options_end_before_anything_starts(arguments, words):
    done = ddprun(*arguments)
    assert done.returncode == 2, done
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_a_program_that_cannot_be_executed_names_stage_and_reason(tmp_path):
    program = tmp_path / "train"
    program.write_text("#!/nowhere/interpreter\n")
    program.chmod(0o755)
    done = ddprun("--no-python", program)
    assert done.returncode not in (0, 2), done
    assert "train" in done.stderr and "No such file" in done.stderr, done.stderr


def test_an_endpoint_that_does_not_answer_is_named(cluster):
    agent = cluster.agent("node-a", endpoint="127.0.0.1:1", nnodes=2,
                          conf="join_timeout=1,is_host=0")
    assert agent.wait() == 69
    text = agent.err()
    assert "127.0.0.1:1" in text and "refused" in text.lower(), text


def test_something_else_listens_there(cluster):
    stranger = socket.create_server(("127.0.0.1", 0))
    port = stranger.getsockname()[1]
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{port}", nnodes=2,
                          conf="join_timeout=10,is_host=0")
    connection, _ = stranger.accept()
    connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
    agent.says("something else listens here")
    assert agent.wait() == 69
    connection.close()
    stranger.close()


def test_a_port_in_use_is_named():
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    done = subprocess.run([BIN / "ddprun-rendezvous", "--bind", "127.0.0.1", "--port", str(port)],
                          capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 1
    assert str(port) in done.stderr and "in use" in done.stderr, done.stderr
    taken.close()


def test_garbage_on_the_daemons_port_harms_no_client(cluster):
    daemon = cluster.daemon()
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}")
    cluster.started(1, 1)
    for garbage in (b"\x16\x03\x01\x02\x00", b"\xff" * 100_000, b'{"hello"\n',
                    b"GET / HTTP/1.1\r\n", b"{}\n", b"\x00\x00\x00\x00\x00\x00", b"{" * 200_000):
        stranger = socket.create_connection(("127.0.0.1", daemon.port))
        try:
            stranger.sendall(garbage)
        except OSError:
            pass
        stranger.close()
    cluster.finish(1)
    assert agent.wait() == 0
    assert daemon.running()


def test_a_name_with_a_line_feed_forges_no_line(cluster):
    daemon = cluster.daemon()
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2)
    agent.says("waiting for 1 of 2 nodes")
    hello = {"type": "hello", "protocol": 4, "run_id": "test", "node": "x\nddprun node-a: forged",
             "session": "00000000000000000000000000000001",
             "settings": {"nodes_min": 2, "nodes_max": 2}}
    with socket.create_connection(("127.0.0.1", daemon.port), LIMIT) as liar:
        liar.sendall(json.dumps(hello).encode() + b"\n")
        answer = liar.makefile().read()
    assert "hello.node: holds a control character" in answer
    agent.kill(signal.SIGTERM)
    agent.wait()
    assert "forged" not in agent.err() + daemon.err()


def test_too_few_descriptors_for_the_world(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    limited = ["bash", "-c", 'ulimit -n 40; exec "$@"', "bash"]
    from tests.support.cluster import Program, WORKER
    agents = [
        Program(cluster, name, [BIN / "ddprun", "--nnodes", 2, "--nproc-per-node", 40,
                                "--rdzv-endpoint", endpoint, "--rdzv-id", "few", "--node-id", name,
                                "--no-python", WORKER], prefix=limited)
        for name in ("node-a", "node-b")
    ]
    codes = [agent.wait() for agent in agents]
    assert 0 not in codes, codes
    assert any("descriptors" in agent.err() for agent in agents), agents[0].err()
    cluster.nothing_left(but=[daemon])


@pytest.mark.parametrize("wrong, why", [
    (["no-such-script.py"], "no-such-script.py"),
    (["--network", "nosuch0", "--no-python", "/bin/true"], "nosuch0"),
    (["--nproc-per-node", "gpu", "--no-python", "/bin/true"], "gpu"),
    (["--log-dir", "/proc/none", "--redirects=3", "--no-python", "/bin/true"], "/proc/none"),
    (["--no-such-option", "value", "--max-restarts=0", "--no-python", "/bin/true"],
     "--no-such-option"),
    (["--max-restarts=many", "--no-python", "/bin/true"], "--max-restarts=many"),
    ([], "no script given"),
], ids=["script", "network", "nproc", "logs", "unknown", "value", "none"])
def test_the_others_hear_which_node_refuses_its_command_line(cluster, wrong, why):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    first = cluster.agent("node-a", endpoint=endpoint, nnodes=2)
    first.says("waiting for 1 of 2 nodes")
    done = ddprun("--nnodes=2", "--node-id=node-b", f"--rdzv-endpoint={endpoint}", "--rdzv-id=test",
                  *wrong)
    assert done.returncode == 2 and why in done.stderr, done
    first.says(rf"warning: node-b cannot take part: .*{why}")
    assert first.running()
    # The command was correct the second time.
    second = cluster.agent("node-b", endpoint=endpoint, nnodes=2)
    cluster.started(1, 2)
    cluster.finish(2)
    assert [first.wait(), second.wait()] == [0, 0]
    cluster.nothing_left(but=[daemon])
