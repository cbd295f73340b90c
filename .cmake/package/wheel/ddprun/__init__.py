"""ddprun starts distributed PyTorch training. It is a program: this package finds it, and has four
functions for scripts, `progress`, `survive`, `init_process_group` and `settle`, and a module,
`ddprun.vault`."""

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


def survive(train, state=None):
    """Calls train(), and again for each round in which this process lives on, with the environment
    of that round (RANK, WORLD_SIZE, MASTER_ADDR, ...): with `ddprun --survivors=on`, after another
    worker's failure. train() begins with init_process_group(); what it finds in the process from an
    earlier call, such as a model, is as it was left. Returns what train() returns. Under another
    launcher, or without that option, it calls train() once.

    A worker in a group of NCCL lives on only if `state` says what it is to go on from: "loaded" if
    train() sets all of it anew, as from a snapshot; "stepped" if nothing but the steps of
    torch.optim's optimizers changes it (no buffers of BatchNorm that DDP broadcasts). With
    "stepped" each such step waits until the GPU has reduced its gradients. For anything else,
    settle() does that."""
    from ddprun import survivors
    return survivors.survive(train, state)


def init_process_group(backend=None, init_method=None, timeout=None, **others):
    """In train(), in place of torch.distributed.init_process_group(): a worker that lives on keeps
    its default process group, which is connected to the ranks of the new round. The group is the
    same object as before, and so whatever holds it goes on; groups of new_group() are made anew.
    Call it in every round: until then is_initialized() is false, also where a group is kept.

    That takes PyTorch 2.14 or newer, and the backend "gloo" without other arguments than timeout
    (and init_method, if it is "env://"). With anything else, and under another launcher, the group
    is made anew, as by torch's own function, which gets all arguments."""
    from ddprun import groups
    if init_method not in (None, "env://"):  # what torch's own function does without it
        others["init_method"] = init_method
    groups.init_process_group(backend, timeout, others)


def settle():
    """In train(): waits until each GPU of this process has done what was asked of it, and raises an
    error, which train() lets through, if the round has ended by then. What collectives of NCCL have
    written before it is whole. Where no worker lives on, it does nothing."""
    from ddprun import survivors
    survivors.settle()
