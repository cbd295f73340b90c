"""ddprun beside another version of ddprun. Programs that speak the same version of the agent
protocol work together and warn that they differ; others are refused. Either way a line on both
sides names both versions. There is only one release so far, so a relay between the two
(tests/support/relay.py) plays the other version."""

import re
import signal

import pytest

from tests.support.cluster import BIN, wait_for
from tests.support.relay import Relay

pytestmark = pytest.mark.main_path

ADVICE = "use the same version of ddprun on every node"
OWN = re.search(r'version = "(.+)"',
                (BIN.parents[1] / "rendezvous/base/version.hpp").read_text()).group(1)


def changed(kind, **fields):
    return lambda message: {**message, **fields} if message["type"] == kind else message


def agent_at(cluster, name, port, **more):
    return cluster.agent(name, "--embed-daemon", "never", "--max-restarts", 1,
                         endpoint=f"127.0.0.1:{port}", nnodes=2, **more)


def refusal(agent_protocol, agent_version, daemon_protocol, daemon_version):
    return ("hello.protocol: of the agent protocol this node speaks version "
            f"{agent_protocol} (ddprun {agent_version}), the rendezvous daemon version "
            f"{daemon_protocol} (ddprun {daemon_version}): {ADVICE}")


def test_another_ddprun_of_the_same_protocol_takes_part_and_both_sides_say_so(cluster):
    daemon = cluster.daemon()
    with Relay(daemon.port, changed("hello", version="9.0"),
               changed("welcome", version="9.1")) as relay:
        a = agent_at(cluster, "node-a", daemon.port)
        b = agent_at(cluster, "node-b", relay.port)
        cluster.started(1, 2)
        cluster.order(1, "exit 3")
        cluster.started(2, 2)
        cluster.finish(2)
        assert (a.wait(), b.wait()) == (0, 0)
    together = f"they work together, as both speak version 4 of the agent protocol; still, {ADVICE}"
    at_daemon = f"node-b is ddprun 9.0, the rendezvous daemon ddprun {OWN}: {together}"
    at_agent = f"this node is ddprun {OWN}, the rendezvous daemon ddprun 9.1: {together}"
    assert daemon.err().count(at_daemon) == 1, daemon.err()
    assert b.err().count(f"warning: {at_agent}") == 1, b.err()
    assert "agent protocol" not in a.err()


def test_an_agent_of_another_protocol_is_refused_and_the_others_go_on(cluster):
    daemon = cluster.daemon()
    a = agent_at(cluster, "node-a", daemon.port)
    a.says("waiting for 1 of 2 nodes")
    with Relay(daemon.port, changed("hello", version="9.0", protocol=5)) as relay:
        other = agent_at(cluster, "node-b", relay.port)
        assert other.wait() == 78
    said = refusal(5, "9.0", 4, OWN)
    refused = [line for line in other.err().splitlines() if "refused this node" in line]
    assert len(refused) == 1 and refused[0].endswith(said), other.err()
    daemon.says(re.escape(said))
    right = agent_at(cluster, "node-b", daemon.port)
    cluster.started(1, 2)
    cluster.finish(2)
    assert (a.wait(), right.wait()) == (0, 0)


def test_a_daemon_of_another_protocol_refuses_the_agent_which_starts_nothing(cluster):
    """It reads the agent's version from fields of the hello that no version changes."""

    def answer(message):
        said = refusal(message["protocol"], message["version"], 5, "9.0")
        return [{"type": "refused", "exit_code": 78, "text": said}]

    with Relay(answer=answer) as relay:
        agent = agent_at(cluster, "node-a", relay.port)
        assert agent.wait() == 78
    assert refusal(4, OWN, 5, "9.0") in agent.err()
    assert not cluster.events()


def test_a_daemon_whose_orders_a_node_does_not_know_is_named_with_both_versions(cluster):
    def answer(message):
        if message["type"] != "hello":
            return []
        return [{"type": "welcome", "version": "9.0"},
                {"type": "desired", "instance": "1", "seq": 1, "phase": "hibernate"}]

    with Relay(answer=answer) as relay:
        agent = agent_at(cluster, "node-a", relay.port)
        agent.says(f"this node is ddprun {OWN}, the rendezvous daemon ddprun 9.0")
        agent.says('"hibernate" is no phase that this version knows; ' + ADVICE)
        agent.kill(signal.SIGTERM)
        agent.wait()
    assert not cluster.events()


def test_a_daemon_that_comes_back_as_another_ddprun_is_named_once_more(cluster):
    """The nodes of a run are not all upgraded at once, so they go on with this daemon."""
    port = cluster.daemon().port
    daemon = cluster.programs[0]
    version = {"version": OWN}
    with Relay(port, None, lambda message: changed("welcome", **version)(message)) as relay:
        a, b = (agent_at(cluster, name, relay.port) for name in ("node-a", "node-b"))
        cluster.started(1, 2)
        version["version"] = "9.2"
        daemon.kill()
        daemon.wait()
        cluster.daemon(port, "--state-dir", "none", recovery=60)
        for agent in (a, b):
            agent.says(f"this node is ddprun {OWN}, the rendezvous daemon ddprun 9.2: they work")
        cluster.finish(2)
        assert (a.wait(), b.wait()) == (0, 0)
    assert len(wait_for("both workers", lambda: cluster.events("start"))) == 2
