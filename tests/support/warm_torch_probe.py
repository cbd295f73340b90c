"""What a script that trains with PyTorch can see of its process, as JSON lines on its output.

"same" contains what is equal in two cold processes, "own" what differs. Only rank 0 tries the
Pythons that multiprocessing spawns, each of which imports PyTorch again.
"""

import sys

IS_WARM = any(hasattr(one, "holds") and one.holds("torch") for one in sys.meta_path)
AT_START = sorted(sys.modules)

import json  # noqa: E402
import multiprocessing  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import warnings  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy  # noqa: E402
import torch  # noqa: E402
import torch.multiprocessing  # noqa: E402

KEPT = {"value": [1]}


def draw():
    return [random.random(), numpy.random.rand(), torch.rand(()).item(),
            numpy.random.default_rng().random()]


def seeded():
    random.seed(7)
    numpy.random.seed(7)
    torch.manual_seed(7)
    return draw()[:3] + torch.randperm(100).tolist() + \
        torch.nn.Linear(3, 3).weight.flatten().tolist()


def add_one(shared, private):
    shared += 1
    private += 1
    KEPT["value"].append(2)
    return private.tolist(), KEPT["value"], __name__


def in_children(method):
    """Passes a shared and a private tensor to a child, and shows a value of this module."""
    shared, private = torch.zeros(4).share_memory_(), torch.zeros(4)
    context = torch.multiprocessing.get_context(method)
    with context.Pool(1) as pool:
        seen = pool.apply(add_one, (shared, private))
    return [seen, shared.tolist(), private.tolist(), KEPT]


def loaded():
    """Batches of a DataLoader's workers, which have seeds of their own."""
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    generator = torch.Generator().manual_seed(3)
    loader = torch.utils.data.DataLoader(data, 2, shuffle=True, num_workers=2, generator=generator)
    return [batch[0].tolist() for batch in loader]


def trained():
    torch.manual_seed(11)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = model(torch.randn(32, 8)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def warned():
    with warnings.catch_warnings(record=True) as caught:
        warnings.warn("one", UserWarning, stacklevel=1)
        torch.range(0, 1)
    return [[one.category.__name__, str(one.message)[:60]] for one in caught]


def multiplied():
    """Multiplies with all threads; returns how many threads numpy and torch have started."""
    square = numpy.ones((1024, 1024))
    (square @ square).sum()
    one = torch.ones(1024, 1024)
    (one @ one).sum()
    torch.ones(2_000_000).exp()
    return len(os.listdir("/proc/self/task"))


def mappings():
    """The writable mappings that are shared with other processes."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line.split(None, 5)[5:] for line in lines if line.split()[1].startswith("rw-s")]


def main():
    own = draw() + [torch.initial_seed()]
    same = {
        "modules": [AT_START, sorted(sys.modules)], "shared mappings": mappings(),
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads(),
                    os.environ.get("OMP_NUM_THREADS")],
        "computing": multiplied(), "processors": sorted(os.sched_getaffinity(0)),
        "parallel": torch.__config__.parallel_info(),
        "defaults": [str(torch.get_default_dtype()), str(torch.get_default_device()),
                     torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(),
                     torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark],
        "cuda": [torch.cuda.is_available(), torch.cuda.is_initialized(),
                 torch.cuda._is_in_bad_fork()],
        "printing": repr(torch._tensor_str.PRINT_OPTS), "numpy": repr(numpy.get_printoptions()),
        "errors": numpy.geterr(), "seeded": seeded(), "trained": trained(), "warned": warned(),
        "filters": [repr(one) for one in warnings.filters],
        "start method": multiprocessing.get_start_method(),
        "strategy": torch.multiprocessing.get_sharing_strategy(),
        "loader": loaded(),
        "fork": in_children("fork"),
    }
    if os.environ["RANK"] == "0":
        same["children"] = {method: in_children(method) for method in ("spawn", "forkserver")}
    print(json.dumps({"warm": IS_WARM, "own": own, "same": same}), flush=True)
    breakpoint()
    print("behind the breakpoint")


if __name__ == "__main__":
    main()
