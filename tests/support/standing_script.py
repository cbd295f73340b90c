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
        """Raises what Gloo says when another rank does not come. The limit counts from when all are
        at this step, however far apart the machine lets them start."""
        attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
        until = None

        def all_are(word):
            return all(os.path.exists(f"{FOLDER}/{word}.{attempt}.{step}.{rank}")
                       for rank in range(int(os.environ["WORLD_SIZE"])))

        open(f"{FOLDER}/step.{attempt}.{step}.{os.environ['RANK']}", "w").close()
        while not all_are("step"):
            if until is None and all_are("at"):
                until = time.monotonic() + limit
            if until is not None and time.monotonic() > until:
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
        (folder / f"at.{{attempt}}.{{step}}.{{rank}}").touch()
        forward(step)
        all_reduce(step, limit)
    print(f"attempt {{attempt}} has ended well", flush=True)
'''


def write(folder, work, steps=2, limit=3600, later_limit=None):
    """`limit`: the seconds that a rank waits for the others, from when all are at the same step;
    `later_limit`: the same after a restart."""
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
