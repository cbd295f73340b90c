"""Runs the programs of programs/ as a launcher would, and saves what a rank wrote to stderr.

    .venv/bin/python tests/launcher/report/corpus/make.py [NAME...]

Each program's first line gives the number of ranks, the rank whose output is saved, and variables:
    # ranks=2 keep=0 PYTHONFAULTHANDLER=1
One with gpus=1 needs an NVIDIA GPU, which its ranks share, and is skipped if there is none.

A rank is a fork of this process, which has imported PyTorch once; the interpreter runs the program
as its main file. It prints how each rank ended, for answers.txt. Paths of this machine are
replaced.
"""

import ctypes
import faulthandler
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed  # noqa: F401
import torch.utils.data  # noqa: F401

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3]))
from tests.support.ports import free_port  # noqa: E402

PLACES = [
    (re.compile(r"/[^\s\"']*/lib/python3\.(\d+)/site-packages/"),
     r"/opt/venv/lib/python3.\1/site-packages/"),
    (re.compile(r"/[^\s\"']*/bin/python3?\b"), "/opt/venv/bin/python"),
    (re.compile(r"/[^\s\"']*/(tests/launcher/report/corpus/)"), r"\1"),
]


def run_main(script, values, errors):
    """Runs in a fork, and never returns."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(values)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    if "PYTHONFAULTHANDLER" in values:
        faulthandler.enable()
    sys.path[0] = str(script.parent)
    sys.argv = [str(script)]
    main = sys.modules["__main__"].__dict__
    for name in [name for name in main if not name.startswith("__")]:
        if name not in ("ctypes", "sys", "script"):
            del main[name]
    main["__file__"] = str(script)
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(str(script).encode(), b"r"))
    failed = ctypes.pythonapi.PyRun_SimpleFileExFlags(file, str(script).encode(), 1, None)
    sys.exit(1 if failed else 0)


def run(program):
    text = program.read_text()
    wanted = dict(re.findall(r"(\w+)=(\S+)", text.splitlines()[0]))
    ranks, keep = int(wanted.pop("ranks", 1)), int(wanted.pop("keep", 0))
    if int(wanted.pop("gpus", 0)) > 0 and not Path("/dev/nvidia0").exists():
        print(f"{program.stem}: left out: no NVIDIA GPU is here", flush=True)
        return
    port = free_port()
    # No context manager, because a fork that exits would leave it, too.
    folder = tempfile.mkdtemp()
    script = Path(folder, "train.py")
    script.write_text(text.split("\n", 1)[1])
    workers = []
    for rank in range(ranks):
        values = dict(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
                      LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), OMP_NUM_THREADS="1", **wanted)
        workers.append(os.fork())
        if workers[-1] == 0:
            run_main(script, values, os.path.join(folder, f"stderr.{rank}"))
    ends = [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]
    words = Path(folder, f"stderr.{keep}").read_bytes()
    shutil.rmtree(folder)
    words = words.decode(errors="replace").replace(folder + "/", "/home/user/job/")
    for place, instead in PLACES:
        words = place.sub(instead, words)
    (HERE / (program.stem + ".txt")).write_bytes(words.encode())
    end = ends[keep]
    print(f"{program.stem}: {'exit ' + str(end) if end >= 0 else 'signal ' + str(-end)}",
          flush=True)


if __name__ == "__main__":
    for each in sorted((HERE / "programs").glob("*.py")):
        if not sys.argv[1:] or each.stem in sys.argv[1:]:
            run(each)
