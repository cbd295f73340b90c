"""What imports do to the generators of random numbers that all of a process share: Python's
`random`, numpy's and PyTorch's for the CPU.

Each begins with a seed from the system, so two processes that are started cold do not draw the
same, and how many numbers an import has drawn shows in nothing that comes later: a worker that is
forked and seeded anew is as good. That ends where one is seeded (random.seed(7)): from then on each
number is known in advance, and an import that draws moves all that come after it. So

    - an import that seeds a generator leaves it in the same state each time, and a worker gets that
      state as it comes to the import. Where the worker whose imports are recorded had another state
      than a zygote has, it was no seed, or one that differs, and the script makes the import;
    - an import that draws from a generator which has been seeded before is made by the script;
    - so is one that draws at all, as what it makes of it may stay (a name, an identifier) and would
      be the same in all workers; but for those of which is known what stays (ddprun_known.py).

Generators that packages have of their own (random.Random()) begin with a seed from the system, too,
unless they are given one, and are seeded anew like the common ones. An import that draws from one,
or gives it a state, is made by the script.

A generator has been seeded if its state is none that drawing leads to. Two of them are Mersenne
twisters, which are wound forward to find that out; the third one tells its seed.

Imports nothing: what a script has not imported must not be there.
"""

import sys

import ddprun_known

SEEDED = -1
_TWISTER = "MT19937"  # as numpy calls it
_WORDS = 624          # of the state of a Mersenne twister
_BLOCKS_MAX = 160     # 100,000 numbers; more of them between two looks look like a seed
# Modules at whose end a generator is there, before any other code can have seeded it.
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
    now = generator.get_state(legacy=False)  # the other form warns of all but Mersenne twisters
    kind = now["bit_generator"]
    if kind != _TWISTER:
        return (kind,)
    return kind, now["state"]["key"].tobytes(), now["state"]["pos"], now["has_gauss"], now["gauss"]


def _of_torch():
    generator = getattr(sys.modules.get("torch"), "__dict__", {}).get("default_generator")
    if generator is None:
        return None
    return generator.initial_seed(), generator.get_state()  # a setting of it shows in its seed


_STATES = {"random": _of_python, "numpy": _of_numpy, "torch": _of_torch}


def state(name, is_for_seeds=False):
    """None: it is not there yet."""
    try:
        # A tensor is nothing to ask for in the midst of a script: it may have modes of its own.
        if is_for_seeds and name == "torch":
            return sys.modules["torch"].__dict__["default_generator"].initial_seed(), None
        return _STATES[name]()
    except Exception:
        return None  # somebody has put another in its place


# The modules that have the generators: in a worker they may be hidden still.
_kept = {}


def keep_modules():
    """To be called before they are hidden."""
    _kept.update((name, sys.modules[name]) for name in ("random", "numpy.random.mtrand", "torch")
                 if name in sys.modules)


def set_state(name, value):
    """In a worker."""
    if name == "random":
        _kept["random"].setstate(value)
    elif name == "numpy":
        words = memoryview(value[1]).cast("I").tolist()
        _kept["numpy.random.mtrand"]._rand.set_state((value[0], words, *value[2:]))
    else:
        _kept["torch"].default_generator.set_state(value[1])


def digest(name, value):
    """Of a state, the same in each process; empty: it cannot be given to another process."""
    if name == "torch":
        return str(value[0])
    if name == "numpy" and value[0] != _TWISTER:
        return ""
    words, used = _twister(name, value)
    gauss = value[3:] if name == "numpy" else (-1.0 if value[2] is None else value[2],)
    return str(hash((*words, used, *gauss)))


def is_likely_seed(value):
    """Of a state of torch's: the system gives it 53 bits."""
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
    """Its words, and how many of them have been used."""
    if name == "random":
        return value[1][:_WORDS], value[1][_WORDS]
    return tuple(memoryview(value[1]).cast("I")), value[2]


def drawn(name, before, after):
    """How many words were drawn in between; SEEDED: it was given another state."""
    if _is_same(name, before, after):
        return 0
    if name == "torch":  # how many is not known
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
    """Makes a module as its own loader does, and notes the state of its generator then."""

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
    """A code for random.Random.seed() that calls hook.take() instead."""
    __class__ = None

    def seed(self, a=None, version=2):
        __class__  # so that it has the one cell that the function has
        return "hook".take(self, a, version)

    code = seed.__code__
    return code.replace(co_consts=tuple(hook if one == "hook" else one for one in code.co_consts))


class _OwnGenerators:
    """Those of packages that the system has seeded, as long as a zygote makes imports.

    Packages keep random.Random.seed, or bind it to their generator. So the function stays what it
    is, and has another code meanwhile.
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
        # id: (generator, hash of its state). They live on until a worker begins, so that none ends
        # unseen whose numbers are kept.
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
        """How often one of them has been drawn from since the last time, or was given another
        state: a copy of one that has a seed, or of one that has not."""
        for key in self._found:
            self._compare(key)
        count, self._changed = self._changed, 0
        return count

    def seed_anew(self):
        self._function.__code__ = self._code
        # A class may have a seed() of its own that must be given something.
        for generator, _ in self._found.values():
            self._seed(generator)
        self._found.clear()


class Watch:
    """Knows of each generator whether it was seeded since it is there, and what was drawn.

    Stands in sys.meta_path, or is asked by who does, to see them made.
    """

    def __init__(self, is_for_seeds=False):
        self._is_for_seeds = is_for_seeds  # what is drawn from torch's does not matter
        self._last = {}
        self._own = None
        self.seeded = set()
        self.appeared = set()  # with the last look; who has given it its seed is not known
        for name in _STATES:
            self.begin(name)

    def begin(self, name):
        value = state(name, self._is_for_seeds)
        if value is not None:
            self._last[name] = value
        if value is not None and name == "random" and not self._is_for_seeds and not self._own:
            self._own = _OwnGenerators()

    def seed_anew(self):
        """In a worker: what packages have of their own. May raise, if one forbids it."""
        if self._own:
            self._own.seed_anew()

    def find_spec(self, module, path=None, target=None, asker=None):
        """Of a module that makes a generator; of no other."""
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
        """{generator: words drawn, or SEEDED} since the last look; "own": a package's own."""
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
