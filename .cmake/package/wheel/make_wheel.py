#!/usr/bin/env python3
"""Makes a wheel of programs: pip puts them beside the environment's Python, as those of ninja or
ruff. The format: https://packaging.python.org/en/latest/specifications/binary-distribution-format.

    make_wheel.py --version VERSION --platform TAG --readme FILE --to FOLDER PROGRAM...

The same programs make the same file, byte by byte.
"""

import argparse
import base64
import hashlib
import zipfile
from pathlib import Path

MODULE = Path(__file__).resolve().parent / "ddprun"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip file can name

METADATA = """\
Metadata-Version: 2.1
Name: ddprun
Version: {version}
Summary: Starts distributed PyTorch training and keeps it running: torchrun's command line, in C++
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: System :: Distributed Computing
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: ddprun
Root-Is-Purelib: false
Tag: {tag}
"""


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def add(archive, name, data, mode):
    entry = zipfile.ZipInfo(name, LONG_AGO)
    entry.create_system = 3  # Unix: the mode counts
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)


def files(version, tag, readme, programs):
    """(name in the wheel, bytes, mode) of all but RECORD."""
    for path in sorted(MODULE.glob("*.py")):
        yield f"ddprun/{path.name}", path.read_bytes(), 0o644
    for path in programs:
        yield f"ddprun-{version}.data/scripts/{path.name}", path.read_bytes(), 0o755
    information = f"ddprun-{version}.dist-info"
    yield f"{information}/METADATA", METADATA.format(version=version, readme=readme).encode(), 0o644
    yield f"{information}/WHEEL", WHEEL.format(tag=tag).encode(), 0o644


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--platform", required=True)
    parser.add_argument("--readme", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("programs", type=Path, nargs="+")
    given = parser.parse_args()
    tag = f"py3-none-{given.platform}"
    given.to.mkdir(parents=True, exist_ok=True)
    wheel = given.to / f"ddprun-{given.version}-{tag}.whl"
    # Whole or not there: pip in another shell never finds half of it.
    part = wheel.with_suffix(".part")
    record = f"ddprun-{given.version}.dist-info/RECORD"
    lines = ""
    with zipfile.ZipFile(part, "w") as archive:
        for name, data, mode in files(given.version, tag, given.readme.read_text(), given.programs):
            add(archive, name, data, mode)
            lines += record_line(name, data)
        add(archive, record, f"{lines}{record},,\n".encode(), 0o644)
    part.replace(wheel)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
