"""Scripts of ranks that wait for each other in a collective, without PyTorch: they use a package
named torch whose all_reduce waits for the other ranks by files in the test's folder.

`write` creates them in a folder. The test provides what a rank does in a step: lines of `work`,
which become the function `forward`.
"""

import textwrap

COLLECTIVE = '''
    import os
    import time

    FOLDER = os.environ["DDPRUN_TEST_CONTROL"]


    def all_reduce(step, limit):
        """Raises what Gloo says when another rank does not come."""
        world = int(os.environ["WORLD_SIZE"])
        attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
        open(f"{FOLDER}/step.{attempt}.{step}.{os.environ['RANK']}", "w").close()
        until = time.monotonic() + limit
        while not all(os.path.exists(f"{FOLDER}/step.{attempt}.{step}.{rank}")
                      for rank in range(world)):
            if time.monotonic() > until:
                raise RuntimeError("[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] "
                                   "Timed out waiting 1000ms for recv operation to complete")
            time.sleep(0.02)
'''

SCRIPT = '''
    import os
    import signal
    import sys
    import time
    from pathlib import Path
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/packages")
    from torch.distributed.distributed_c10d import all_reduce

    rank = int(os.environ["RANK"])
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    folder = Path(os.environ["DDPRUN_TEST_CONTROL"])
    limit = {limit} if attempt == 0 else {later_limit}


    def note(name):
        (folder / f"{{name}}.{{attempt}}.{{rank}}").touch()


    def forward(step):
    {work}


    for step in range({steps}):
        forward(step)
        all_reduce(step, limit)
    print(f"attempt {{attempt}} has ended well", flush=True)
'''


def write(folder, work, steps=2, limit=3600, later_limit=None):
    """`limit`: the seconds that a rank waits for the others; `later_limit`: the same after a
    restart."""
    package = folder / "packages" / "torch" / "distributed"
    package.mkdir(parents=True)
    for name in (package.parent, package):
        (name / "__init__.py").touch()
    (package / "distributed_c10d.py").write_text(textwrap.dedent(COLLECTIVE))
    script = folder / "train.py"
    lines = textwrap.indent(textwrap.dedent(work).strip("\n"), " " * 4)
    script.write_text(textwrap.dedent(SCRIPT).format(
        work=lines, steps=steps, limit=limit, later_limit=later_limit or limit))
    return script


def line_of(script, text):
    """Returns the number of the only line that contains this text."""
    (number,) = [number for number, line in enumerate(script.read_text().splitlines(), 1)
                 if text in line]
    return number
