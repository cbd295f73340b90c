"""Real daemons, agents and hosts for the cluster tests.

Every process that a test starts has DDPRUN_TEST_MARK in its environment, and so do all its
descendants. This is how `left_behind` finds orphans, whatever has become of their parents.

Workers are `tests/support/worker.sh`: each appends lines to a shared `events` file and then waits
for orders on a named pipe, so that a test decides when and how a worker ends.
"""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("DDPRUN_BUILD", ROOT / "build")).resolve() / "bin"
WORKER = ROOT / "tests" / "support" / "worker.sh"
# Generous, because a correct test must not fail on a slow and busy machine.
LIMIT = float(os.environ.get("DDPRUN_TEST_LIMIT", "180"))
# Signals that end a program because of its own fault.
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}

# Where the tests run within a job (of Slurm, of an MPI, of torchrun or of ddprun), it has set what
# a launcher takes for its own job. Tests set what they need of this themselves.
OF_A_JOB = ("PET_", "TORCHELASTIC_", "TORCH_ELASTIC_", "DDPRUN_ROUND", "SLURM_", "PMI_",
            "OMPI_COMM_", "MPI_LOCAL", "MV2_COMM_", "PALS_", "FLUX_", "JSM_",
            "JOB_COMPLETION_INDEX")
for variable in [name for name in os.environ if name.startswith(OF_A_JOB)]:
    del os.environ[variable]

# For tests whose workers fail at once, again and again, and must still be restarted.
GO_ON = ("--max-quick-failures", "0", "--rdzv-conf", "backoff_max=0")

# For tests in which no node may be lost, however long one has to wait for its turn.
NONE_IS_LOST = "node_timeout=60"
# A leak: such a test is never retried (tests/runner).
LEFT_BEHIND = "processes were left behind: "
# The name of guardian processes, also in their command line.
GUARDIAN = "ddp-guardian"
# For tests that wait until a node is lost, or until one ends its workers because it is isolated.
# The others must be able to stand still for five seconds, and to do without a daemon that does.
LOST_SOON = "node_timeout=7,heartbeat_interval=0.5,isolation_limit=6"


def is_built_with(*sanitizers):
    """True if ddprun is built with one of the sanitizers `address` and `thread`. Before the build
    it is false, so that the tests can be listed."""
    program = BIN / "ddprun"
    built = program.read_bytes() if program.exists() else b""
    return any(f"__{each[0]}san_init".encode() in built for each in sanitizers)


def wait_for(what, condition, limit=None):
    """Waits until `condition()` is true and returns its value. Fails with `what` at the limit."""
    limit = LIMIT if limit is None else limit
    deadline = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit:.0f} s in vain for: {what}")
        time.sleep(0.01)


# Without the proxy that this machine's environment may name: it does not reach the tests' daemons.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(port, path):
    """Returns a daemon's HTTP response on this host: the status and the text."""
    with DIRECT.open(f"http://127.0.0.1:{port}{path}", timeout=LIMIT) as answer:
        return answer.status, answer.read().decode()


def run_shown(port):
    """What the daemon at this port of this host shows about its first run."""
    return json.loads(get(port, "/api/v1/runs")[1])["runs"][0]


