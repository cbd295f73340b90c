"""ddprun starts distributed PyTorch training. It is a program: this package finds it, and has two
functions for scripts, `progress` and `survive`."""

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


def survive(train):
    """Calls train(), and again for each round in which this process lives on, with the environment
    of that round (RANK, WORLD_SIZE, MASTER_ADDR, ...): with `ddprun --survivors=on`, after another
    worker's failure. train() begins with init_process_group(); what it finds in the process from an
    earlier call, such as a model, is as it was left. Returns what train() returns. Under another
    launcher, or without that option, it calls train() once."""
    from ddprun import survivors
    return survivors.survive(train)
