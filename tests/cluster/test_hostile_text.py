"""What a peer sends cannot pass for our own messages, nor change a terminal, wherever it is shown:
in logs, in what agents print, in the report, in the daemon's view.
tests/rendezvous/protocol/hostile_text_test.cpp tries each field; here real programs show what they
were sent."""

import json
import re
import signal
import socket
from pathlib import Path

import pytest

from tests.support.cluster import BIN, LIMIT, Program, get
from tests.support.relay import Relay, line_of

ROOT = Path(__file__).resolve().parents[2]
FIELDS = (ROOT / "rendezvous/protocol/agent_fields.hpp").read_text()
# Texts for people lose what cannot be shown; a message with it in a name is refused.
SENTENCES = set(re.findall(r'on\.(?:sentence|tail)\("(\w+)"', FIELDS))
LABELS = set(re.findall(r'on\.label(?:_or|s)?\("(\w+)"', FIELDS)) - SENTENCES
BAD = "\nddprun forged: \x1b[2J\r\x07\x7f\x9b31m\u2028\u202edegrof"
BAD_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

# Rank 1 fails with a text of its own.
WORKER = """
if [ $RANK = 1 ]; then echo 'RuntimeError: boom' >&2; exit 3; fi
while :; do sleep 0.1; done
"""