def variables_of(pid):
    """The environment that a process was started with, as bytes; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def is_killed(folder):
    """True if a process was sent SIGKILL and only lives because it has not been scheduled since."""
    pending = re.findall(r"^S\w+Pnd:\s+(\w+)", (folder / "status").read_text(), re.M)
    flags = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[6])
    is_ending = flags & 4  # PF_EXITING
    return bool(is_ending or any(int(mask, 16) >> (signal.SIGKILL - 1) & 1 for mask in pending))


def resident_kb(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))


@dataclass
class Event:
    """One line of the events file: what a worker saw when it started or got an order."""

    kind: str
    values: dict = field(default_factory=dict)

    def __getattr__(self, name):
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


def environment_of(cluster, more=None):
    """The environment of a program that a test starts."""
    # Only tests of --check depend on what it says of this machine. A rank that has to wait for a
    # processor has more than the default of 2 s to say where it stands: as long as its stop takes.
    return {**os.environ, "DDPRUN_TEST_MARK": cluster.mark,
            "DDPRUN_TEST_CONTROL": str(cluster.folder),
            "XDG_STATE_HOME": str(cluster.folder / "state"), "PET_CHECK": "off",
            "PET_EVIDENCE": "60", **(more or {})}


class Program:
    """A started program with its output in files. It is killed at the end of the test."""

    def __init__(self, cluster, name, command, prefix=(), environment=None, **popen):
        self.cluster = cluster
        self.name = name
        self.command = [str(part) for part in command]
        self.out_path = cluster.folder / f"{name}.{len(cluster.programs)}.out"
        self.err_path = cluster.folder / f"{name}.{len(cluster.programs)}.err"
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                [*prefix, *self.command],
                stdin=popen.pop("stdin", subprocess.DEVNULL),
                stdout=popen.pop("stdout", out),
                stderr=popen.pop("stderr", err),
                env=environment_of(cluster, environment),
                **popen,
            )
        self.sent = set()  # signals that the test has sent
        cluster.programs.append(self)

    @property
    def pid(self):
        return self.process.pid

    def out(self):
        return self.out_path.read_text(errors="replace")

    def err(self):
        return self.err_path.read_text(errors="replace")

    def kill(self, number=signal.SIGKILL):
        self.sent.add(number)
        os.kill(self.pid, number)

    def has_crashed(self):
        """True if it is one of our programs, and the test did not cause the signal."""
        number = -(self.process.poll() or 0)
        is_ours = any(Path(word).name.startswith("ddprun") for word in self.command[:1])
        return is_ours and number in CRASHES and number not in self.sent

    def wait(self, limit=None):
        limit = LIMIT if limit is None else limit
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name} did not end within {limit:.0f} s\n--- stderr\n{self.err()[-4000:]}"
            ) from None

    def running(self):
        return self.process.poll() is None

    def says(self, pattern, limit=None):
        """Waits until stderr or stdout contains the pattern; returns the match."""

        def look():
            return re.search(pattern, self.err()) or re.search(pattern, self.out())

        try:
            return wait_for(f"{self.name} to say /{pattern}/", look, limit)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n--- stderr\n{self.err()[-4000:]}") from None


class Cluster:
    """All that one test starts: daemons, agents, hosts. `left_behind` finds what it leaves."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.mark = uuid.uuid4().hex
        self.programs = []
        self.hosts = []
        self.killed = set()  # marked processes that were killed but have not ended yet
        self.events_path = self.folder / "events"
        self.events_path.touch()

    def daemon(self, port=None, *arguments, name="daemon", host=None, bind="127.0.0.1", recovery=0,
               prefix=()):
        """Starts a daemon on a port that stays reserved for this test, which may start another one
        there. Without a port and a state folder it keeps no journal, because that opens
        files at times of its own."""
        if port is None:
            port = free_port()
            if "--state-dir" not in arguments:
                arguments = (*arguments, "--state-dir", "none")
        port_file = self.folder / f"port.{len(self.programs)}"
        program = Program(
            self,
            name,
            [BIN / "ddprun-rendezvous", "--bind", bind, "--port", port, "--port-file", port_file,
             "--recovery-window", recovery, *arguments],
            prefix=[*(host.prefix if host else ()), *prefix],
            environment=self.state_of(host),
        )

        def ready():
            if not program.running():
                raise AssertionError(f"the daemon ended: {program.err()}")
            return port_file.exists() and port_file.read_text().strip()

        program.port = int(wait_for("the daemon's port file", ready))
        return program

    def agent_line(self, name, *arguments, endpoint=None, nnodes="1", workers=1, run="test",
                   command=None, conf=None):
        line = [BIN / "ddprun", "--nnodes", nnodes, "--nproc-per-node", workers]
        if run is not None:
            line += ["--rdzv-id", run]
        if endpoint is not None:
            line += ["--rdzv-endpoint", endpoint]
            line += self.embedding(endpoint, *arguments, conf)
        if conf:
            line += ["--rdzv-conf", conf]
        if name:
            line += ["--node-id", name]
        return [*line, *arguments, *(command or ["--no-python", WORKER])]

    def embedding(self, endpoint, *words):
        """A daemon that the test has started, and ends, must be restarted by the test. So no agent
        may take its port first, unless the test says so."""
        is_ours = any(endpoint.endswith(f":{getattr(one, 'port', None)}") for one in self.programs)
        is_said = any(re.search("embed-daemon|is_host", str(word)) for word in words)
        return ["--embed-daemon", "never"] if is_ours and not is_said else []

    def agent(self, name, *arguments, host=None, environment=None, endpoint=None, nnodes="1",
              workers=1, run="test", command=None, conf=None, **popen):
        line = self.agent_line(name, *arguments, endpoint=endpoint, nnodes=nnodes, workers=workers,
                               run=run, command=command, conf=conf)
        return Program(self, name or "agent", line, prefix=host.prefix if host else (),
                       environment={**self.state_of(host), **(environment or {})}, **popen)

    def worker_named(self, name):
        """The command of a worker with a program of its own, by whose name its job is known."""
        path = self.folder / name
        if not path.exists():
            shutil.copy(WORKER, path)
        return ["--no-python", path]

    def state_of(self, host):
        """Each host has a disk of its own, though all have the same host name here."""
        return {"XDG_STATE_HOME": str(self.folder / f"state-{host.name}")} if host else {}

    def nodes(self, *names, **options):
        """Starts an agent for each name, each after the previous one has joined, which fixes their
        ranks."""
        agents = []
        for name in names:
            agents.append(self.agent(name, *options.get("arguments", ()),
                                     **{k: v for k, v in options.items() if k != "arguments"}))
            agents[-1].says(rf"here:.*{name}")
        return agents

    def events(self, kind=None):
        found = []
        for line in self.events_path.read_text(errors="replace").splitlines():
            words = line.split()
            if not words:
                continue
            values = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            if kind is None or words[0] == kind:
                found.append(Event(words[0], values))
        return found

    def starts_of(self, node):
        return [event for event in self.events("start") if event.node == node]

    def started(self, round_number, count, limit=None):
        """Waits until `count` workers of the round have started; returns them by rank."""

        def look():
            found = {int(e.rank): e for e in self.events("start") if e.round == str(round_number)}
            return len(found) == count and [found[rank] for rank in sorted(found)]

        return wait_for(f"{count} workers of round {round_number}", look, limit)

    def order(self, rank, words, limit=None):
        """Gives the live worker of this rank an order: 'exit 3', 'kill -9 $$', ..."""
        pipe = self.folder / f"orders.{rank}"

        def deliver():
            try:
                handle = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as failure:
                if failure.errno in (errno.ENXIO, errno.ENOENT):
                    return False
                raise
            os.write(handle, (words + "\n").encode())
            os.close(handle)
            return True

        wait_for(f"rank {rank} to take orders", deliver, limit)

    def finish(self, world_size, code=0):
        for rank in range(world_size):
            self.order(rank, f"exit {code}")

    def marked(self):
        """The live processes of this test: {pid: command line}, without zombies."""
        found = {}
        needle = f"DDPRUN_TEST_MARK={self.mark}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if needle not in variables_of(entry.name):
                    continue
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    continue
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                line = words.decode(errors="replace")
                if is_killed(entry):
                    self.killed.add(int(entry.name))
            except OSError:
                continue
            found[int(entry.name)] = line
        return found

    def nothing_left(self, limit=None, but=()):
        kept = {program.pid for program in but}

        def gone():
            return not set(self.marked()) - kept

        try:
            wait_for("all processes to be gone", gone, limit)
        except AssertionError as failure:
            raise AssertionError(f"{failure}; {LEFT_BEHIND}{self.marked()}") from None

    def left_behind(self):
        """Returns a line that names the processes that outlive their test, except for those that it
        has started itself; empty if there are none. A process that ends a little later is not a
        leak, but late. A killed process may be late, because an agent waits for that for a second
        at most, and so may the guardian of an agent that has ended."""
        own = {program.pid for program in self.programs}

        def others():
            return {pid: line for pid, line in self.marked().items() if pid not in own}

        if not (first := others()):
            return ""
        killed = set(self.killed)  # one that is killed from here on has outlived the test
        try:
            wait_for("them to be gone", lambda: not others())
        except AssertionError:
            return f"{LEFT_BEHIND}{others()}"
        late = {pid: line for pid, line in first.items()
                if GUARDIAN not in line and pid not in killed}
        return f"processes ended only after their test: {late}" if late else ""

    def close(self):
        for program in self.programs:
            if program.running():
                program.process.kill()
                program.process.wait()
        for pid in self.marked():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for host in self.hosts:
            host.remove()

    def crashes(self):
        """Crashes of our programs. Such a test is never retried (tests/runner), whatever it was
        about."""
        return "\n".join(f"{one.name} has crashed: signal {-one.process.returncode}\n"
                         f"{one.err()[-4000:]}" for one in self.programs if one.has_crashed())

    def report(self):
        """The output of every program, for a failed test."""
        parts = []
        for program in self.programs:
            parts.append(f"=== {program.name}: {' '.join(program.command)}")
            parts.append(f"exit: {program.process.poll()}")
            parts.append(f"--- stdout\n{program.out()[-3000:]}")
            parts.append(f"--- stderr\n{program.err()[-6000:]}")
        return "\n".join(parts)
