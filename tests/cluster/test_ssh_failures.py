"""`ddprun -H` with a host, a login or a command line that is wrong: it is named, and nothing is
left running on any host."""

import os
import re
import shutil
import signal

import pytest

from tests.support.cluster import BIN, Program, wait_for
from tests.support.ssh_jobs import (TO_COPY, head, mounted, refused, two_servers,
                                    with_login_shell)


def test_a_host_that_is_unknown_is_named_in_sshs_words(cluster, net, make_hosts):
    here, servers = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,nowhere.invalid"], host=here)
    refused(program, "nowhere.invalid: no agent was started: ssh: Could not resolve hostname",
            "the run needs 2 nodes")
    for server in servers:
        server.nobody_is_in()


def test_all_hosts_with_one_fault_are_named_in_one_line(cluster, net, make_hosts):
    here, (one, _) = two_servers(net, make_hosts)
    names = [f"nowhere-{number}.invalid" for number in range(14)]
    program = head(cluster, net, ["-H", ",".join(["node-a", *names])], host=here)
    refused(program, "the run needs 15 nodes, and 1 remains")
    [line] = [each for each in program.err().splitlines() if "no agent was started" in each]
    assert re.search("nowhere.*: no agent was started: ssh: Could not resolve hostname", line)
    assert line.count(".invalid") == 9 and " and 6 more" in line, line  # one in ssh's message
    one.nobody_is_in()


def test_each_fault_of_several_is_named(cluster, net, make_hosts):
    here, (one, other) = two_servers(net, make_hosts)
    other.stop()
    program = head(cluster, net, ["-H", "node-a,node-b,nowhere.invalid"], host=here)
    refused(program, "error: nowhere.invalid: no agent was started: ssh: Could not resolve",
            "error: node-b: no agent was started: ssh: connect to host", "Connection refused")
    one.nobody_is_in()


def test_those_that_the_run_goes_on_without_are_named_together(cluster, net, make_hosts):
    here, _ = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,nowhere.invalid,elsewhere.invalid"],
                   "--nnodes=1:3", "--rdzv-conf=last_call_timeout=1", host=here)
    cluster.started(1, 1)
    program.says(r"warning: (nowhere|elsewhere).invalid and (nowhere|elsewhere).invalid: "
                 "no agent was started: ssh: Could not resolve")
    cluster.finish(1)
    assert program.wait() == 0, program.err()


def test_a_key_that_is_refused_is_not_tried_again(cluster, net, make_hosts):
    here, (one, other) = two_servers(net, make_hosts)
    (other.folder / "nobody").write_text("")
    settings = (other.folder / "sshd_config").read_text()
    other.stop()
    (other.folder / "sshd_config").write_text(
        settings.replace(f"{net.folder}/user_key.pub", f"{other.folder}/nobody"))
    other.start()
    program = head(cluster, net, ["-H", "node-a,node-b"], host=here)
    refused(program, "node-b: no agent was started:", "Permission denied (publickey")
    assert other.program.err().count("Connection from") == 1, other.program.err()
    one.nobody_is_in()


def test_a_host_whose_key_has_changed_is_named(cluster, net, make_hosts):
    here, (one, other) = two_servers(net, make_hosts)
    known = (net.folder / "known_hosts").read_text()
    (net.folder / "known_hosts").write_text(known.replace(other.known_key(), one.known_key()))
    program = head(cluster, net, ["-H", "node-a,node-b"], host=here)
    refused(program, "node-b: no agent was started:", "Host key verification failed.")
    one.nobody_is_in()


def test_a_host_that_does_not_answer_is_named_within_the_timeout(cluster, net, make_hosts):
    here, (one, other) = two_servers(net, make_hosts)
    other.host.cut()
    program = head(cluster, net, ["-H", "node-a,node-b"], "--start-timeout=4", host=here)
    refused(program, "node-b: no agent was started:")
    one.nobody_is_in()


def test_the_others_start_without_it(cluster, net, make_hosts):
    here, (one, _) = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,node-b,nowhere.invalid"], "--nnodes=2:3",
                   "--rdzv-conf=last_call_timeout=1", host=here)
    cluster.started(1, 2)
    cluster.finish(2)
    assert program.wait() == 0, program.err()
    assert "warning: nowhere.invalid: no agent was started: ssh: Could not resolve" in program.err()


def test_no_such_directory_there(cluster, net, make_hosts, tmp_path):
    hosts = make_hosts(3)
    folder = tmp_path / "only-here" / "job"
    folder.mkdir(parents=True)
    one = net.server("node-a", hosts[1])
    net.server("node-b", hosts[2], behind=mounted(f"-t tmpfs tmpfs {folder.parent}"))
    program = head(cluster, net, ["-H", "node-a,node-b"], host=hosts[0], cwd=folder)
    refused(program, f"node-b: no agent was started: cannot work in {folder}, where this was "
                     "started: No such file or directory", code=2)
    one.nobody_is_in()


