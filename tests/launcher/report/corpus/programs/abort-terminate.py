# ranks=1
import os
import time

import torch

# What libtorch does in a thread of its own: an exception that nobody catches.
source = """#include <stdexcept>
#include <thread>
void run() { std::thread([] { throw std::runtime_error("no work for this stream"); }).join(); }"""
import ctypes
import subprocess
import tempfile

folder = tempfile.mkdtemp()
subprocess.run(["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", folder + "/own.so"],
               input=source.encode(), check=True)
getattr(ctypes.CDLL(folder + "/own.so"), "_Z3runv")()
