"""Records what a script imports, and when it changes its environment, in a file of the agent.

There is one line for each, in the order in which the imports begin:
    H VERSION        the recorder is in place
    I NAME PATH      a module was imported from this file; no path: it is built into Python
    E HEX HEX        a variable has this value now (name and value)
    U HEX            a variable was removed
    R NAMES MODULE   when this import began, these random generators had been seeded
    R =NAME:STATE,... MODULE   before this import they were set to these states since the last line

The agent owns the file, so it survives a SIGKILL of this process, which keeps no descriptor of it.
"""

import os
import sys

import ddprun_random
import ddprun_site
import ddprun_stacks


class ImportRecorder:
    """First in sys.meta_path, delegates to the other finders. It ignores forked children."""

    def __init__(self, path, generators):
        self._path = path
        self._process = os.getpid()
        self._begun = []
        self._outer = None  # the last import that was not nested in another one
        self._generators = generators
        self._variables = dict(os.environ._data)
        site = sys.modules["site"]
        folders = [os.path.dirname(os.__file__), *site.getsitepackages()]
        if site.ENABLE_USER_SITE:
            folders.append(site.getusersitepackages())
        self._installed = tuple(os.path.realpath(one) + os.sep for one in folders)
        self._write(["H " + sys.version.partition(" ")[0]])

    def find_spec(self, name, path=None, target=None):
        if os.getpid() != self._process:
            return None
        self._note(name)
        return self._generators.find_spec(name, path, asker=self)

    def _note(self, name):
        # A module that was only looked up, or whose import failed, is not in sys.modules.
        lines = [self._import(begun) for begun in self._begun if begun in sys.modules]
        self._begun = [name]
        variables = getattr(os.environ, "_data", self._variables)
        if variables != self._variables:
            lines += self._changes(dict(variables))
        if not self._is_made_by_another():
            self._outer = name
            lines += self._states(name)
        if self._generators.seeded:
            lines.append(f"R {','.join(sorted(self._generators.seeded))} {name}")
        if lines:
            self._write(lines)

    def _states(self, name):
        found = self._generators.look()
        changed = {one for one, words in found.items() if words == ddprun_random.SEEDED}
        states = {one: ddprun_random.state(one, is_for_seeds=True)
                  for one in sorted(changed | self._generators.appeared)}
        texts = [f"{one}:{ddprun_random.digest(one, value)}" for one, value in states.items()
                 if value is not None]
        return [f"R ={','.join(texts)} {name}"] if texts else []

    def _is_made_by_another(self):
        outer = getattr(sys.modules.get(self._outer), "__dict__", {}).get("__spec__")
        return getattr(outer, "_initializing", False) and self._is_installed(outer)

    def _is_installed(self, spec):
        """A module of the script's own may seed and then import, just as the script does."""
        return not getattr(spec, "has_location", False) or \
            os.path.realpath(spec.origin).startswith(self._installed)

    @staticmethod
    def _import(name):
        spec = getattr(sys.modules.get(name), "__dict__", {}).get("__spec__")
        path = spec.origin if getattr(spec, "has_location", False) else ""
        return f"I {name} {path}".replace("\n", " ")

    def _changes(self, variables):
        before, self._variables = self._variables, variables
        for name in before.keys() - variables.keys():
            yield f"U {name.hex()}"
        for name, value in variables.items():
            if before.get(name) != value:
                yield f"E {name.hex()} {value.hex()}"

    def _write(self, lines):
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError:
            return  # the agent is gone or not visible: nobody needs the list
        try:
            # The agent may have closed the file and opened another one under its number.
            if not os.readlink(f"/proc/self/fd/{file}").startswith("/memfd:ddprun-imports"):
                return
            os.write(file, "".join(line + "\n" for line in lines).encode("utf-8", "replace"))
        except OSError:
            pass
        finally:
            os.close(file)


def note_imports(path, generators):
    sys.meta_path.insert(0, ImportRecorder(path, generators))


def begin(path, stack_signal, server_folder):
    ddprun_site.forget_path()
    if stack_signal:
        ddprun_stacks.answer(stack_signal)
    note_imports(path, ddprun_random.Watch(is_for_seeds=True))
    ddprun_stacks.start_script(server_folder)
