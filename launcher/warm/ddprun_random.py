"""Tracks what imports do to the shared random generators: Python's, numpy's, PyTorch's on the CPU.

Each generator starts with a seed from the system. So two cold processes draw different numbers, and
it does not matter how many numbers an import has drawn: a forked worker that is seeded anew is just
as good. That changes once a generator is seeded explicitly (random.seed(7)): from then on each
number is predictable, and an import that draws shifts all later ones. Therefore
    - an import that seeds a generator leaves it in the same state each time, and a worker gets that
      state when it reaches the import. If the recorded worker had another state than the zygote, it
      was no fixed seed, and the script has to do the import itself;
    - the script itself does an import that draws from a generator which was seeded before;
    - and one that draws at all, because a result may stay (a name, an identifier), and would be the
      same in all workers; except for packages whose results are known (ddprun_known.py).

Private generators of packages (random.Random()) start with a seed from the system, too, unless they
are given one, and are seeded anew like the shared ones. The script itself does an import that draws
from one or sets its state.

A generator was seeded if drawing cannot have led to its state. Two of the shared ones are Mersenne
twisters, which are wound forward to find that out; the third one reports its seed.

Imports nothing, because a module that the script has not imported must not exist.
"""

import sys

import ddprun_known

SEEDED = -1
_TWISTER = "MT19937"  # numpy's name of it
_WORDS = 624          # in the state of a Mersenne twister
_BLOCKS_MAX = 160     # 100,000 numbers; more between two looks count as a seed
# When the import of one of these ends, its generator exists and no other code can have seeded it.
_MAKERS = {"random": "random", "numpy.random.mtrand": "numpy"}


def _of_python():
    owner = sys.modules.get("random")
    generator = getattr(owner, "__dict__", {}).get("_inst")
    return None if generator is None else generator.getstate()


def _of_numpy():
    owner = sys.modules.get("numpy.random.mtrand")
    generator = getattr(owner, "__dict__", {}).get("_rand")
    if generator is None:
        return None
    now = generator.get_state(legacy=False)  # the legacy form warns unless it is a Mersenne twister
    kind = now["bit_generator"]
    if kind != _TWISTER:
        return (kind,)
    return kind, now["state"]["key"].tobytes(), now["state"]["pos"], now["has_gauss"], now["gauss"]


def _of_torch():
    generator = getattr(sys.modules.get("torch"), "__dict__", {}).get("default_generator")
    if generator is None:
        return None
    return generator.initial_seed(), generator.get_state()  # its seed tells if it was set


_STATES = {"random": _of_python, "numpy": _of_numpy, "torch": _of_torch}


def state(name, is_for_seeds=False):
    """None: the generator does not exist yet."""
    try:
        # A tensor must not be created in the middle of a script, which may have set modes of torch.
        if is_for_seeds and name == "torch":
            return sys.modules["torch"].__dict__["default_generator"].initial_seed(), None
        return _STATES[name]()
    except Exception:
        return None  # it was replaced by something else


# The modules with the generators, which may still be hidden in a worker.
_kept = {}


def keep_modules():
    """Call it before they are hidden."""
    _kept.update((name, sys.modules[name]) for name in ("random", "numpy.random.mtrand", "torch")
                 if name in sys.modules)


def set_state(name, value):
    """For a worker."""
    if name == "random":
        _kept["random"].setstate(value)
    elif name == "numpy":
        words = memoryview(value[1]).cast("I").tolist()
        _kept["numpy.random.mtrand"]._rand.set_state((value[0], words, *value[2:]))
    else:
        _kept["torch"].default_generator.set_state(value[1])


def digest(name, value):
    """The hash of a state, equal in all processes; empty: another process cannot have the state."""
    if name == "torch":
        return str(value[0])
    if name == "numpy" and value[0] != _TWISTER:
        return ""
    words, used = _twister(name, value)
    gauss = value[3:] if name == "numpy" else (-1.0 if value[2] is None else value[2],)
    return str(hash((*words, used, *gauss)))


def is_likely_seed(value):
    """For a state of torch: a seed from the system has 53 bits."""
    return value[0] < 1 << 32


def _torch_as_seeded(seed):
    generator = sys.modules["torch"].Generator()
    generator.manual_seed(seed)
    return seed, generator.get_state()


def _is_same(name, one, other):
    if name == "torch":
        return one[0] == other[0] and (one[1] is None or one[1].equal(other[1]))
    return one == other


def _twister(name, value):
    """The words of its state, and how many of them are used."""
    if name == "random":
        return value[1][:_WORDS], value[1][_WORDS]
    return tuple(memoryview(value[1]).cast("I")), value[2]


