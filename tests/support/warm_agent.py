"""The agent's part of warm workers in Python, so that the Python code of launcher/warm can be
tested alone: it makes the zip files, gives orders to a zygote, and is the parent of the spares."""

import array
import ctypes
import io
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LAUNCHER = Path(__file__).resolve().parents[2] / "launcher"
RANK_NAMES = ["RANK", "TORCHELASTIC_RESTART_COUNT"]
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def ahead(*names):
    """An expression that is true in a script that was started warm with these imports made."""
    named = "".join(f" and one.holds({name!r})" for name in names)
    return f"any(hasattr(one, 'holds'){named} for one in sys.meta_path)"


def literal(text):
    return f"__import__('os').fsdecode(bytes.fromhex('{os.fsencode(text).hex()}'))"


def begin():
    """Prepares a child as the agent does."""
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


@dataclass
class Ended:
    status: int
    out: str
    err: str
    reported: str = ""


class WarmAgent:
    def __init__(self, python, words, environment):
        self.command = [str(python), "-u", *map(str, words)]
        self.environment = dict(environment)
        self.files = []
        self.record = self.memory_file(b"")
        self.imported = self.memory_file(b"")
        self.servers = tempfile.TemporaryDirectory()  # in which PyTorch listens
        self.zygote = None
        self.rank_names = list(RANK_NAMES)
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def memory_file(self, content):
        file = os.memfd_create("ddprun-imports")
        os.write(file, content)
        self.files.append(file)
        return f"/proc/{os.getpid()}/fd/{file}"

    def site(self, call):
        zipped = io.BytesIO()
        with zipfile.ZipFile(zipped, "w") as made:
            for path in (*LAUNCHER.glob("warm/*.py"), *LAUNCHER.glob("evidence/*.py")):
                made.write(path, path.name)
            made.writestr("sitecustomize.py", call)
        return self.memory_file(zipped.getvalue())

    def recorded(self):
        return Path(self.record).read_text()

    def changed(self):
        """The imported files that are not what they were when a spare was made; the agent starts
        its worker cold, and names the first."""
        entries = iter(Path(self.imported).read_bytes().split(b"\0")[:-1])
        found = []
        for entry in entries:
            kind, *stamp, path = entry.split(b" ", 4)
            names = next(entries) if kind == b"D" else None
            try:
                now = os.stat(path)
            except OSError:
                found.append(os.fsdecode(path))
                continue
            is_same = [now.st_mtime_ns, now.st_size, now.st_ino] == list(map(int, stamp))
            if names is not None and not is_same:
                is_same = b"".join(one + b"/" for one in sorted(os.listdir(path))
                                   if one.endswith((b".py", b".pyc", b".so"))
                                   or (b"." not in one and one != b"__pycache__")) == names
            if not is_same:
                found.append(os.fsdecode(path))
        return found

    def variables(self, **more):
        return {**self.environment, **more}

    def path_with(self, site):
        old = self.environment.get("PYTHONPATH")
        return site if old is None else f"{site}:{old or site}"

    def cold(self, is_recorded=False, **more):
        environment = self.variables(**more)
        if is_recorded:
            path = self.site("import ddprun_site, ddprun_recorder\n"
                             f"ddprun_recorder.begin({literal(self.record)}, 0, "
                             f"{literal(self.servers.name)})\n")
            environment["PYTHONPATH"] = self.path_with(path)
        done = subprocess.run(self.command, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, preexec_fn=begin, check=False)
        return Ended(done.returncode, done.stdout, done.stderr)

    def load(self, excluded=()):
        """Starts a zygote, unless there is one, and returns its answer."""
        if self.zygote is None:
            names = ", ".join(literal(name) for name in self.rank_names)
            call = (f"import ddprun_site, ddprun_zygote\nddprun_zygote.hold({os.getpid()}, "
                    f"{literal(self.record)}, {literal(self.imported)}, [{names}], "
                    f"{list(excluded)!r}, 0, {literal(self.servers.name)})\n")
            path = self.path_with(self.site(call))
            self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.zygote = subprocess.Popen(
                self.command, env=self.variables(PYTHONPATH=path), stdin=subprocess.DEVNULL,
                stdout=theirs.fileno(), stderr=subprocess.PIPE, preexec_fn=begin)
            theirs.close()
        self.control.send(b"load")
        # A zygote gives way to all other processes, so on a busy machine a test would wait for
        # minutes.
        while not select.select([self.control], [], [], 0.1)[0]:
            with suppress(OSError):
                Path(f"/proc/{self.zygote.pid}/autogroup").write_text("0", encoding="ascii")
        return self.control.recv(4096).decode()

    def spare(self):
        """Returns the process id and the socket of a new spare."""
        self.control.send(b"spare")
        text, rights, _, _ = self.control.recvmsg(4096, 64)
        word, _, pid = text.decode().partition(" ")
        assert word == "spare", text
        (number,) = array.array("i", rights[0][2])
        return int(pid), socket.socket(fileno=number)

    def warm(self, spare=None, command=None, **more):
        pid, orders = spare or self.spare()
        words = [os.fsencode(word) for word in command or self.command]
        entries = [os.fsencode(f"{name}={value}") for name, value in self.variables(**more).items()]
        parts = [words[0], b"", b"", b"", str(len(words)).encode(), *words, *entries]
        work = os.memfd_create("work")
        os.write(work, b"".join(part + b"\0" for part in parts))
        pipes = [os.pipe() for _ in range(3)]
        sent = array.array("i", [work, *(pipe[1] for pipe in pipes)])
        orders.sendmsg([b"work"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
        orders.close()
        for one in (work, *(pipe[1] for pipe in pipes)):
            os.close(one)
        texts = []
        for read, _ in (pipes[2], pipes[0], pipes[1]):
            with open(read, encoding="utf-8") as file:
                texts.append(file.read())
        _, status = os.waitpid(pid, 0)
        return Ended(os.waitstatus_to_exitcode(status), texts[1], texts[2], texts[0])

    def load_what_may_be(self):
        """Like load(), repeated without the modules that must not be imported ahead."""
        excluded = []
        while (answer := self.load(excluded)).startswith("drop "):
            excluded.append(answer.split()[1])
            self.end_zygote()
        return answer

    def begin_anew(self):
        self.close()
        self.files = []
        self.record = self.memory_file(b"")
        self.imported = self.memory_file(b"")

    def end_zygote(self):
        if self.zygote is not None:
            self.zygote.kill()
            self.zygote.wait()
            self.zygote.stderr.close()
            self.control.close()
        self.zygote = None

    def close(self):
        self.end_zygote()
        for file in self.files:
            os.close(file)


def base_python():
    return Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}"
