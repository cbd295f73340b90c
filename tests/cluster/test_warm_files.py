"""The list of imported files that a zygote writes for the agent reveals changes of these files."""

import os
import shutil
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.warm_python import environment, learnt, make_agent, packages, script_of


# A change of the package `kit`, of which the script imports `kit.part`, and the file that is
# changed. The agent compares what the zygote has written.
def edit(path):
    def change(kit):
        (kit / path).write_text((kit / path).read_text() + "\n# edited\n")
    return change, path


def same_size(kit):
    (kit / "deep.py").write_text("text = 'new'\n")


def replace(kit):
    """Replaces the file as editors and installers do, even with the same time and size."""
    old = kit / "deep.py"
    (kit / "deep.new").write_text("text = 'new'\n")
    os.utime(kit / "deep.new", ns=(old.stat().st_atime_ns, old.stat().st_mtime_ns))
    (kit / "deep.new").rename(old)


CHANGES = {
    "a module": edit("part.py"), "a package": edit("__init__.py"),
    "imported by it": edit("deep.py"), "its import has failed": edit("failing.py"),
    "the same size": (same_size, "deep.py"), "replaced": (replace, "deep.py"),
    "removed": (lambda kit: (kit / "deep.py").unlink(), "deep.py"),
    "added": (lambda kit: (kit / "missing.py").touch(), ""),
    "a package added": (lambda kit: (kit / "missing").mkdir(), ""),
    "an extension": (lambda kit: os.utime(next(kit.glob("_*.so"))), "_*.so"),
    "a library": (lambda kit: os.utime(kit / "libkit.so.1"), "libkit.so.1"),
    "a library is removed": (lambda kit: (kit / "libkit.so.1").unlink(), "libkit.so.1"),
    "paths": (lambda kit: (kit.parent / "paths.pth").write_text("/nowhere\n"), "../paths.pth"),
}


def make_kit(packages):
    kit = packages / "kit"
    kit.mkdir()
    (packages / "paths.pth").write_text("/nowhere/at/all\n")
    (kit / "__init__.py").write_text("")
    (kit / "deep.py").write_text("text = 'old'\n")
    (kit / "failing.py").write_text("raise ImportError('not here')\n")
    specs = map(find_spec, ("_lsprof", "_queue", "_uuid", "_bz2"))
    natives = [Path(spec.origin) for spec in specs if spec and str(spec.origin).endswith(".so")]
    if not natives:
        pytest.skip("this Python has no extension in a file of its own")
    for name in (natives[0].name, "libkit.so.1"):
        shutil.copy(natives[0], kit / name)
    (kit / "part.py").write_text(textwrap.dedent(f"""\
        import ctypes, kit.deep, kit.{natives[0].name.partition(".")[0]}
        held = ctypes.CDLL({str(kit / "libkit.so.1")!r})
        try:
            import kit.failing
        except ImportError:
            pass
        try:
            import kit.missing
        except ImportError:
            pass
        """))
    return kit


@pytest.mark.parametrize("change, path", CHANGES.values(), ids=CHANGES)
def test_an_imported_file_that_has_changed_is_known(make_agent, packages, tmp_path, change, path):
    kit = make_kit(packages)
    agent = make_agent([script_of(tmp_path, "import kit.part; print(is_warm)\nimport decimal")])
    learnt(agent)
    assert agent.changed() == []
    (named,) = kit.glob(path) if path else [kit]
    change(kit)
    found = agent.changed()
    assert os.path.normpath(named) in found and set(found) <= {os.path.normpath(named), str(kit)}


def test_a_library_that_is_gone_once_it_is_loaded_has_changed_if_it_is_a_packages(
        make_agent, packages, tmp_path):
    kit = make_kit(packages)
    part = kit / "part.py"
    own = kit / "libkit.so.1"
    for library, found in ((tmp_path / "temporary.so", []), (own, [str(own)])):
        if library != own:
            shutil.copy(own, library)
        part.write_text(f"import ctypes, os\nheld = ctypes.CDLL({str(library)!r})\n"
                        f"os.unlink({str(library)!r})\n")
        agent = make_agent([script_of(tmp_path, "import kit.part; import decimal")])
        agent.record = agent.memory_file(b"I kit\nI kit.part\nI decimal\n")
        assert agent.load().startswith("ready ")
        assert not library.exists()
        assert agent.changed() == found


def test_what_imports_leave_in_a_package_is_no_change(make_agent, packages, tmp_path):
    """These are compiled files, which the first import writes, and files that are not modules."""
    kit = make_kit(packages)
    agent = make_agent([script_of(tmp_path, "import kit.part; print(is_warm)\nimport decimal")],
                       PYTHONDONTWRITEBYTECODE="1")
    learnt(agent)
    (kit / "__pycache__").mkdir()
    (kit / "cache.json").touch()
    assert agent.changed() == []


def test_a_folder_of_data_that_is_looked_for_as_a_package_is_none(make_agent, packages, tmp_path):
    """transformers checks whether there is a package `datasets`, and finds the user's folder."""
    kit = make_kit(packages)
    (kit / "part.py").write_text("import importlib.util\n"
                                 "found = importlib.util.find_spec('mydata') is not None\n")
    data = tmp_path / "project" / "mydata"
    data.mkdir(parents=True)
    script = script_of(tmp_path, "import kit.part; print(kit.part.found)\nimport decimal")
    agent = make_agent([script], PYTHONPATH=str(data.parent))
    learnt(agent)
    (data / "shard0").mkdir()
    assert agent.changed() == []
