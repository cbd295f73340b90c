"""`ddprun doctor --nnodes N`: hosts that examine each other, and what is wrong between them."""

import json
import re
import signal
import subprocess
import sys

import pytest

from tests.support.cluster import BIN, wait_for
from tests.support.doctors import OTHER_VERSION, PLAYED_NODE, Doctors, of_all
from tests.support.firewall import incoming, remove
from tests.support.needs import needs
from tests.support.ports import free_port


@pytest.mark.main_path
def test_three_hosts_that_are_well(doctors):
    group = doctors(3)
    told = group.run()
    for each in told:
        assert each["errors"] == 0, each
        assert of_all(each, "nodes")[0]["seen"].startswith("3 of 3 came: ")
        assert of_all(each, "connections")[0]["seen"].startswith("6 of 6 pairs ")
        assert of_all(each, "round trip") and of_all(each, "clocks", "ok")
        assert of_all(each, "MTU", "ok")[0]["seen"] == "1500 on all"
        assert "ddprun" in of_all(each, "versions")[0]["seen"]
        # There is no name service, so each host has looked up two names.
        assert of_all(each, "names of nodes")[0]["seen"] == "0 of 6 look-ups find the node"
    # All of them have the same findings for each pair.
    for key in ("nodes", "pairs"):
        assert told[0][key] == told[1][key] == told[2][key]
    assert len(told[0]["pairs"]) == 6
    assert {each["name"] for each in told[0]["nodes"]} == {"node-0", "node-1", "node-2"}
    ports = {path["port"] for pair in told[0]["pairs"] for path in pair["paths"]}
    assert len(ports) == 9  # three of each node, chosen by the kernel


def test_lines_for_people(doctors):
    group = doctors(2)
    for index in range(2):
        group.start(index)
    for program in group.programs:
        assert program.wait() == 0, program.err()
        own, both = program.out().split("\nall nodes:\n")
        assert "2 nodes meet at 10.77.0.1:29400" in own
        assert re.search(r"^ok +connections +2 of 2 pairs", both, re.M)
        assert re.search(r"^round trips +to 0 +to 1$", both, re.M)
        assert re.search(r"^ 0  node-\d +- +\d+\.\d\d ms$", both, re.M)


