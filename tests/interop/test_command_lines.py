"""Command lines of schedulers, frameworks and batch scripts (command_lines.py) under torchrun and
under ddprun: what the workers see, and the exit codes. And what a launcher inherits from its own
parent."""

import json
import shutil
import signal
import sys
import textwrap
from pathlib import Path

import pytest
from command_lines import LINES
from torchrun_options import ALWAYS, ON_GPUS

from tests.support.cluster import BIN, Program
from tests.support.ports import free_port

PROBE = Path(__file__).with_name("probe.py")
LIMIT = 240


class Seen:
    """The result of a line: exit codes, and for each rank what it was given."""

    def __init__(self, cluster, line, name, port, start):
        folder = cluster.folder / name
        (folder / "given").mkdir(parents=True)
        shutil.copy(PROBE, folder / "probe.py")
        launchers = []
        for node in range(line.nodes):
            words, variables = line.typed(node, {"port": port, "probe": folder / "probe.py"})
            launchers.append(start(f"{name}-{node}", [*words, folder / "given"],
                                   {"PYTHON_EXEC": sys.executable, **variables}, node))
        self.codes = [launcher.wait(LIMIT) for launcher in launchers]
        self.errors = "\n".join(launcher.err() for launcher in launchers)
        self.given = {path.name: json.loads(path.read_text().replace(str(folder), "FOLDER"))
                      for path in (folder / "given").iterdir()}
        for facts in self.given.values():
            variables = facts["environment"]
            if "MASTER_PORT" in variables and variables["MASTER_PORT"] != str(port):
                variables["MASTER_PORT"] = "a port"


def by_both(cluster, torchrun, line):
    port = free_port()

    def ours(name, words, variables, node):
        named = ["--node-id", f"node-{node}"] if line.nodes > 1 else []
        return Program(cluster, name, [BIN / "ddprun", *named, *words], environment=variables,
                       cwd=cluster.folder)

    def theirs(name, words, variables, _):
        return torchrun.start(cluster, name, words, variables, cluster.folder)

    return (Seen(cluster, line, "ddprun", port, ours),
            Seen(cluster, line, "torchrun", port, theirs))


@pytest.mark.parametrize("name", LINES)
def test_what_people_have_for_torchrun(cluster, torchrun, name):
    line = LINES[name]
    ours, theirs = by_both(cluster, torchrun, line)
    if line.refused:
        assert all(ours.codes) and all(theirs.codes), ours.errors + theirs.errors
        [said] = ours.errors.splitlines()
        assert said.startswith("ddprun: ")
        return
    assert set(ours.codes + theirs.codes) == {0}, ours.errors + theirs.errors
    # At an endpoint it is chance which of two nodes comes first.
    assert ours.given.keys() == theirs.given.keys() != set()
    for rank, facts in ours.given.items():
        wanted = theirs.given[rank]
        variables, their_variables = facts.pop("environment"), wanted.pop("environment")
        assert facts == wanted
        differ = {one: (variables.get(one), their_variables.get(one))
                  for one in {*variables, *their_variables}
                  if variables.get(one) != their_variables.get(one)}
        assert differ.keys() <= ALWAYS | ON_GPUS | line.differs, differ


# There is a batch system, a shell or a supervisor that causes each of these.
SURROUNDINGS = textwrap.dedent("""
    import os, resource, signal, sys
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH, signal.SIGALRM})
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.umask(0o27)
    os.nice(1)
    os.dup2(2, 9, inheritable=True)
    os.execv(sys.argv[1], sys.argv[1:])
""")
WORKER = textwrap.dedent("""
    import json, os, resource, sys
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    facts = {name: status[name].strip() for name in ("SigIgn", "SigBlk", "Umask")}
    facts["limits"] = [resource.getrlimit(each) for each in
                       (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC)]
    facts["niceness"] = os.nice(0)
    facts["descriptors"] = [number for number in range(64)
                            if os.path.exists(f"/proc/self/fd/{number}") and number > 2]
    facts["stdin"] = sys.stdin.read()
    print("FACTS" + json.dumps(facts))
""")


def signals_of(mask):
    return {signal.Signals(number) for number in range(1, 32) if int(mask, 16) >> number - 1 & 1}


def test_workers_inherit_what_torchruns_inherit(cluster):
    script = cluster.folder / "facts.py"
    script.write_text(WORKER)
    (cluster.folder / "input").write_text("typed\n")
    seen = []
    for name, launcher in (("ddprun", [BIN / "ddprun"]),
                           ("torchrun", [sys.executable, "-m", "torch.distributed.run"])):
        with open(cluster.folder / "input") as words:
            program = Program(cluster, name,
                              [sys.executable, "-c", SURROUNDINGS, *launcher, "--standalone",
                               "--nproc-per-node=1", script],
                              environment={"PYTHON_EXEC": sys.executable}, stdin=words)
        assert program.wait(LIMIT) == 0, program.err()
        facts = json.loads(program.out().partition("FACTS")[2])
        for signals in ("SigIgn", "SigBlk"):
            facts[signals] = signals_of(facts[signals])
        seen.append(facts)
    # We do not pass this one on: a process that ignores it never learns how its own children have
    # ended.
    assert signal.SIGCHLD in seen[1]["SigIgn"]
    seen[1]["SigIgn"].remove(signal.SIGCHLD)
    assert seen[0] == seen[1]
