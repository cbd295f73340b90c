"""The GPUs that programs see here, counted without CUDA."""

import os
from pathlib import Path


def visible_gpus():
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    there = len([node for node in Path("/dev").glob("nvidia[0-9]*")])
    if listed is None or there == 0:
        return there
    return min(there, len([one for one in listed.split(",") if one.strip()]))
