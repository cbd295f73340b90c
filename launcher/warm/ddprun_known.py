"""What well-known packages take from chance, or from their rank, as they are imported, and keep.

A worker that is forked would have the zygote's. So it is taken again where the script comes to the
import, as the package itself does it: from the worker's own generator, with as many numbers drawn,
so that all which come later are the same even if the script has seeded it. A package that does
otherwise than is known here (another version) draws another number of words, or has no such
attribute, and is dropped as any other.
"""

import sys


class _Known:
    words = 0             # drawn from `random`
    reads_rank = False

    def fits(self, module):
        """Whether it keeps what is known here."""
        return True

    def forget(self, module):
        """What other modules would see before it is imported."""

    def take_again(self, module):
        raise NotImplementedError


class _RichStyle(_Known):
    """Where the numbers of its links begin."""
    words = 1

    def fits(self, module):
        names = vars(module)
        return "getrandbits" in names and type(names.get("_id_generator")) is names.get("count", 0)

    def take_again(self, module):
        module._id_generator = module.count(module.getrandbits(24))


class _HubSession(_Known):
    """What a process calls itself to the hub."""

    def fits(self, module):
        return len(getattr(module, "SESSION_ID", "")) == 32 and hasattr(module, "uuid4")

    def take_again(self, module):
        module.SESSION_ID = module.uuid4().hex


class _SympyDummy(_Known):
    """Where the numbers of its dummies begin."""

    def fits(self, module):
        return isinstance(_found(module.__name__, "Dummy._base_dummy_index"), int)

    def take_again(self, module):
        module.Dummy._base_dummy_index = module.Dummy._prng.randint(10**6, 9*10**6)


class _RankZero(_Known):
    """Lightning's: only this rank prints. It may have been set before."""
    reads_rank = True

    def fits(self, module):
        return hasattr(module, "rank_zero_only") and hasattr(module, "_get_rank")

    def forget(self, module):
        vars(module.rank_zero_only).pop("rank", None)

    def take_again(self, module):
        only = module.rank_zero_only
        only.rank = getattr(only, "rank", module._get_rank() or 0)


class _MetricsRank(_Known):
    """As Lightning's, but its own, and no other can have set it."""
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

# Generators that are drawn from during an import, by nothing that stays: sympy asks itself in any
# order what it assumes, and keeps the answers; what else it draws is taken again.
_UNSEEN = (("sympy.core.random", "_assumptions_rng"), ("sympy.core.symbol", "Dummy._prng"))


def _found(module, path):
    found = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return found


def is_gone_at_once():
    """Whether tempfile makes a generator as it looks for the folder of temporary files. One that
    it makes for the names of files is noted: what has such a name at its import is not shared."""
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
    """{name: what is known of it} of those that are imported and are as they are known."""
    found = {name: _KNOWN[name] for name in names if name in _KNOWN and name in sys.modules}
    return {name: known for name, known in found.items() if known.fits(sys.modules[name])}


def reader_of_rank():
    """The known module that reads its rank now, as it is imported; None: it is not one of them."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    name = frame.f_globals.get("__name__") if frame is not None else None
    return name if name in _KNOWN and _KNOWN[name].reads_rank else None
