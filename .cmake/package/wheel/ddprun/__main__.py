"""python -m ddprun: as ddprun, with this very Python for the workers."""

import os
import sys

import ddprun

try:
    path = ddprun.program()
except FileNotFoundError as error:
    sys.exit(f"ddprun: {error}")
os.environ.setdefault("PYTHON_EXEC", sys.executable)
os.execv(path, [path, *sys.argv[1:]])
