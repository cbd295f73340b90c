"""ddprun starts distributed PyTorch training. It is a program: this package finds it, and has one
function for scripts, `progress`."""

import os
import sys
import sysconfig


def program(name="ddprun"):
    """Where pip has put ddprun, ddprun-rendezvous or ddprun-nccl-id."""
    package = os.path.dirname(os.path.abspath(__file__))
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", vars={"base": sys.base_prefix}),  # seen from a venv above it
        sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user")),
        os.path.join(os.path.dirname(package), "bin"),  # pip install --target
    ]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(f"{name} is in none of {', '.join(folders)}: install ddprun again")


def progress(step):
    """Says to the ddprun that has started this worker how far it is: the number of a step. Under
    another launcher, or where nobody looks, it does nothing; it never raises for want of a file."""
    path = os.environ.get("DDPRUN_PROGRESS")
    if path:
        try:
            with open(path, "w") as file:
                file.write(f"{int(step)}\n")
        except OSError:
            pass