def spoilt(value, names):
    if isinstance(value, list):
        return [spoilt(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: one + BAD if name in names and isinstance(one, str) else spoilt(one, names)
            for name, one in value.items()}


def check(text):
    """Checks what one of our programs has written."""
    found = BAD_CHARACTERS.search(text)
    assert not found, text[max(0, found.start() - 200):found.end() + 50]
    assert not re.search("^ddprun forged", text, re.MULTILINE), text


def check_json(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            check_json(one)
    elif isinstance(value, str):
        assert not BAD_CHARACTERS.search(value), value  # a worker's last lines may be several


def check_file(path):
    check(path.read_bytes().decode())  # which is UTF-8


def check_view(port, path):
    text = get(port, path)[1]
    check(text)
    check_json(json.loads(text))
    return text


def with_all_words(message):
    """Adds bad characters, and fields that a daemon sends only now and then."""
    if message["type"] == "desired":
        message = {"news": "n", "warning": "w", **message}
        if message["phase"] == "wait":
            message["gone"] = {"what": "node-x was lost", "why": "silent", "age_us": 5}
    return spoilt(message, SENTENCES if message["type"] != "welcome" else ())


def test_no_sentence_of_a_peer_brings_more_than_words(cluster, tmp_path):
    assert {"text", "tail", "news", "warning", "members", "what", "why"} <= SENTENCES
    daemon = cluster.daemon()
    with Relay(daemon.port, lambda message: spoilt(message, SENTENCES), with_all_words) as relay:
        agents = [Program(cluster, name,
                          [BIN / "ddprun", "--node-id", name, "--nnodes=2", "--max-restarts=1",
                           "--node-rank", rank, f"--rdzv-endpoint=127.0.0.1:{relay.port}",
                           "--embed-daemon=never", "--rdzv-id=job7", "--log-level=debug",
                           "--report", tmp_path / f"{name}.json", "--no-python", "/bin/bash", "-c",
                           WORKER]) for rank, name in enumerate(("node-a", "node-b"))]
        assert [agent.wait() for agent in agents] == [3, 3]
    for agent in agents:
        check_file(agent.err_path)
        check_file(agent.out_path)
        assert "RuntimeError: boom" in agent.err()
        assert agent.err().count("forged") > 5, "it was said"
        report = tmp_path / f"{agent.name}.json"
        check_file(report)
        for line in report.read_text().splitlines():
            check_json(json.loads(line))
    check_view(daemon.port, "/api/v1/runs")
    assert "forged" in check_view(daemon.port, "/api/v1/runs/job7")
    check_file(daemon.err_path)
    assert "forged" in daemon.err()


def hello(**more):
    return {"type": "hello", "protocol": 4, "version": "0.1.0", "token": "t", "run_id": "sick",
            "session": "00000000000000000000000000000001", "node": "node-x", "host": "host-x",
            "role": "reader", "address": "10.0.0.1", "own_address": "10.0.0.2", "script": "x.py",
            "job": {"digest": "a2", "program": "x.py", "started": "10:31", "node": "node-a"},
            "settings": {"nodes_min": 2, "nodes_max": 2, "store": "agent"},
            "state": {"phase": "joined", "unhealthy": "GPU 3 is lost", "leader_data_about": "h:1",
                      "causes": [{"kind": "exit", "node": "node-x", "text": "t", "tail": "l"}]},
            **more}


def answer_to(port, line):
    """What a daemon answers, up to the end of the connection, or for as long as it answers without
    further input."""
    with socket.create_connection(("127.0.0.1", port), LIMIT) as peer:
        peer.sendall(line)
        peer.shutdown(socket.SHUT_WR)
        return peer.makefile("rb").read().decode()


def test_a_daemon_shows_nothing_of_what_it_refuses(cluster):
    daemon = cluster.daemon(None, "--log-level", "debug")
    for bad in (BAD.encode(), b"\xff\xfe"):
        for name in sorted(LABELS | SENTENCES | {"type", "phase", "session", "store", "kind"}):
            whole = line_of(hello()).decode()
            line = re.sub(rf'"{name}": "([^"]*)"', rf'"{name}": "\1@"', whole)
            said = json.dumps(bad.decode(), ensure_ascii=False)[1:-1].encode() \
                if bad[0] != 0xFF else bad
            check(answer_to(daemon.port, line.encode().replace(b"@", said)))
    # The node waits and is unhealthy, so everything that it has sent is shown.
    with socket.create_connection(("127.0.0.1", daemon.port), LIMIT) as peer:
        words = spoilt(hello(session="00000000000000000000000000000002"), SENTENCES)
        peer.sendall(line_of(words))
        for line in peer.makefile():
            check(line)
            if '"wait"' in line:
                break
        for path in ("/api/v1/runs", "/api/v1/runs/sick"):
            assert "forged" in check_view(daemon.port, path)
    check_file(daemon.err_path)
    assert "control character" in daemon.err()
    assert daemon.running()


def test_what_is_nested_without_end_ends_no_daemon(cluster):
    """Over the agent protocol and over HTTP, up to the size of a hello, and beyond it."""
    daemon = cluster.daemon()
    for opened, closed in (("[", "]"), ('{"a":', "}")):
        for levels in (4000, 100_000):
            for end in ("", "1" + closed * levels):
                words = line_of(hello(more=0)).decode().replace('"more": 0', '"more": ' +
                                                                opened * levels + end)
                request = f"POST /api/v1/runs HTTP/1.1\r\nContent-Length: {len(words)}\r\n\r\n"
                for line in (words, request + words):
                    with socket.create_connection(("127.0.0.1", daemon.port), LIMIT) as peer:
                        try:
                            peer.sendall(line.encode())
                            peer.makefile("rb").readline()
                        except ConnectionError:
                            pass  # it was too long
    assert get(daemon.port, "/healthz")[0] == 200
    assert daemon.running()


@pytest.mark.parametrize("kind", ["welcome", "desired"])
def test_an_agent_shows_nothing_of_what_it_cannot_read(cluster, kind):
    daemon = cluster.daemon()

    def change(message):
        if message["type"] != kind:
            return message
        if kind == "desired":
            message["job"] = {"program": "x.py", "node": "node-a"}
        return spoilt(message, LABELS | {"version"})

    with Relay(daemon.port, None, change) as relay:
        agent = cluster.agent("node-a", "--embed-daemon", "never", nnodes=2,
                              endpoint=f"127.0.0.1:{relay.port}")
        agent.says("the answer cannot be read: .* holds a control character")
        agent.kill(signal.SIGTERM)
        agent.wait()
    check_file(agent.err_path)
