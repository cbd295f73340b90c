"""Reads from the text of a script what it does before its imports.

Imports may be done ahead only under the script's conditions: with the variables that it has set by
then, and with packages that it has not changed by then. Only constants in statements that every run
executes are known.

No import here: `ast` would be a module that the script has not imported.
"""

import os
import sys

_ONLY_TREE = 0x400  # ast.PyCF_ONLY_AST
# Changing a setting does not change what other modules have copied.
_SETTINGS = frozenset(("backends", "config"))
_CHANGING_CALLS = frozenset(("set_default_dtype", "set_default_device", "set_default_tensor_type"))


def _kind(node):
    return type(node).__name__


def _inside(node):
    """The node and all below it."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        for name in one._fields:
            value = getattr(one, name, None)
            for part in value if isinstance(value, list) else (value,):
                if hasattr(part, "_fields"):
                    waiting.append(part)


def _text(node):
    is_text = _kind(node) == "Constant" and isinstance(node.value, str)
    return node.value if is_text else None


def _dotted(node):
    """["os", "environ"] for os.environ; empty if it is no such chain."""
    names = []
    while _kind(node) == "Attribute":
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if _kind(node) == "Name" else []


def _is_environment(node):
    return _dotted(node) in (["os", "environ"], ["environ"])


class Script:
    """A file of the user's own: the script itself, or a module of theirs."""

    def __init__(self, path, is_main):
        self.sets = set()  # (name, value) as bytes; None: it is removed
        self._is_main = is_main
        self._path = path
        self._stamp = None
        self._bound = {}   # name bound by an import: to what, ["torch", "nn"]
        try:
            self._stamp = self._stamp_of(path)
            with open(path, "rb") as file:
                self._tree = compile(file.read(), path, "exec", _ONLY_TREE, dont_inherit=True)
        except (OSError, SyntaxError, ValueError):
            self._tree = None
            return
        self._nodes = list(_inside(self._tree))
        for node in self._nodes:
            self._bind(node)
        for statement in self._always():
            self._take_setting(statement)
        writes = [name for name, _ in self.sets]
        self.sets = {(os.fsencode(name), None if value is None else os.fsencode(value))
                     for name, value in self.sets
                     if writes.count(name) == 1 and self._mentions(name) == 1}

    @staticmethod
    def _stamp_of(path):
        found = os.stat(path)
        return found.st_mtime_ns, found.st_ino, found.st_size

    def is_edited(self):
        try:
            return self._stamp_of(self._path) != self._stamp
        except OSError:
            return True

    def _always(self):
        """The statements that every run executes."""
        for statement in self._tree.body:
            yield statement
            if self._is_main and _kind(statement) == "If" and self._asks_for_main(statement.test):
                yield from statement.body

    @staticmethod
    def _asks_for_main(test):
        parts = [test.left, *test.comparators] if _kind(test) == "Compare" else []
        return len(parts) == 2 and _kind(test.ops[0]) == "Eq" and \
            "__main__" in map(_text, parts) and ["__name__"] in map(_dotted, parts)

    def _bind(self, node):
        if _kind(node) == "Import":
            for alias in node.names:
                parts = alias.name.split(".")
                self._bound[alias.asname or parts[0]] = parts if alias.asname else parts[:1]
        elif _kind(node) == "ImportFrom" and node.level == 0:
            for alias in node.names:
                self._bound[alias.asname or alias.name] = [*node.module.split("."), alias.name]

    def _take_setting(self, statement):
        kind = _kind(statement)
        if kind == "Assign" and len(statement.targets) == 1:
            self._add(statement.targets[0], _text(statement.value))
        elif kind == "Delete":
            for target in statement.targets:
                self._add(target, None, is_removed=True)
        elif kind in ("Expr", "Assign") and _kind(statement.value) == "Call":
            self._take_call(statement.value)

    def _add(self, target, value, is_removed=False):
        if _kind(target) != "Subscript" or not _is_environment(target.value):
            return
        name = _text(target.slice)
        if name is not None and (is_removed or value is not None):
            self.sets.add((name, value))

    def _take_call(self, call):
        if _kind(call.func) != "Attribute" or not _is_environment(call.func.value):
            return
        texts = [_text(one) for one in call.args]
        if call.func.attr == "setdefault" and len(texts) == 2 and None not in texts:
            self.sets.add(tuple(texts))
        elif call.func.attr == "pop" and texts and texts[0] is not None:
            self.sets.add((texts[0], None))
        elif call.func.attr == "update":
            pairs = [(word.arg, _text(word.value)) for word in call.keywords]
            for one in call.args:
                if _kind(one) == "Dict":
                    pairs += zip(map(_text, one.keys), map(_text, one.values))
            self.sets.update((name, value) for name, value in pairs
                             if name is not None and value is not None)

    def _mentions(self, name):
        """How often the text has the name, except where its value is only read."""
        count = 0
        for node in self._nodes:
            count += _text(node) == name
            if _kind(node) == "keyword":
                count += node.arg == name
            elif _kind(node) == "Subscript" and _kind(node.ctx) == "Load":
                count -= _is_environment(node.value) and _text(node.slice) == name
            elif _kind(node) == "Call" and node.args and _text(node.args[0]) == name:
                called = _dotted(node.func)
                count -= called == ["os", "getenv"] or \
                    called[-2:] == ["environ", "get"]
        return count

    def first_change(self, is_installed):
        """The first line that may change a package; None: there is none."""
        lines = [node.lineno for node in (self._nodes if self._tree else ())
                 if self._is_change(node, is_installed)]
        if not lines:
            return None
        # A function may be called as soon as it is defined.
        first = min(lines)
        return min([first, *(node.lineno for node in self._tree.body
                             if node.lineno <= first <= (node.end_lineno or first))])

    def _is_change(self, node, is_installed):
        kind = _kind(node)
        if kind == "Attribute" and _kind(node.ctx) != "Load":
            changed = _dotted(node)
        elif kind == "Call" and _dotted(node.func) in (["setattr"], ["delattr"]) and node.args:
            changed = [*_dotted(node.args[0]), ""]
        elif kind == "Call" and not _CHANGING_CALLS.isdisjoint(_dotted(node.func)[-1:]):
            changed = _dotted(node.func)
        else:
            return False
        if not changed or changed[0] not in self._bound:
            return False
        whole = self._bound[changed[0]] + changed[1:]
        return is_installed(whole[0]) and _SETTINGS.isdisjoint(whole[:-1])

    def imports_before(self, line, is_installed):
        """What its first statements import, up to that line or to a module of the user's own."""
        names = []
        for statement in self._tree.body:
            if line is not None and statement.lineno >= line:
                break
            if _kind(statement) == "Import":
                found = [alias.name for alias in statement.names]
            elif _kind(statement) == "ImportFrom" and statement.level == 0:
                found = [statement.module] + \
                    [f"{statement.module}.{alias.name}" for alias in statement.names]
            else:
                continue
            if not all(is_installed(name.partition(".")[0]) for name in found):
                break
            names += found
        return names


