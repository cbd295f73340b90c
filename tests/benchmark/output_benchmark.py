"""The output of workers through ddprun and through torchrun, in one run on one machine: MB/s of two
workers that write as fast as they can, compared with cat.

What comes out goes through a pipe to a reader that only counts. Each figure is the median of
alternating rounds; the spread in brackets is the interquartile range. Run it by
`tests/benchmark/run output`, never beside tests.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("DDPRUN_BUILD", ROOT / "build")).resolve() / "bin"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
LINES = 2_000_000
WORKERS = 2
ROUNDS = 5


def summary(values):
    middle = statistics.median(values)
    low, _, high = statistics.quantiles(values, n=4)
    return f"{middle:.0f} MB/s [{low:.0f} to {high:.0f}, n={len(values)}]"


def seconds(command):
    """The seconds from the first byte to the end, so that the start of a launcher does not
    count."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    reader = process.stdout.fileno()
    os.read(reader, 1)
    begin = time.perf_counter()
    while os.read(reader, 1 << 20):
        pass
    spent = time.perf_counter() - begin
    if process.wait() != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return spent


def main():
    folder = Path(tempfile.mkdtemp())
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    text = folder / "text"
    with open(text, "w") as file:
        for number in range(LINES):
            file.write(f"line {number:09} of some training output with loss 0.1234 and more\n")
    logs = folder / "logs"
    size = WORKERS * text.stat().st_size / 1e6
    workers = [f"--nproc-per-node={WORKERS}", "--no-python", "cat", text]
    tee = ["--tee=3", f"--log-dir={logs}"]
    commands = {
        "cat of both": ["cat", *[text] * WORKERS],
        # A single worker's bytes have no prefix and pass as they come.
        "ddprun, 1 worker": [BIN / "ddprun", "--nproc-per-node=1", "--no-python", "cat", text],
        "ddprun": [BIN / "ddprun", *workers],
        "ddprun --tee=3": [BIN / "ddprun", *tee, *workers],
        "torchrun --tee=3": [*TORCHRUN, *tee, *workers],
    }
    figures = {name: [] for name in commands}
    try:
        for _ in range(ROUNDS):
            for name, command in commands.items():
                share = 1 / WORKERS if name == "ddprun, 1 worker" else 1
                figures[name].append(size * share / seconds(command))
                shutil.rmtree(logs, ignore_errors=True)
    finally:
        shutil.rmtree(folder)
    print(f"{WORKERS} workers, {size:.0f} MB in lines of 65 bytes, to a pipe")
    for name, values in figures.items():
        print(f"  {name:20} {summary(values)}")
    middle = {name: statistics.median(values) for name, values in figures.items()}
    print(f"  ddprun / torchrun    {middle['ddprun --tee=3'] / middle['torchrun --tee=3']:.1f} x")


if __name__ == "__main__":
    main()