def test_a_connection_that_a_busy_sshd_drops_is_tried_again(cluster, net, make_hosts):
    hosts = make_hosts(2)
    server = net.server("node", hosts[1], settings=["MaxStartups 1"])
    names = [f"node-{number}" for number in range(6)]
    program = head(cluster, net, ["-H", ",".join(names)], "--log-level=debug", host=hosts[0],
                   command=["--no-python", "true"])
    assert program.wait() == 0, program.err()
    assert re.search(r"node-\d: dropped, and tried again", program.err()), program.err()
    assert server.logins() == 6
    server.nobody_is_in()


@pytest.mark.parametrize("shell", ["sh", "bash", "csh", "tcsh", "fish", "zsh"])
def test_a_login_shell_with_a_banner_does_no_harm(cluster, net, make_hosts, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    hosts = make_hosts(2)
    with_login_shell(net, "node-a", hosts[1],
                     "echo 'Welcome to node-a!'; echo Attention >&2; printf 'no end'\n"
                     f'exec {shell} -c "$SSH_ORIGINAL_COMMAND"\n')
    program = head(cluster, net, ["-H", "node-a"], host=hosts[0],
                   command=["--no-python", "echo", "hello"])
    assert program.wait() == 0, program.err()
    assert program.out() == "hello\n"
    assert "Attention" not in program.err()


def test_a_login_shell_that_runs_nothing_is_shown(cluster, net, make_hosts):
    hosts = make_hosts(2)
    with_login_shell(net, "node-a", hosts[1], "echo This account is closed.; exit 1\n")
    program = head(cluster, net, ["-H", "node-a"], host=hosts[0])
    refused(program, "node-a: no agent was started: ssh ended with exit code 1, and said nothing",
            "  | This account is closed.")


def test_an_ssh_that_stays_is_not_waited_for(cluster, net, make_hosts):
    hosts = make_hosts(2)
    server = with_login_shell(net, "node-a", hosts[1],
                              'sh -c "$SSH_ORIGINAL_COMMAND"; exec sleep 1000 >/dev/null 2>&1\n')
    program = head(cluster, net, ["-H", "node-a"], host=hosts[0],
                   command=["--no-python", "echo", "hello"])
    assert program.wait() == 0, program.err()
    assert program.out() == "hello\n"
    server.stop()


def test_ctrl_c_while_some_are_connecting(cluster, net, make_hosts):
    hosts = make_hosts(4)
    servers = [net.server("node-a", hosts[1]),
               with_login_shell(net, "node-b", hosts[2], "exec cat >/dev/null\n"),
               net.server("node-c", hosts[3])]
    os.kill(servers[2].program.pid, signal.SIGSTOP)
    program = head(cluster, net, ["-H", "node-a,node-b,node-c"], host=hosts[0])
    program.says("waiting for 2 of 3 nodes")
    wait_for("a login at node-b", servers[1].processes)
    program.kill(signal.SIGINT)
    assert program.wait() == 130, program.err()
    os.kill(servers[2].program.pid, signal.SIGCONT)
    for server in servers:
        server.nobody_is_in()


def with_tools(net, host, folder, tools, **options):
    """A host without ddprun, on which these scripts replace the programs of the same names."""
    folder.mkdir()
    for name, text in tools.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return with_login_shell(net, "node-a", host,
                            f'export PATH={folder}:/usr/bin:/bin XDG_RUNTIME_DIR=\n'
                            'exec sh -c "$SSH_ORIGINAL_COMMAND"\n', **options)


def holds_no_file(server):
    """Once the connection has ended, the process that removes the copy is no longer a child of
    sshd."""
    wait_for("the copy to be removed",
             lambda: not any(path.is_file() for path in server.home.rglob("*")))


@pytest.mark.parametrize("tools, words", [
    ({"uname": "echo aarch64x"}, "it is of another architecture (aarch64x, here "),
    ({"getconf": "echo glibc 2.17"}, "its glibc 2.17 is too old: this one needs 2."),
    ({"getconf": "exit 1"}, "its C library is not glibc"),
], ids=["architecture", "glibc", "no glibc"])
def test_a_host_on_which_this_ddprun_cannot_run_is_sent_nothing(cluster, net, make_hosts, tmp_path,
                                                                tools, words):
    hosts = make_hosts(2)
    server = with_tools(net, hosts[1], tmp_path / "tools", tools,
                        behind=mounted(f"-t tmpfs tmpfs {BIN}"))
    program = head(cluster, net, ["-H", "node-a"], host=hosts[0])
    refused(program, "node-a: no agent was started: ", words)
    server.nobody_is_in()
    assert list(server.home.iterdir()) == []


def test_a_copy_that_arrives_damaged_is_not_kept(cluster, net, make_hosts, tmp_path):
    hosts = make_hosts(2)
    server = with_tools(net, hosts[1], tmp_path / "tools",
                        {"head": "/usr/bin/head \"$@\" | tr '\\000' '\\001'"},
                        behind=mounted(f"-t tmpfs tmpfs {BIN}"))
    program = head(cluster, net, ["-H", "node-a"], *TO_COPY, host=hosts[0])
    refused(program, "node-a: no agent was started: what has arrived in "
                     f"{server.home}/.cache/ddprun is not what was sent")
    server.nobody_is_in()
    holds_no_file(server)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_a_head_that_ends_while_ddprun_is_copied_leaves_nothing(cluster, net, make_hosts, tmp_path,
                                                                number):
    """It leaves no process, and no part of a copy."""
    hosts = make_hosts(2)
    begun = tmp_path / "begun"
    # It has a part, prints that, and ends when no more can be sent.
    slow_head = f"/usr/bin/head -c 1000\necho > {begun}\nexec cat >/dev/null"
    server = with_tools(net, hosts[1], tmp_path / "tools", {"head": slow_head},
                        behind=mounted(f"-t tmpfs tmpfs {BIN}"))
    program = head(cluster, net, ["-H", "node-a"], *TO_COPY, host=hosts[0])
    wait_for("a part of the copy", begun.exists)
    assert any(path.is_file() for path in server.home.rglob("*"))
    program.kill(number)
    program.wait()
    server.nobody_is_in()
    holds_no_file(server)


def test_a_second_ctrl_c_does_not_wait_for_the_hosts(cluster, net, make_hosts):
    here, servers = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,node-b"], "--shutdown-timeout=5", "-x",
                   "DDPRUN_TEST_TERM=ignore", host=here)
    cluster.started(1, 2)
    program.kill(signal.SIGINT)
    program.says("the agents are told to end")
    wait_for("the workers to be told", lambda: len(cluster.events("term")) >= 2)
    program.kill(signal.SIGINT)
    assert program.wait() == 130, program.err()
    assert "not waiting for hosts any longer" in program.err()
    cluster.nothing_left(but=[one.program for one in servers])


