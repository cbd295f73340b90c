"""The part of examples/demo that runs the job and compares the results; start that instead.

It runs one rendezvous daemon and two agents ("nodes") with two workers each, all on this machine,
and shows every line of the workers, except for most of the epoch lines.
"""
import argparse
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
NODES = ("node-a", "node-b")
WORKERS_PER_NODE = 2
VICTIM_RANK = 3
RUN_LIMIT_S = 300
STOP_LIMIT_S = 60

EPOCH = re.compile(r"\[rank (\d+)\] epoch (\d+) \| loss")
OF_ALL_RANKS = re.compile(r"epoch \d+ \| [\d.]+ samples/s")
SAVED = re.compile(r"epoch (\d+) \| snapshot saved")
RESUMING = re.compile(r"resuming from snapshot \S+ at epoch (\d+)")
CHECKSUM = re.compile(r"model checksum (\w+)")
ACCURACY = re.compile(r"accuracy ([\d.]+)")


class Failure(Exception):
    pass


class Screen:
    """Prints lines with the seconds since the start, in colour on a terminal."""

    def __init__(self):
        self.colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.start = time.monotonic()

    def paint(self, text, code):
        return f"\033[{code}m{text}\033[0m" if self.colour else text

    def title(self, text):
        print(f"\n{self.paint('== ' + text, '1')}")

    def event(self, text):
        self.line(self.paint(">> " + text, "1;33"))

    def line(self, text):
        print(f"{time.monotonic() - self.start:6.2f} s  {text}", flush=True)


