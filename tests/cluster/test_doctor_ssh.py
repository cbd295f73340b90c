"""`ddprun doctor -H`: the doctor on each host, started over a real sshd from one command line."""

import json

from tests.support.cluster import BIN, Program
from tests.support.ssh_jobs import two_servers


def doctor(cluster, net, here, *words):
    return Program(cluster, "doctor", [BIN / "ddprun", "doctor", "-H", "node-a:2,node-b",
                                       *net.arguments, "-x", "DDPRUN_TEST_MARK", *words],
                   prefix=here.prefix)


def test_hosts_are_examined_from_one_command_line(cluster, net, make_hosts):
    here, servers = two_servers(net, make_hosts)
    job = doctor(cluster, net, here, "--json", "--bandwidth")
    assert job.wait() == 0, job.err()
    told = json.loads(job.out())  # one host prints it, without a tag
    said = {each["check"]: each["seen"] for each in told["findings"]
            if each.get("scope") == "nodes"}
    assert said["nodes"].startswith("2 of 2 came"), told
    assert said["connections"].startswith("2 of 2 pairs (each in both directions) reach"), told
    assert "MiB/s" in said["bandwidth"], told
    for server in servers:
        server.nobody_is_in()


def test_what_is_wrong_there_comes_home_once_with_the_exit_code(cluster, net, make_hosts, tmp_path):
    here, servers = two_servers(net, make_hosts)
    job = doctor(cluster, net, here, "--shared", tmp_path / "not there")
    assert job.wait() == 1, job.err()
    said = job.out()
    assert said.count("all nodes:") == 1
    assert "2 of 2 came" in said and "not there" in said
    for server in servers:
        server.nobody_is_in()
