"""A zygote: imports ahead what a script imports, and forks spares that wait for a worker's work.

It runs as a Python with the worker's own command line and environment, except for the variables of
a rank, and never reaches the script. A spare does, by returning from here: Python then runs the
script as usual.

A spare is forked twice, so that the agent, a subreaper, becomes its parent. It receives a worker's
work in one message: a file with the command, environment and CPUs, and the descriptors of the
streams. If anything differs from what a cold start would give the worker, the spare executes the
command instead, in the same process; the message, "work", may say so too: "work WHY".

The zygote talks to the agent over a packet socket, which is its standard output at the start:
    load             -> ready N STOP | refused WHY | drop NAME WHY | short WHY (STOP: why the
                        imports after some point are not done ahead; may be empty)
    spare            -> spare PID, with the socket of the spare | failed WHY | short WHY

Before it is ready, it writes into a file of the agent which files it has imported
(ddprun_files.py).
"""

import gc
import os
import sys
import time

import _signal

import ddprun_files
import ddprun_imported
import ddprun_process
import ddprun_random
import ddprun_recorder
import ddprun_script
import ddprun_server
import ddprun_site
import ddprun_stacks
import ddprun_zygote_checks as checks

_PDEATHSIG = 1
# Python imports these at its start, and a spare does when it becomes a worker.
_SITES_OWN = ("sitecustomize", "usercustomize")
# Python imports these before a script that is a module (-m), or a file with --run-path.
_RUNNERS = frozenset(("runpy", "pkgutil"))
# Python 3.13 and later also import this before a command (-c), whose text tracebacks are to show.
_KEEPER_OF_TEXTS = "linecache"
# Libraries read these when they work (processes meet, a GPU is opened), not while they are
# imported. A module that reads one of them from os.environ during its import is noticed.
_LATE_VARIABLES = (b"CUDA_VISIBLE_DEVICES", b"PYTORCH_NVML_BASED_CUDA_CHECK", b"NCCL_", b"GLOO_",
                   b"TORCH_NCCL_", b"UCX_", b"FI_", b"LOCAL_WORLD_SIZE", b"PL_", b"ACCELERATE_",
                   b"WANDB_", b"MLFLOW_", b"TOKENIZERS_PARALLELISM")