def test_a_host_that_goes_down_ends_a_run_that_needs_it(cluster, net, make_hosts):
    here, (one, other) = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,node-b"], host=here)
    cluster.started(1, 2)
    other.stop()
    refused(program, "node-b: its agent is lost: ssh ended with exit code 255",
            "the run needs 2 nodes, and 1 remains")
    one.nobody_is_in()


def test_a_host_that_goes_down_is_done_without(cluster, net, make_hosts):
    here, (one, other) = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,node-b"], "--nnodes=1:2", host=here)
    cluster.started(1, 2)
    other.stop()
    cluster.started(2, 1)
    cluster.finish(1)
    assert program.wait() == 0, program.err()
    one.nobody_is_in()


@pytest.mark.slow
def test_a_connection_that_is_cut_leaves_nothing(cluster, net, make_hosts):
    here, (one, other) = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,node-b"], host=here)
    cluster.started(1, 2)
    other.host.cut()
    refused(program, "node-b: its agent is lost")
    one.nobody_is_in()
    wait_for("the agent there to end", lambda: not any(
        "ddprun" in line for line in other.processes().values()), 180)


@pytest.mark.parametrize("arguments, words", [
    (["-H", "a:b"], "-H=a:b: a: the number of workers is a whole number from 1 to 4096"),
    (["-H", "a", "--standalone"], "--standalone: that is for one node, and -H=a starts several"),
    (["-x", "PATH"], "-x=PATH: that is for several hosts; add -H HOST,... or --hostfile FILE"),
    (["-H", "a,b", "--nnodes=3"], "--nnodes=3: the list has 2 hosts"),
    (["-H", "a:2", "--nproc-per-node=2"], "--nproc-per-node=2: the list says 2 workers of a"),
    (["-H", "a", "-x", "NO_SUCH_ONE"], "-x NO_SUCH_ONE: there is no such variable here"),
    (["--hostfile", "/nowhere/hosts"], "cannot read /nowhere/hosts: No such file or directory"),
    (["--hostfile", "HOSTS"], ":3: \"slot=4\" is not understood"),
    (["-H", "a", "--max-restarts=x"], "--max-restarts=x"),
])
def test_bad_input_is_one_line(cluster, tmp_path, arguments, words):
    (tmp_path / "hosts").write_text("# two nodes\na slots=4\nb slot=4\n")
    given = [word.replace("HOSTS", str(tmp_path / "hosts")) for word in arguments]
    program = Program(cluster, "head", [BIN / "ddprun", *given, "train.py"])
    assert program.wait() == 2
    assert words in program.err()
    assert len(program.err().splitlines()) == 1, program.err()