def _main_file():
    """The file that Python is to run; empty if it is none of the user's own."""
    words = sys.orig_argv
    if words[2] == "-c":
        return words[4] if len(words) > 4 else ""
    if words[2] != "-m":
        return words[2]
    place = os.path.join(os.getcwd(), *words[3].split("."))
    found = [path for path in (place + ".py", os.path.join(place, "__main__.py"))
             if os.path.isfile(path)]
    return found[0] if found else ""


class Texts:
    """The script, and the user's own modules that it imports."""

    def __init__(self):
        path = _main_file()
        self._main = Script(path, is_main=True) if path else None
        self._own = {}

    def add(self, path):
        if path.endswith(".py") and path not in self._own:
            self._own[path] = Script(path, is_main=False)

    def sets(self, name, value):
        """True if one of them gives this variable this value in each run."""
        texts = [*self._own.values(), *([self._main] if self._main else ())]
        return any((name, value) in text.sets for text in texts)

    def differing(self, is_installed):
        """One of their modules that was edited and now acts differently before imports."""
        for path, text in self._own.items():
            if text.is_edited():
                now = Script(path, is_main=False)
                if now.sets != text.sets or now.first_change(is_installed):
                    return path
        return None

    def ahead(self, is_installed):
        """What may be imported before a package may have been changed; None: everything."""
        own = any(text.first_change(is_installed) for text in self._own.values())
        line = self._main.first_change(is_installed) if self._main else None
        if line is None and not own:
            return None
        return self._main.imports_before(line, is_installed) if self._main else []
