# ranks=1 PYTHONFAULTHANDLER=1
import ctypes

import numpy


def step():
    ctypes.string_at(0)


step()