def drawn(name, before, after):
    """How many words were drawn in between; SEEDED: the state was set."""
    if _is_same(name, before, after):
        return 0
    if name == "torch":  # the number is unknown
        return 1 if before[0] == after[0] else SEEDED
    if name == "numpy" and (before[0], after[0]) != (_TWISTER, _TWISTER):
        return SEEDED
    (words, used), (wanted, last) = _twister(name, before), _twister(name, after)
    twister = sys.modules["_random"].Random()
    count = 0
    for _ in range(_BLOCKS_MAX):
        if words == wanted and last >= used:
            return count + last - used
        twister.setstate((*words, used))
        twister.getrandbits(32 * (_WORDS - used + 1))
        count += _WORDS - used + 1
        *words, used = twister.getstate()
        words = tuple(words)
    return SEEDED


class _Loader:
    """Makes a module with its own loader, and then records the state of its generator."""

    def __init__(self, inner, watch, name):
        self._inner = inner
        self._watch = watch
        self._name = name

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def create_module(self, spec):
        return self._inner.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._inner
        self._inner.exec_module(module)
        self._watch.begin(self._name)


def _code_like(hook):
    """A code object for random.Random.seed() that calls hook.take() instead."""
    __class__ = None

    def seed(self, a=None, version=2):
        __class__  # creates the closure cell that the replaced function has
        return "hook".take(self, a, version)

    code = seed.__code__
    return code.replace(co_consts=tuple(hook if one == "hook" else one for one in code.co_consts))


class _OwnGenerators:
    """The private generators of packages that the system has seeded, while a zygote imports.

    Packages store random.Random.seed, or bind it to their generator. So the function object has to
    stay, and gets another code object meanwhile.
    """

    def __init__(self):
        random = sys.modules["random"]
        self._common = random._inst
        self._function = random.Random.seed
        self._code = self._function.__code__
        self._seed = type(self._function)(
            self._code, self._function.__globals__, "seed", self._function.__defaults__,
            self._function.__closure__)
        self._state = sys.modules["_random"].Random.getstate
        # id: (generator, hash of its state). They are kept alive until a worker begins, so that
        # none can end unseen after a package has stored its numbers.
        self._found = {}
        self._changed = 0
        self._function.__code__ = _code_like(self)

    def take(self, generator, a, version):
        self._compare(id(generator))
        self._seed(generator, a, version)
        self._found.pop(id(generator), None)
        is_noted = a is None and generator is not self._common
        if is_noted and not ddprun_known.is_gone_at_once():
            self._found[id(generator)] = generator, hash(self._state(generator))

    def _compare(self, key):
        generator, before = self._found.get(key, (None, 0))
        now = 0 if generator is None else hash(self._state(generator))
        if now != before:
            self._found[key] = generator, now
            self._changed += not ddprun_known.draws_unseen(generator)

    def changed(self):
        """How often one of them was drawn from, or had its state set, since the last call: it is a
        copy of one that has a seed, or of one that has not."""
        for key in self._found:
            self._compare(key)
        count, self._changed = self._changed, 0
        return count

    def seed_anew(self):
        self._function.__code__ = self._code
        # A subclass may define a seed() with required arguments.
        for generator, _ in self._found.values():
            self._seed(generator)
        self._found.clear()


class Watch:
    """Knows of each generator whether it was seeded since it was created, and what was drawn.

    It is in sys.meta_path, or another finder there asks it, so that it sees them created.
    """

    def __init__(self, is_for_seeds=False):
        self._is_for_seeds = is_for_seeds  # draws from torch's do not matter
        self._last = {}
        self._own = None
        self.seeded = set()
        self.appeared = set()  # since the last look; their seed may be from anywhere
        for name in _STATES:
            self.begin(name)

    def begin(self, name):
        value = state(name, self._is_for_seeds)
        if value is not None:
            self._last[name] = value
        if value is not None and name == "random" and not self._is_for_seeds and not self._own:
            self._own = _OwnGenerators()

    def seed_anew(self):
        """For a worker: seeds private generators. May raise, if one forbids it."""
        if self._own:
            self._own.seed_anew()

    def find_spec(self, module, path=None, target=None, asker=None):
        """Handles only modules that create a generator."""
        if module not in _MAKERS:
            return None
        for other in sys.meta_path:
            is_asked = hasattr(other, "find_spec") and other not in (self, asker)
            found = other.find_spec(module, path) if is_asked else None
            if found is not None:
                if hasattr(found.loader, "exec_module"):
                    found.loader = _Loader(found.loader, self, _MAKERS[module])
                return found
        return None

    def look(self):
        """{generator: words drawn, or SEEDED} since the last look; "own" is any private one."""
        found = {}
        self.appeared = set()
        for name in _STATES:
            now = state(name, self._is_for_seeds)
            if now is None:
                continue
            before = self._last.get(name)
            self._last[name] = now
            if before is None:
                self.appeared.add(name)
                before = now
                if name == "torch" and not self._is_for_seeds:
                    before = _torch_as_seeded(now[0])
            words = drawn(name, before, now)
            if words:
                found[name] = words
            if words == SEEDED:
                self.seeded.add(name)
        if self._own and self._own.changed():
            found["own"] = 1
        return found