class Zygote:
    def __init__(self, agent, record, files, rank_names, excluded):
        import _socket
        self._socket = _socket
        ddprun_site.note_helpers()
        self._agent = agent
        self._record = record
        self._files_path = files
        self._excluded = excluded
        self._names = frozenset(map(os.fsencode, rank_names))
        self._stop = None      # why the rest of the list is not imported
        self._allowed = None   # what may be imported; None: everything
        self._of_start = set(_RUNNERS if sys.orig_argv[2] in ("-m", "-c") else ())
        if sys.orig_argv[2] == "-c" and sys.version_info >= (3, 13):
            self._of_start.add(_KEEPER_OF_TEXTS)
        self._replayed = {}    # variables that the script sets before an import
        self._read_bytes = 0   # of the list so far
        self._imported = set()
        self._ahead = ddprun_imported.ImportedAhead()
        self._drawn = None     # a module that has drawn random numbers
        self._generators = ddprun_random.Watch()
        self._places = checks.Places()
        self._files = ddprun_files.ImportedFiles(self._generators, self._places,
                                                 checks.site_folders())
        self._seeded_at = {}   # an import: generators that were seeded as the script came to it
        self._unsure = {}      # a generator that may have been seeded: (import, module, state)
        self._process = ddprun_process.Process()
        self._control = _socket.socket(fileno=os.dup(1))
        os.dup2(2, 1)
        self._environment = ddprun_process.first_environment()
        self._watched = checks.WatchedVariables(os.environ._data, self._names)
        self._set_variables(self._watched)
        self._stamp = checks.stamp()
        self._texts = ddprun_script.Texts()
        ddprun_process.give_way()
        self._oom_score = ddprun_process.go_first()
        ddprun_site.put_helpers_aside()

    @staticmethod
    def _set_variables(data):
        os.environ._data = data
        os.environb._data = data

    def serve(self):
        """Returns in a spare that has to run the script."""
        while True:
            word = self._control.recv(64)
            if word == b"load":
                self._answer(self._load())
            elif word == b"spare":
                if self._fork_spare():
                    return
            else:
                os._exit(0)

    def imported(self, name):
        """The module, if it was imported ahead."""
        return self._ahead.module_of(name)

    def _answer(self, text, descriptors=()):
        rights = [(self._socket.SOL_SOCKET, self._socket.SCM_RIGHTS,
                   b"".join(one.to_bytes(4, sys.byteorder) for one in descriptors))]
        self._control.sendmsg([text.encode("utf-8", "replace")[:4000]],
                              rights if descriptors else [])

    def _load(self):
        own = ddprun_site.own_customizations()
        if own:
            return f"refused {own[0]} may change how Python starts"
        gc.unfreeze()
        with open(self._record, "rb") as file:
            file.seek(self._read_bytes)
            lines = file.read()
        lines = lines[:lines.rfind(b"\n") + 1]
        self._read_bytes += len(lines)
        lines = lines.decode("utf-8", "replace").splitlines()
        self._take_texts(lines)
        self._take_seeds(lines)
        late = self._imported - self._allowed - self._of_start if self._allowed is not None else ()
        if late:
            return f"drop {min(late)} is imported by the script after it has changed a package"
        for line in lines:
            self._take_line(line)
            if self._drawn:
                return f"drop {self._drawn} draws random numbers as it is imported"
            read = self._watched.read(self._ahead.known)
            if read:
                module = line.split()[1].partition(".")[0]
                name = os.fsdecode(min(read))
                return f"drop {module} reads {name} as it is imported"
        for generator, (_, module, state) in self._unsure.items():
            if self._is_certain(generator, state):
                return f"drop {module} draws random numbers as it is imported"
        why = checks.let_pools_end(self._socket)
        why = why or self._places.stranger() or self._overwritten() or self._leftovers()
        gc.collect()
        gc.freeze()
        shortage = checks.shortage()
        if shortage and not why:
            return f"short {shortage}"
        why = why or checks.canary(self._socket, self._process)
        if why:
            return f"refused {why}"
        self._files.take_libraries(self._places.holds)
        with open(self._files_path, "wb") as file:
            file.write(self._files.text())
        stop = self._stop or ""
        if self._allowed is not None and not stop:
            stop = "it may have changed a package that is installed"
        return f"ready {len(sys.modules) - len(ddprun_site.BEFORE)} {stop}"

    def _leftovers(self):
        return checks.leftovers(self._control.fileno())

    def _take_line(self, line):
        kind, _, rest = line.partition(" ")
        if kind in ("E", "U") and not self._stop:
            name, _, value = rest.partition(" ")
            value = bytes.fromhex(value) if kind == "E" else None
            self._take_variable(bytes.fromhex(name), value)
        if kind == "R" and rest.startswith("="):
            self._compare_states(rest[1:].partition(" ")[0])
        if kind != "I" or self._stop:
            return
        name, _, path = rest.partition(" ")
        if self._allowed is not None and name not in self._allowed and name not in self._of_start:
            return
        first = name.partition(".")[0]
        if path and not self._places.holds(path):
            self._places.add_own(first)
        elif name in sys.modules or first in self._excluded or first in _SITES_OWN:
            return
        elif self._places.is_installed(first) and self._places.would_hold(name):
            self._generators.look()
            seeded = self._generators.seeded | self._seeded_at.get(name, frozenset())
            known = self._ahead.bring(name, self._files)
            self._imported.add(name)
            for generator, words in self._generators.look().items():
                if words == ddprun_random.SEEDED and generator not in seeded:
                    self._unsure[generator] = name, first, ddprun_random.state(generator)
                elif generator != "random" or words != known:
                    self._drawn = first

            for generator in self._generators.appeared:
                self._unsure[generator] = name, first, ddprun_random.state(generator)

    @staticmethod
    def _is_certain(generator, state):
        return generator != "torch" or ddprun_random.is_likely_seed(state)

    def _compare_states(self, recorded):
        """Compares with the states of the recorded worker, which began with other ones."""
        for one in recorded.split(","):
            generator, _, theirs = one.partition(":")
            if generator not in self._unsure:
                continue  # the script has seeded it itself
            name, module, state = self._unsure.pop(generator)
            if theirs and theirs == ddprun_random.digest(generator, state):
                self._generators.seeded.add(generator)
                self._ahead.leaves_seeded(name, generator, state)
            elif self._is_certain(generator, state):
                self._drawn = module

    def _take_texts(self, lines):
        for line in lines:
            kind, _, rest = line.partition(" ")
            path = rest.partition(" ")[2]
            if kind == "I" and path and not self._places.holds(path):
                self._texts.add(path)
        allowed = self._texts.ahead(self._places.is_installed)
        self._allowed = None if allowed is None else frozenset(allowed)

    def _take_seeds(self, lines):
        for line in lines:
            kind, _, rest = line.partition(" ")
            if kind == "R" and not rest.startswith("="):
                generators, _, name = rest.partition(" ")
                self._seeded_at[name] = self._seeded_at.get(name, frozenset()).union(
                    generators.split(","))

    def _take_variable(self, name, value):
        # If an imported module has set it, it did so here, too. Otherwise the script has set it,
        # before it imports what follows.
        if self._watched.quietly(name) == value:
            return
        if name in self._names or name.startswith(_LATE_VARIABLES):
            self._watched.watch(name)
        elif self._texts.sets(name, value):
            self._replayed[name] = value
            if value is None:
                del os.environb[name]
            else:
                os.environb[name] = value
        else:
            self._stop = "it has set " + os.fsdecode(name)

    def _overwritten(self):
        for name, value in self._replayed.items():
            if self._watched.quietly(name) != value:
                return f"{os.fsdecode(name)} is set by the script, and then by what it imports"
        return None

    def _fork_spare(self):
        left, shortage = self._leftovers(), checks.shortage()
        if left or shortage:
            self._answer(f"failed {left}" if left else f"short {shortage}")
            return False
        ours, theirs = self._socket.socketpair(self._socket.AF_UNIX, self._socket.SOCK_SEQPACKET)
        pipe = os.pipe()
        try:
            middle = os.fork()
        except OSError as error:
            self._answer(f"failed {error}")
            return False
        if middle == 0:
            return self._fork_again(ours, theirs, pipe)
        os.close(pipe[1])
        spare = os.read(pipe[0], 32).decode()
        os.close(pipe[0])
        os.waitpid(middle, 0)
        theirs.close()
        # The kernel has made the agent the parent of the spare: the middle process was waited for.
        self._answer(f"spare {spare}" if spare else "failed the second fork", [ours.fileno()])
        ours.close()
        return False

    def _fork_again(self, ours, theirs, pipe):
        middle = os.getpid()
        try:
            spare = os.fork()
        except OSError:
            os._exit(1)
        if spare != 0:
            os.write(pipe[1], str(spare).encode())
            os._exit(0)
        try:
            for one in pipe:
                os.close(one)
            ours.close()
            self._control.close()
            self._wait(theirs, middle)
        except BaseException as error:
            os.write(2, f"ddprun: a spare worker ends: {error!r}\n".encode())
            os._exit(1)
        return True

    def _wait(self, orders, middle):
        os.setsid()
        while os.getppid() == middle:
            time.sleep(0.001)
        self._process.prctl(_PDEATHSIG, _signal.SIGKILL)
        if os.getppid() != self._agent:
            os._exit(0)
        size = self._socket.CMSG_LEN(4 * 4)
        word, rights, _, _ = orders.recvmsg(4096, size)
        if not word or not rights:
            os._exit(0)
        orders.close()
        numbers = rights[0][2]
        descriptors = [int.from_bytes(numbers[at:at + 4], sys.byteorder)
                       for at in range(0, len(numbers), 4)]
        for one in descriptors:  # descriptors from a socket would survive exec
            os.set_inheritable(one, False)
        self._begin(*descriptors, word.removeprefix(b"work").decode("utf-8", "replace").strip())

    def _begin(self, orders, output, errors, report, why):
        """`why`: what the agent knows of that makes it differ from a cold start."""
        ddprun_process.set_oom_score(self._oom_score)
        work = ddprun_process.Work(orders)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        for one in (orders, output, errors):
            os.close(one)
        if work.processors:
            os.sched_setaffinity(0, work.processors)
        try:
            why = why or self._difference(work)
            self._generators.seed_anew()
        except Exception as error:
            why = repr(error)
        if why:
            os.write(report, why.encode("utf-8", "replace")[:4000])
            ddprun_process.execute_cold(work)
        self._become(work)
        os.close(report)
        ddprun_site.forget_helpers()

    def _difference(self, work):
        """Why this process differs from a cold start; None if it does not."""
        names = self._environment.keys() | work.environment.keys()
        changed = [name for name in sorted(names) if name not in self._names and
                   self._environment.get(name) != work.environment.get(name)]
        if changed:
            return f"{os.fsdecode(changed[0])} has changed since the imports were made"
        if ddprun_process.fixed_words() != work.command[:len(ddprun_process.fixed_words())]:
            return "the command differs"
        edited = self._texts.differing(self._places.is_installed)
        if edited:
            return f"{edited} has changed since the imports were made"
        return checks.changed_since(self._stamp)

    def _become(self, work):
        # What modules have set while they were imported is set again when the script imports them.
        variables = dict(work.environment)
        names = self._environment.keys() | self._replayed.keys() | self._watched.keys()
        self._set_variables(variables)
        for name in names - variables.keys():
            os.unsetenv(name)
        for name, value in variables.items():
            os.putenv(name, value)
        ddprun_process.set_arguments(work.command)
        self._process.show(work.command, work.environment)
        ddprun_process.begin_anew(self._ahead)
        if work.record:
            generators = ddprun_random.Watch(is_for_seeds=True)
        ddprun_random.keep_modules()
        self._ahead.hide()
        if work.record:
            ddprun_recorder.note_imports(work.record, generators)
        self._ahead.stand_first()


def hold(agent, record, files, rank_names, excluded, stack_signal, server_folder):
    try:
        ddprun_site.forget_path()
        zygote = Zygote(agent, record, files, rank_names, frozenset(excluded))
        zygote.serve()
        if stack_signal:
            ddprun_stacks.answer(stack_signal)
        if server_folder:
            ddprun_server.await_use(server_folder, zygote.imported(ddprun_server.MODULE))
    except BaseException as error:
        # A process that is not a worker must not run the script, whatever happens.
        os.write(2, f"ddprun: warm workers are off: {error!r}\n".encode())
        os._exit(1)
    ddprun_site.run_own_sitecustomize()
