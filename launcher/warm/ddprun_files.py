"""Which files a zygote has imported, and what they were before they were read.

A worker that is started cold reads them as they are by then. So the agent compares them
(imported_files.hpp) before a spare becomes a worker. They are

    - the files of modules, each looked at by the finder, that is, before Python reads it;
    - the folders of packages, with the modules in them: one that is added may be imported by a cold
      start, where it was only tried before;
    - the libraries that were loaded for them, and the interpreter;
    - what Python reads at its start: pyvenv.cfg, and the .pth files of folders of packages.

Imports nothing that a script would see.
"""

import os
import sys

import ddprun_site

_MODULE_SUFFIXES = (".py", ".pyc", ".so")
_GONE = (0, 0, 0)  # of no file


def _is_module(name):
    """Whether Python may import it: a module, or a package. Must match imported_files.cpp."""
    return name.endswith(_MODULE_SUFFIXES) or ("." not in name and name != "__pycache__")


def _stamp_of(path):
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


class ImportedFiles:
    """First in the sys.meta_path of a zygote that makes an import: finds what the others do."""

    def __init__(self, generators, places, site_folders):
        self._generators = generators
        self._places = places
        self._stamps = {}
        self._names = {}  # of what is in a folder
        for name, module in list(sys.modules.items()):
            if not ddprun_site.is_ours(name):
                self._take(getattr(module, "__dict__", {}).get("__spec__"))
        self._take_file(os.path.join(sys.prefix, "pyvenv.cfg"))
        for folder in site_folders:
            try:
                for name in os.listdir(folder):
                    if name.endswith(".pth"):
                        self._take_file(os.path.join(folder, name))
            except OSError:
                pass  # Python finds nothing there, either

    def find_spec(self, name, path=None, target=None):
        found = self._generators.find_spec(name, path, asker=self)
        for finder in () if found is not None else list(sys.meta_path):
            if finder is not self and hasattr(finder, "find_spec"):
                found = finder.find_spec(name, path, target)
                if found is not None:
                    break
        self._take(found)
        return found

    def _take(self, spec):
        try:
            # What is only looked for may be the user's: a folder of data has the name of a package.
            if getattr(spec, "has_location", False):
                # In a zip file a module's own path leads to nothing.
                path = getattr(spec.loader, "archive", None) or spec.origin
                if self._places.holds(path):
                    self._take_file(path)
            for folder in getattr(spec, "submodule_search_locations", None) or ():
                if self._places.holds(folder):
                    self._take_folder(folder)
        except Exception:
            pass  # a package has made it, of whatever

    def _take_file(self, path):
        try:
            if path not in self._stamps:
                self._stamps[path] = _stamp_of(path)
        except OSError:
            pass  # it is not there for a cold start, either

    def _take_folder(self, path):
        self._take_file(path)
        if path in self._stamps and path not in self._names:
            self._names[path] = sorted(filter(_is_module, os.listdir(path)), key=os.fsencode)

    def take_libraries(self, is_installed):
        """Those that this process has mapped, whoever has loaded them. A temporary one may have
        been removed once it was loaded; in the place of an installed one there is another by now.
        """
        with open("/proc/self/maps", "rb") as file:
            paths = {line.split(None, 5)[5].rstrip(b"\n") for line in file if b" /" in line}
        for path in map(os.fsdecode, paths):
            is_gone = path.endswith(" (deleted)")
            path = path.removesuffix(" (deleted)")
            if ".so" not in os.path.basename(path) and path != os.path.realpath(sys.executable):
                continue  # memory of its own, which has a name
            if not is_gone:
                self._take_file(path)
            elif is_installed(path):
                self._stamps[path] = _GONE

    def text(self):
        """For the agent: entries that end with a zero byte, a file's F TIME SIZE INODE PATH, a
        folder's D TIME SIZE INODE PATH, with one more of the names in it, a slash after each."""
        parts = []
        for path, (time, size, inode) in self._stamps.items():
            kind = "D" if path in self._names else "F"
            parts.append(f"{kind} {time} {size} {inode} {path}")
            if path in self._names:
                parts.append("".join(name + "/" for name in self._names[path]))
        return os.fsencode("".join(part + "\0" for part in parts))
