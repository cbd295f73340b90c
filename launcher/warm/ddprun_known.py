"""What well-known packages draw from random numbers, or read from their rank, while imported.

A forked worker would keep the zygote's values. So they are drawn again when the script reaches the
import, as the package itself does it: from the worker's own generator, with as many numbers drawn,
so that all later numbers are the same even if the script has seeded it. A package of another
version, which does it in another way, draws another number of words or lacks the attribute; it is
then not imported ahead, like any other that draws.
"""

import sys


class _Known:
    words = 0             # drawn from `random`
    reads_rank = False

    def fits(self, module):
        """Tells whether the module is of a known version."""
        return True

    def forget(self, module):
        """Removes what other modules could see before the import."""

    def take_again(self, module):
        raise NotImplementedError


class _RichStyle(_Known):
    """The number at which its link IDs begin."""
    words = 1

    def fits(self, module):
        names = vars(module)
        return "getrandbits" in names and type(names.get("_id_generator")) is names.get("count", 0)

    def take_again(self, module):
        module._id_generator = module.count(module.getrandbits(24))


class _HubSession(_Known):
    """The name of the process in requests to the hub."""

    def fits(self, module):
        return len(getattr(module, "SESSION_ID", "")) == 32 and hasattr(module, "uuid4")

    def take_again(self, module):
        module.SESSION_ID = module.uuid4().hex


class _SympyDummy(_Known):
    """The number at which its dummy symbols begin."""

    def fits(self, module):
        return isinstance(_found(module.__name__, "Dummy._base_dummy_index"), int)

    def take_again(self, module):
        module.Dummy._base_dummy_index = module.Dummy._prng.randint(10**6, 9*10**6)


class _RankZero(_Known):
    """Lightning's: only rank 0 prints. The script may have set it before."""
    reads_rank = True

    def fits(self, module):
        return hasattr(module, "rank_zero_only") and hasattr(module, "_get_rank")

    def forget(self, module):
        vars(module.rank_zero_only).pop("rank", None)

    def take_again(self, module):
        only = module.rank_zero_only
        only.rank = getattr(only, "rank", module._get_rank() or 0)


class _MetricsRank(_Known):
    """Like Lightning's, but a copy of its own, which only this module sets."""
    reads_rank = True

    def fits(self, module):
        return hasattr(module, "rank_zero_only") and hasattr(module, "os")

    def take_again(self, module):
        module.rank_zero_only.rank = int(module.os.environ.get("LOCAL_RANK", 0))


_KNOWN = {"rich.style": _RichStyle(), "transformers.utils.hub": _HubSession(),
          "sympy.core.symbol": _SympyDummy(),
          "lightning.fabric.utilities.rank_zero": _RankZero(),
          "lightning_fabric.utilities.rank_zero": _RankZero(),
          "torchmetrics.utilities.prints": _MetricsRank()}

# Draws from these generators leave nothing behind: sympy computes assumptions in a random order and
# caches the results. The rest of what it draws is drawn again.
_UNSEEN = (("sympy.core.random", "_assumptions_rng"), ("sympy.core.symbol", "Dummy._prng"))


def _found(module, path):
    found = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return found


def is_gone_at_once():
    """True while tempfile creates a generator to probe for a temporary folder. A generator that it
    creates for file names is tracked: a module with such a name must not be shared."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in (
            __name__, "ddprun_random", "random", "tempfile"):
        if frame.f_code.co_name == "_get_default_tempdir":
            return True
        frame = frame.f_back
    return False


def draws_unseen(generator):
    return any(_found(module, path) is generator for module, path in _UNSEEN)


def of(names):
    """{name: its known draws} for those that are imported and of a known version."""
    found = {name: _KNOWN[name] for name in names if name in _KNOWN and name in sys.modules}
    return {name: known for name, known in found.items() if known.fits(sys.modules[name])}


def reader_of_rank():
    """The known module whose import reads the rank right now; None: another one."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    name = frame.f_globals.get("__name__") if frame is not None else None
    return name if name in _KNOWN and _KNOWN[name].reads_rank else None
