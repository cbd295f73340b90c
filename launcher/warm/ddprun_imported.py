"""Hides modules that were imported ahead from a warm worker until the script imports them.

A worker that is started cold begins with few modules, and each import adds those that it brings in.
A zygote records which import has brought in which; in a worker a finder in sys.meta_path returns
them in the same way, so that sys.modules has at each moment what it would have after a cold start.

If the script imports something earlier than expected, all that was imported before it comes with
it, because it may depend on that: one module too many is better than a missing one. But an import
that would seed or draw random numbers at the wrong time stays hidden, and so do those that are
known to depend on it, unless the script's import is known to depend on it, too.
"""

import sys

import ddprun_known
import ddprun_settings as settings


class _Loader:
    """Returns a module that was imported ahead, with all that its import has brought in."""

    def __init__(self, ahead, name):
        self._ahead = ahead
        self._name = name

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        # Python replaces the empty module by the one that it finds in sys.modules after this.
        self._ahead.show(self._name)


def _home(value):
    """The name of the module that has made the value, or its class."""
    try:
        made = value if isinstance(value, (type, type(_home))) else type(value)
        home = made.__module__
        return home if isinstance(home, str) else None
    except Exception:
        return None


def _closure(of, edges):
    """These, and all that can be reached from them."""
    reached, waiting = set(of), list(of)
    while waiting:
        new = edges.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


class ImportedAhead:
    """The first finder in the sys.meta_path of a warm worker."""

    def __init__(self):
        self._brought = {}  # import, in order: the names that it has added to sys.modules
        self._import_of = {}  # name: the import that has added it
        self._settings = {}  # import: the settings that it has changed
        self._folders = {}  # import: {folder: finder} of sys.path_importer_cache
        self._hidden = {}  # name: module; in a worker
        self._children = {}  # name: (module of the package, attribute) to restore
        self._bases = {}  # import: the imports that it depends on; in a worker
        self.known = {}  # name: what it has to draw again (ddprun_known.py)

    def bring(self, name, files):
        """Imports it, with that finder first; how many random numbers have been drawn that a worker
        is to draw again."""
        before, set_before = set(sys.modules), settings.look()
        looked_into = set(sys.path_importer_cache)
        sys.meta_path.insert(0, files)
        try:
            __import__(name)
        except BaseException:
            pass  # it may be there for the script only; nobody has asked us for it
        if files in sys.meta_path:
            sys.meta_path.remove(files)
        brought = [one for one in sys.modules if one not in before]
        self._brought.setdefault(name, []).extend(brought)
        self._import_of.update(dict.fromkeys(brought, name))
        self._settings.setdefault(name, []).extend(settings.changes(set_before))
        self._folders.setdefault(name, {}).update(
            (folder, finder) for folder, finder in sys.path_importer_cache.items()
            if folder not in looked_into)
        known = ddprun_known.of(brought)
        self.known.update(known)
        return sum(one.words for one in known.values())

    def leaves_seeded(self, name, generator, state):
        """Records that this import has given the generator this state."""
        self._settings[name].append(("generator", generator, None, state))

    def hide(self):
        for name in reversed(self._settings):
            for change in reversed(self._settings[name]):
                settings.undo(change)
        for folders in self._folders.values():
            for folder in folders:
                sys.path_importer_cache.pop(folder, None)
        for name in self._import_of:
            if name in sys.modules:
                self._hidden[name] = sys.modules.pop(name)
        for name, known in self.known.items():
            if name in self._hidden:
                known.forget(self._hidden[name])
        for name, module in self._hidden.items():
            self._take_from_package(name, module)

    def stand_first(self):
        sys.meta_path.insert(0, self)

    def _take_from_package(self, name, module):
        package, _, child = name.rpartition(".")
        if not package or self._import_of.get(package) == self._import_of[name]:
            return
        parent = self._hidden.get(package) or sys.modules.get(package)
        if getattr(parent, "__dict__", {}).get(child) is module:
            try:
                delattr(parent, child)
                self._children[name] = (parent, child)
            except Exception:
                pass  # then it stays visible

    def holds(self, name):
        return name in self._hidden

    def module_of(self, name):
        return self._hidden.get(name)

    def find_spec(self, name, path=None, target=None):
        if name not in self._hidden or self._is_only_asked_for():
            return None
        spec = getattr(self._hidden[name], "__spec__", None)
        found = type(sys.__spec__)(name, _Loader(self, name), origin=getattr(spec, "origin", None))
        places = getattr(spec, "submodule_search_locations", None)
        found.submodule_search_locations = None if places is None else list(places)
        return found

    @staticmethod
    def _is_only_asked_for():
        """True for importlib.util.find_spec(): its caller wants the spec of the file itself."""
        try:
            asking = sys._getframe(3)
        except ValueError:  # called from C, not by Python code
            return False
        return asking.f_globals.get("__name__") == "importlib.util"

    def show(self, name):
        """Called when the script imports the module."""
        last = self._import_of[name]
        sys.modules[name] = self._hidden[name]
        for one in self._coming_with(last):
            for brought in self._brought.pop(one):
                self._show(brought)
            self._set_again(one)

    def _coming_with(self, last):
        order = list(self._brought)
        order = order[:order.index(last) + 1] if last in order else order
        taking = {one for one in order[:-1] if self._takes(one)}
        if not taking:
            return order
        self._look_at_bases(order)
        users = {}
        for one in order:
            for base in self._bases[one]:
                users.setdefault(base, set()).add(one)
        reached = _closure({last}, self._bases)
        held = _closure(taking - reached, users) - reached
        return [one for one in order if one not in held]

    def _takes(self, one):
        """True if it draws, seeds, or reads its rank while it is imported."""
        return any(name in self.known for name in self._brought[one]) or \
            any(change[0] == "generator" for change in self._settings.get(one, ()))

    def _look_at_bases(self, imports):
        """Finds the imports whose modules, classes or functions each of these uses."""
        new = [one for one in imports if one not in self._bases]
        if not new:
            return
        names = {id(module): name for name, module in self._hidden.items()}
        children = {}
        for name, (parent, _) in self._children.items():
            children.setdefault(id(parent), []).append(name)
        for one in new:
            found = set()
            for brought in self._brought.get(one, ()):
                module = self._hidden.get(brought)
                found.update(names.get(id(value)) or _home(value)
                             for value in list(getattr(module, "__dict__", {}).values()))
                # A user of a package sees all its submodules that anyone has imported.
                found.update(children.get(id(module), ()))
            self._bases[one] = {self._import_of[name] for name in found
                                if name in self._import_of} - {one}

    def _set_again(self, name):
        for folder, finder in self._folders.pop(name, {}).items():
            sys.path_importer_cache.setdefault(folder, finder)
        for change in self._settings.pop(name, ()):
            settings.repeat(change)
            if sys.meta_path[0] is not self and self in sys.meta_path:
                sys.meta_path.remove(self)
                self.stand_first()

    def show_all(self):
        self._brought.clear()
        for name in list(self._hidden):
            self._show(name, is_imported=False)

    def _show(self, name, is_imported=True):
        module = self._hidden.pop(name, None)
        if module is None:
            return
        sys.modules.setdefault(name, module)
        parent, child = self._children.pop(name, (None, ""))
        if parent is not None and child not in parent.__dict__:
            setattr(parent, child, module)
        if is_imported and name in self.known:
            self.known[name].take_again(module)
