#!/usr/bin/env python3
"""Says what of a program an old system does not have: symbols of a glibc that is newer than a given
one, and libraries beside glibc's. Prints each as PROGRAM: WHAT, exits 1 if any.

    check_glibc.py [--newest 2.28] PROGRAM...

What auditwheel does for wheels, and stricter: of the libraries that manylinux allows
(https://peps.python.org/pep-0600) ours need those of glibc alone.
"""

import argparse
import re
import subprocess
import sys

LIBRARIES = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux-[\w-]+)\.so\.\d+")
VERSION = re.compile(r"GLIBC_(\d+(?:\.\d+)*)")
# OBJDUMP -T: address, flags, section, size, version (in parentheses: not the default one), name.
UNDEFINED = re.compile(r"\*UND\*\s+[0-9a-f]+\s+\(?([\w.]+)\)?\s+(\S+)$", re.M)


def numbers(version):
    return tuple(int(part) for part in version.split("."))


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout


def required(program):
    """(symbol, version) of each symbol that a library has to have in that version."""
    table = output_of("objdump", "-T", program)
    pairs = {(name, version) for version, name in UNDEFINED.findall(table) if version != "Base"}
    # The loader asks for these first, among them versions of no symbol (GLIBC_ABI_DT_RELR).
    needs = output_of("readelf", "--wide", "--version-info", program)
    versions = set(re.findall(r"Name: (\S+)\s+Flags", needs))
    return pairs | {("the program", version) for version in versions - {v for _, v in pairs}}


def problems(program, newest):
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "--dynamic", program)):
        if not LIBRARIES.fullmatch(name):
            yield f"needs the library {name}"
    for name, version in sorted(required(program)):
        known = VERSION.fullmatch(version)
        if not known:
            yield f"{name} needs the version {version}, which is no number of glibc"
        elif numbers(known[1]) > numbers(newest):
            yield f"{name} needs glibc {known[1]}, newer than {newest}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--newest", default="2.28")
    parser.add_argument("programs", nargs="+")
    arguments = parser.parse_args()
    found = [f"{program}: {what}" for program in arguments.programs
             for what in problems(program, arguments.newest)]
    print("\n".join(found), end="\n" if found else "")
    if found:
        sys.exit("see rendezvous/glibc for how a program does without what is new")


if __name__ == "__main__":
    main()