class Processes:
    """The started processes, which are always stopped in the end."""

    def __init__(self):
        self.started = []
        self.is_starting = False
        self.signal = None  # it came while a process was being started

    def start(self, command, environment=None):
        self.is_starting = True
        # A process group of its own: Ctrl-C then reaches only this script, which stops the others.
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", env=environment, start_new_session=True)
        self.started.append(process)
        self.is_starting = False
        if self.signal is not None:
            self.leave(self.signal, None)
        return process

    def leave(self, number, _):
        """Handles a signal: the demo ends, once each process that it has started is in the list."""
        if self.is_starting:
            self.signal = number
            return
        print(f"\ndemo: {signal.Signals(number).name}: stopping everything", file=sys.stderr)
        raise SystemExit(128 + number)

    def stop(self):
        alive = [process for process in self.started if process.poll() is None]
        for process in alive:
            process.terminate()
        limit = time.monotonic() + STOP_LIMIT_S
        for process in alive:
            try:
                process.wait(max(0.1, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.started.clear()


def worker_process(run_id, rank):
    """Finds the process of this rank of this run, by its environment."""
    wanted = {f"TORCHELASTIC_RUN_ID={run_id}".encode(), f"RANK={rank}".encode()}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            variables = set((folder / "environ").read_bytes().split(b"\0"))
        except OSError:
            continue  # it has ended, or belongs to another user
        if wanted <= variables:
            return int(folder.name)
    raise Failure(f"rank {rank} has no process")


class Run:
    """One run of the job, from the start of both agents to their end."""

    def __init__(self, screen, processes, arguments, endpoint, run_id, folder, kill_at):
        self.screen, self.processes, self.arguments = screen, processes, arguments
        self.endpoint, self.run_id, self.folder, self.kill_at = endpoint, run_id, folder, kill_at
        self.epochs_seen = []  # by rank 0
        self.snapshots = 0
        self.killed_at = self.resumed_after = self.next_epoch_after = self.resume_epoch = None
        self.checksum = self.accuracy = None
        self.seconds = None

    def command(self, node):
        return [BIN / "ddprun", "--nnodes", len(NODES), "--nproc-per-node", WORKERS_PER_NODE,
                "--rdzv-endpoint", self.endpoint, "--rdzv-id", self.run_id, "--max-restarts", 3,
                "--node-id", node, "--no-python", BIN / "snapshot_resume", self.arguments.epochs,
                self.arguments.interval, "--snapshot-dir", self.folder]

    def go(self):
        lines = queue.Queue()
        start = time.monotonic()
        agents = {node: self.processes.start(self.command(node)) for node in NODES}
        for agent in agents.values():
            threading.Thread(target=self.read, args=(agent, lines), daemon=True).start()
        open_pipes = len(agents)
        while open_pipes:
            left = start + RUN_LIMIT_S - time.monotonic()
            try:
                line = lines.get(timeout=max(0.0, left))
            except queue.Empty:
                raise Failure(f"the run has not ended after {RUN_LIMIT_S} s") from None
            if line is None:
                open_pipes -= 1
            else:
                self.take(line)
        self.seconds = time.monotonic() - start
        for node, agent in agents.items():
            if agent.wait() != 0:
                raise Failure(f"ddprun of {node} ended with {agent.returncode}")
        if self.accuracy is None:
            raise Failure("the run printed no accuracy")

    @staticmethod
    def read(agent, lines):
        for line in agent.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    def show(self, line):
        self.screen.line(line.replace(f"{self.folder.parent}/", ""))

    def take(self, line):
        now = time.monotonic()
        if match := EPOCH.search(line):
            self.take_epoch(line, int(match[1]), int(match[2]), now)
            return
        if OF_ALL_RANKS.search(line):
            return
        self.show(line)
        if SAVED.search(line):
            self.snapshots += 1
        elif match := CHECKSUM.search(line):
            self.checksum = match[1]
        elif match := ACCURACY.search(line):
            self.accuracy = match[1]
        elif (match := RESUMING.search(line)) and self.killed_at is not None:
            self.resume_epoch = int(match[1])
            self.resumed_after = now - self.killed_at

    def take_epoch(self, line, rank, epoch, now):
        first_again = self.resume_epoch == epoch
        killing = epoch == self.kill_at and self.resume_epoch is None
        if rank == 0 or first_again or killing:
            if epoch % 5 == 0 or epoch == 1 or first_again or epoch == self.kill_at:
                self.show(line)
        if rank == 0:
            self.epochs_seen.append(epoch)
        if self.resume_epoch is not None and self.next_epoch_after is None:
            self.next_epoch_after = now - self.killed_at
        if rank == VICTIM_RANK and epoch == self.kill_at and self.killed_at is None:
            process = worker_process(self.run_id, VICTIM_RANK)
            self.screen.event(f"kill -9 {process}: rank {VICTIM_RANK}, in epoch {epoch + 1}")
            self.killed_at = time.monotonic()
            os.kill(process, signal.SIGKILL)

    def repeated(self):
        """Epochs that rank 0 finished more than once."""
        return len(self.epochs_seen) - len(set(self.epochs_seen))


def start_daemon(processes, arguments, folder):
    port_file = folder / "port"
    # This port is new, so there are no agents of an earlier daemon to wait for.
    daemon = processes.start([BIN / "ddprun-rendezvous", "--bind", "127.0.0.1", "--port",
                              arguments.port, "--port-file", port_file, "--recovery-window", 0,
                              "--log-level", "warning"])
    limit = time.monotonic() + 60
    while not (port_file.exists() and port_file.read_text().strip()):
        if daemon.poll() is not None or time.monotonic() > limit:
            processes.stop()
            raise Failure(f"ddprun-rendezvous does not start: {daemon.stdout.read().strip()}")
        time.sleep(0.005)
    threading.Thread(target=daemon.stdout.read, daemon=True).start()
    return f"127.0.0.1:{port_file.read_text().strip()}"


def seconds(value):
    return "-" if value is None else f"{value:.2f}"


def table(screen, plain, killed):
    rows = [("", "undisturbed", "disturbed"),
            ("final accuracy", plain.accuracy, killed.accuracy),
            ("model checksum", plain.checksum, killed.checksum),
            ("epochs repeated", plain.repeated(), killed.repeated()),
            ("snapshots saved", plain.snapshots, killed.snapshots),
            ("seconds from kill to resume", "-", seconds(killed.resumed_after)),
            ("seconds from kill to next finished epoch", "-", seconds(killed.next_epoch_after)),
            ("seconds in all", seconds(plain.seconds), seconds(killed.seconds))]
    screen.title("undisturbed against disturbed")
    print()
    for number, row in enumerate(rows):
        line = f"  {row[0]:<42}{row[1]!s:>18}{row[2]!s:>18}"
        print(screen.paint(line, "1") if number == 0 else line)
        if number == 0:
            print("  " + "-" * 78)
    print()


def judge(plain, killed):
    """Returns what is wrong, or None."""
    if killed.killed_at is None:
        return f"no worker was killed: epoch {killed.kill_at} was not seen"
    if killed.resume_epoch is None:
        return "the killed run did not resume from a snapshot"
    if (plain.accuracy, plain.checksum) != (killed.accuracy, killed.checksum):
        return "the two runs came to different results"
    return None


def compare(screen, processes, arguments, folder):
    endpoint = start_daemon(processes, arguments, folder)
    world = len(NODES) * WORKERS_PER_NODE
    runs = []
    for name, kill_at in (("undisturbed", None), ("disturbed", arguments.kill_at)):
        what = (f"rank {VICTIM_RANK} is killed after epoch {kill_at}" if kill_at
                else f"{len(NODES)} nodes, {world} workers, {arguments.epochs} epochs, a snapshot "
                     f"every {arguments.interval}")
        screen.title(f"{name}: {what}")
        run = Run(screen, processes, arguments, endpoint, f"demo-{name}-{os.getpid()}",
                  folder / name, kill_at)
        if not runs:
            print("   " + " ".join(str(word) for word in run.command("node-a")).replace(
                f"{ROOT}/", ""))
            print("   (and the same with --node-id node-b)\n")
        run.go()
        runs.append(run)
    table(screen, *runs)
    return judge(*runs)


def main():
    parser = argparse.ArgumentParser(prog="demo")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--interval", type=int, default=10)
    parser.add_argument("--kill-at", type=int, default=26)
    parser.add_argument("--port", type=int, default=0, help="of the daemon; 0 picks one")
    arguments = parser.parse_args()
    if not arguments.interval <= arguments.kill_at < arguments.epochs:
        parser.error("--kill-at must be after the first snapshot and before the last epoch")
    os.environ.setdefault("DDPRUN_DIGITS", str(ROOT / ".cache" / "digits.csv"))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    screen, processes = Screen(), Processes()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, processes.leave)
    folder = Path(tempfile.mkdtemp(prefix="ddprun-demo-"))
    os.environ["XDG_STATE_HOME"] = str(folder / "state")  # the demo leaves nothing behind
    try:
        wrong = compare(screen, processes, arguments, folder)
    except (Failure, OSError) as failure:
        wrong = str(failure)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the cleanup
        processes.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if wrong:
        print(f"demo: FAILED: {wrong}", file=sys.stderr)
        return 1
    print("demo: the killed run resumed by itself and came to the same result, bit by bit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