def test_names_that_all_know(doctors, tmp_path):
    group = doctors(2)
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n10.77.0.1 node-0\n10.77.0.2 node-1\n")
    told = group.run(prefix=["unshare", "--mount", "sh", "-c",
                             f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"])
    assert of_all(told[1], "names of nodes")[0]["state"] == "ok"
    assert [each["seen"] for each in of_all(told[1], "addresses of nodes", "ok")] == [
        "2 of 2 look-ups lead back to the node's name"]
    # The line that Debian writes for this host, which is wrong for all others.
    group = doctors_of(group)
    hosts.write_text("127.0.0.1 localhost\n127.0.1.1 node-0\n10.77.0.2 node-1\n")
    told = group.run(prefix=["unshare", "--mount", "sh", "-c",
                             f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"])
    said = [each["seen"] for each in of_all(told[1], "names of nodes", "warning")]
    assert any("node-0 is 127.0.1.1, not its own address, on node-1" in each for each in said), said


def test_an_address_that_leads_back_to_another_name(doctors, tmp_path):
    group = doctors(2)
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n10.77.0.1 node-0.example.org node-0\n"
                     "10.77.0.2 old-name node-1\n")
    told = group.run(prefix=["unshare", "--mount", "sh", "-c",
                             f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"])
    said = [each["seen"] for each in of_all(told[0], "addresses of nodes", "warning")]
    assert said == ["1 of 2 look-ups lead back to the node's name",
                    "10.77.0.2 of node-1 is old-name on node-0"]
    own = [each["seen"] for each in told[1]["findings"]
           if each["check"] == "host name" and "scope" not in each]
    assert "10.77.0.2 of this host leads back to old-name" in own


def doctors_of(group):
    return Doctors(group.cluster, group.hosts, group.endpoint)


@pytest.mark.parametrize("verdict, words", [
    ("reject with tcp reset", "Connection refused"),
    ("reject with icmpx type host-unreachable", "No route to host"),
    ("drop", "Connection timed out"),
])
def test_a_firewall_before_random_ports(doctors, verdict, words):
    group = doctors(2)
    incoming(group.hosts[1], f"tcp dport 30000-65535 ct state new {verdict}")
    for each in group.run():
        wrong = of_all(each, "connections", "error")
        assert wrong[0]["seen"].startswith("1 of 2 pairs ")
        assert len(wrong) == 2, wrong
        assert wrong[1]["seen"].startswith("node-0 -> node-1 (10.77.0.2 port ")
        assert wrong[1]["seen"].endswith(": " + words)
        assert "open all TCP ports between the nodes" in wrong[1]["advice"]


def test_a_link_that_loses_large_packets(doctors):
    """The link to the daemon, through which the nodes exchange findings, is affected, too."""
    group = doctors(2)
    # The link must lose packets as they are sent, not as the kernel segments them behind our
    # firewall.
    for host in group.hosts:
        subprocess.run(["ip", "-n", host.name, "link", "set", "eth0", "gso_max_segs", "1"],
                       check=True)
    incoming(group.hosts[1], "tcp dport 1-65535 meta length > 1200 drop")
    for each in group.run():
        wrong = of_all(each, "large packets", "error")
        assert len(wrong) == 1 and "node-0 -> node-1" in wrong[0]["seen"], each
        assert "MTU" in wrong[0]["advice"]
        assert of_all(each, "connections")[0]["seen"].startswith("1 of 2 pairs ")


def test_packet_sizes_that_differ(doctors):
    group = doctors(2)
    subprocess.run(["ip", "-n", group.hosts[1].name, "link", "set", "eth0", "mtu", "1400"],
                   check=True)
    told = group.run()
    assert of_all(told[0], "MTU", "warning")[0]["seen"] == "1400 on node-1, 1500 on node-0"


def test_a_second_interface_that_nccl_would_take(doctors):
    group = doctors(2)
    # In the kernel's order it comes after eth0; by name it is the first.
    for index, host in enumerate(group.hosts):
        host.add_interface("ib0", f"10.{78 + index}.0.1/24")
    told = group.run(environment={"NCCL_SOCKET_IFNAME": "ib"})
    wrong = of_all(told[0], "NCCL interface", "error")
    assert {re.search(r"ib0 \([0-9.]+\)", each["seen"]).group() for each in wrong} == {
        "ib0 (10.78.0.1)", "ib0 (10.79.0.1)"}
    assert "NCCL_SOCKET_IFNAME=eth0" in wrong[0]["advice"]
    told = doctors_of(group).run(environment={"NCCL_SOCKET_IFNAME": "eth0"})
    assert of_all(told[0], "NCCL interface", "ok")


def test_two_hosts_with_one_address(doctors):
    group = doctors(3)
    for host in group.hosts[1:]:
        host.add_interface("eth1", "10.99.0.1/24")
    told = group.run("--network", "eth1,eth0")
    wrong = of_all(told[0], "addresses", "error")
    assert wrong and wrong[0]["seen"].endswith(" both have 10.99.0.1")


def test_two_meetings_at_a_standing_daemon(cluster, doctors):
    group = doctors(2)
    cluster.daemon(29400, host=group.hosts[0], bind="0.0.0.0")
    first = group.run("--rdzv-id", "job1")
    for told in (*first, *doctors_of(group).run("--rdzv-id", "job1")):
        assert told["errors"] == 0
        assert of_all(told, "nodes")[0]["seen"].startswith("2 of 2 came: ")
    # The daemon keeps only which meeting comes next.
    needs("torch", "PyTorch is not installed here")
    script = ("from torch.distributed import TCPStore\n"
              "store = TCPStore('127.0.0.1', 29400, is_master=False, wait_for_workers=False)\n"
              "print(store.num_keys(), store.get('ddprun-doctor/job1/generation'))")
    assert subprocess.check_output([*group.hosts[0].prefix, sys.executable, "-c", script],
                                   text=True).strip() == "1 b'3'"


def test_a_doctor_of_another_version(cluster, doctors):
    """The message with its findings has another form, which is no reason to wait at the daemon."""
    needs("torch", "PyTorch is not installed here")
    group = doctors(2)
    cluster.daemon(29400, host=group.hosts[0], bind="0.0.0.0")
    with subprocess.Popen([*group.hosts[0].prefix, sys.executable, "-c", OTHER_VERSION],
                          stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "there\n"
            group.start(1, "--json", "--wait", "3600")
            (told,) = group.answers()
        finally:
            other.kill()
    assert of_all(told, "nodes", "error")[0]["seen"].startswith(
        "old-7 runs another version of ddprun")


def listens(host, port):
    lines = [line.split() for line in host.sockets()]
    return any(words[0] == "LISTEN" and words[3].endswith(f":{port}") for words in lines)


def test_a_node_that_never_comes(doctors):
    group = doctors(3)
    # The doctor that comes second, and so meets the first, is the one that does not wait for long.
    group.start(0, "--json", "--wait", "3600")
    wait_for("the first to open the daemon", lambda: listens(group.hosts[0], 29400))
    group.start(1, "--json", "--wait", "10")
    for each in group.answers():
        wrong = of_all(each, "nodes", "error")
        assert wrong[0]["seen"].startswith("2 of 3 came: ")
        assert wrong[0]["advice"].startswith("1 node did not")
        # The two hosts have still examined each other.
        assert of_all(each, "connections")[0]["seen"].startswith("2 of 2 pairs ")


@pytest.mark.parametrize("come, wanted, problem", [
    (2, "2:2", None), (2, "2:3", None), (1, "2:3", "1 node did not"),
])
def test_a_range_of_nodes(doctors, come, wanted, problem):
    group = doctors(come)
    # If all have come, none of them waits.
    wait = "600" if wanted == "2:2" else "3"
    for index in range(come):
        group.start(index, "--json", "--wait", wait, nodes=wanted)
    for each in group.answers():
        (said,) = of_all(each, "nodes")
        assert said["seen"].startswith(f"{come} of {'2' if wait == '600' else '2 to 3'} came: ")
        assert said["state"] == ("error" if problem else "ok")
        assert not problem or said["advice"].startswith(problem)


def test_a_node_that_comes_after_one_was_killed_while_it_waited(doctors):
    group = doctors(2)
    lost = group.start(0, "--json")
    wait_for("the first doctor waits", lambda: group.hosts[0].sockets())
    lost.kill(signal.SIGKILL)
    lost.wait()
    told = doctors_of(group).run()
    assert all(each["errors"] == 0 for each in told)


def test_a_standing_daemon_that_remembers_one_that_was_killed(cluster, doctors):
    group = doctors(2)
    cluster.daemon(29400, host=group.hosts[1], bind="0.0.0.0")
    lost = Doctors(cluster, group.hosts, endpoint=group.hosts[1].address).start(0)
    wait_for("its probe ports, and its store", lambda: len(group.hosts[0].sockets()) >= 5)
    lost.kill(signal.SIGKILL)
    lost.wait()
    again = Doctors(cluster, group.hosts, endpoint=group.hosts[1].address)
    for each in again.run():
        assert each["errors"] == 0, each
        assert of_all(each, "nodes")[0]["seen"].startswith("2 of 2 came: ")


def test_a_node_that_dies_midway_does_not_hold_up_the_others(doctors, tmp_path):
    group = doctors(3)
    folder = tmp_path / "folder"
    folder.mkdir()
    for index in range(3):
        group.start(index, "--json", "--bandwidth", "--shared", folder)
    wait_for("they examine each other", lambda: list(folder.iterdir()))
    group.programs[2].kill(signal.SIGKILL)
    group.programs.pop().wait()
    for each in group.answers():
        wrong = of_all(each, "nodes", "error")
        assert any("node-2 came, and has said nothing for" in line["seen"] for line in wrong), each
    assert not list(folder.iterdir())


def test_the_daemons_node_dies_midway(doctors, tmp_path):
    group = doctors(2)
    folder = tmp_path / "folder"
    folder.mkdir()
    for index in range(2):
        group.start(index, "--json", "--bandwidth", "--shared", folder)
    wait_for("they examine each other", lambda: list(folder.iterdir()))
    group.programs[0].kill(signal.SIGKILL)
    group.programs.pop(0).wait()
    (told,) = group.answers()
    assert "the daemon went: " in of_all(told, "nodes", "error")[0]["seen"]


@pytest.mark.slow  # it waits for as long as a user would
def test_another_number_of_nodes(doctors):
    group = doctors(2)
    group.start(0, "--json", nodes=2)
    group.start(1, "--json", nodes=3)
    told = group.answers()
    assert any("says --nnodes" in each["seen"] for one in told
               for each in of_all(one, "nodes", "error")), told


def test_one_too_many(doctors):
    group = doctors(3)
    for index in range(3):
        group.start(index, "--json", "--bandwidth", nodes=2)
    told = group.answers()
    late = [each for each in told if each["errors"]]
    assert len(late) == 1
    assert "without this one" in of_all(late[0], "nodes", "error")[0]["seen"]


def test_one_too_many_that_holds_the_daemon(doctors):
    """It comes last, because its own path to the daemon is closed until the others examine each
    other."""
    needs("torch", "PyTorch is not installed here")
    group = doctors(3)
    incoming(group.hosts[0], "iif lo tcp dport 29400 reject with tcp reset")
    holder = group.start(0, "--wait", "600", nodes=2)
    wait_for("its daemon listens",
             lambda: any(":29400 " in line for line in group.hosts[0].sockets()))
    with subprocess.Popen([*group.hosts[2].prefix, sys.executable, "-c", PLAYED_NODE], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as played:
        other = group.start(1, "--json", nodes=2)
        assert played.stdout.readline() == "settled\n"
        remove(group.hosts[0])
        holder.says("already examine each other under this --rdzv-id, without this one")
        assert played.poll() is None
        played.communicate()
    assert other.wait() == 1 and holder.wait() == 1
    said = [each["seen"] for each in of_all(json.loads(other.out()), "nodes")]
    assert said[0].startswith("2 of 2 came: ")
    assert said[1:] == ["node-played came, and has said nothing for 6 s"]
    assert played.returncode == 0


def test_bandwidth(doctors):
    group = doctors(3)
    subprocess.run([*group.hosts[2].prefix, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf",
                    "rate", "40mbit", "burst", "32kbit", "latency", "400ms"], check=True)
    told = group.run("--bandwidth")
    for each in told:
        said = of_all(each, "bandwidth")
        assert said[0]["state"] == "warning", said
        slowest = said[0]["seen"].split("the slowest: ")[1].split(", ")
        assert all(pair.startswith("node-2 -> ") for pair in slowest[:2]), slowest
        assert all("mib_per_s" in pair for pair in each["pairs"])


def test_strangers_at_the_probe_ports(doctors):
    group = doctors(2)
    first = group.start(0, "--json")
    host = group.hosts[0]

    def probe_ports():
        lines = [line.split() for line in host.sockets()]
        ports = {int(words[3].rsplit(":", 1)[1]) for words in lines if words[0] == "LISTEN"}
        return sorted(ports - {29400}) if len(ports) == 4 else None

    ports = wait_for("its probe ports", probe_ports)
    talker = """
import socket, sys
held = []
for port in map(int, sys.argv[1:]):
    for word in (b"", b"GET / HTTP/1.1\\r\\n\\r\\n", b"\\0" * 4096, b"ddprun doctor 1\\nx"):
        stranger = socket.create_connection(("127.0.0.1", port))
        stranger.sendall(word)
        held.append(stranger)
print("said", flush=True)
sys.stdin.read()
"""
    strangers = subprocess.Popen([*host.prefix, sys.executable, "-c", talker, *map(str, ports)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert strangers.stdout.readline() == "said\n"
        group.start(1, "--json")
        assert all(each["errors"] == 0 for each in group.answers())
        assert first.process.returncode == 0
    finally:
        strangers.communicate()


@pytest.mark.parametrize("words, problem", [
    (["--nnodes", "0", "--rdzv-endpoint", "node-0"], "--nnodes=0"),
    (["--nnodes", "257", "--rdzv-endpoint", "node-0"], "more than 256 nodes; they all meet"),
    (["--nnodes", "2"], "needs --rdzv-endpoint"),
    (["--nnodes", "many", "--rdzv-endpoint", "node-0"], "many"),
    (["--shared", "data"], "whole path"),
    (["--wait", "0"], "--wait"),
])
def test_a_mistake_on_the_command_line(words, problem):
    done = subprocess.run([BIN / "ddprun", "doctor", *words], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("ddprun doctor: ") and done.stderr.count("\n") == 1
    assert problem in done.stderr, done.stderr


def test_no_daemon_listens_and_the_endpoint_is_elsewhere(doctors):
    group = doctors(2, endpoint=f"10.77.0.9:{free_port()}")
    group.start(0, "--json", "--wait", "2")
    (told,) = group.answers()
    assert of_all(told, "nodes", "error")[0]["seen"]
