"""Jobs that `ddprun -H` starts in tests, and the machines that they meet."""

from tests.support.cluster import BIN, WORKER, Program

# For tests that copy ddprun to a host: a debug build has 120 MB, which are sent, checked and read
# back by programs that may have to wait long for their turn.
TO_COPY = ("--start-timeout", "600")


def head(cluster, net, hosts, *arguments, host=None, command=None, environment=None, name="head",
         **popen):
    line = [BIN / "ddprun", *hosts, *net.arguments, "-x", "DDPRUN_TEST_MARK", "-x",
            "DDPRUN_TEST_CONTROL", *arguments, *(command or ["--no-python", WORKER])]
    return Program(cluster, name, line, prefix=host.prefix if host else (),
                   environment=environment, **popen)


def two_servers(net, make_hosts):
    hosts = make_hosts(3)
    return hosts[0], [net.server("node-a", hosts[1]), net.server("node-b", hosts[2])]


def mounted(*mounts):
    """A machine with these mounts, each given as arguments of mount(8)."""
    lines = "".join(f"mount {each} && " for each in mounts)
    return ["unshare", "--mount", "sh", "-c", f'{lines} exec "$@"', "sh"]


def with_login_shell(net, alias, host, lines, **options):
    """A server whose logins run these lines of sh first, as a login shell's own files would."""
    script = net.folder / f"{alias}.login"
    script.write_text("#!/bin/sh\n" + lines)
    script.chmod(0o755)
    return net.server(alias, host, settings=[f"ForceCommand {script}"], **options)


def refused(program, *words, code=69):
    assert program.wait() == code, program.err()
    for word in words:
        assert word in program.err(), program.err()
    assert "every worker" not in program.err()
