#!/usr/bin/env python3
"""Shows the C++ program's snapshots, and converts them to PyTorch's own files and back.

    snapshot_files.py show snapshots/snapshot-000001-000240
    snapshot_files.py to-torch snapshots/snapshot-000001-000240 snapshot.pt
    snapshot_files.py from-torch snapshot.pt snapshots/snapshot-000002-000240

The .pt files are those of train.py: epoch, step, and the state_dicts of network and optimizer. A
snapshot made from one is complete for the C++ program, which resumes from it. Needs the packages
torch, safetensors and xxhash.
"""
import json
import re
import sys
from pathlib import Path

import safetensors.torch
import torch
import xxhash
from safetensors import safe_open

MANIFEST = "manifest.json"


def rank_file(folder, rank, *, is_emergency=False):
    """Of an emergency snapshot one rank has written the only file, whichever was left."""
    return Path(folder) / ("survivors.safetensors" if is_emergency
                           else f"rank-{rank:05}.safetensors")


def read(folder):
    """Returns (manifest, tensors, values) of the replicated part; values are texts."""
    manifest = json.loads((Path(folder) / MANIFEST).read_text())
    is_emergency = manifest.get("emergency", False)
    for rank, record in enumerate(manifest["files"]):
        path = rank_file(folder, rank, is_emergency=is_emergency)
        if xxhash.xxh3_64_hexdigest(path.read_bytes()) != record["xxh3"]:
            sys.exit(f"{path} is damaged: its bytes do not match their checksum")
    tensors, values = {}, {}
    # Each of these ranks has written a share.
    for rank in manifest.get("replicated", [0]):
        with safe_open(rank_file(folder, rank, is_emergency=is_emergency), "pt") as file:
            tensors |= {name: file.get_tensor(name) for name in file.keys()
                        if not name.startswith("rank.")}
            values |= {name: text for name, text in (file.metadata() or {}).items()
                       if not name.startswith("rank.") and name != "format"}
    return manifest, tensors, values


def write(folder, tensors, values, *, epoch):
    """Writes one file, and the manifest last, which makes the snapshot valid."""
    match = re.fullmatch(r"snapshot-(\d+)-(\d+)", Path(folder).name)
    if not match:
        sys.exit(f"{folder}: a snapshot is named snapshot-GENERATION-STEP, in six digits or more")
    Path(folder).mkdir(parents=True)
    safetensors.torch.save_file(tensors, rank_file(folder, 0), metadata=values | {"format": "pt"})
    data = rank_file(folder, 0).read_bytes()
    head = {"format": "ddprun snapshot", "version": 3, "generation": int(match[1]),
            "step": int(match[2]), "epoch": epoch, "instance": 0, "round": 1,
            "files": [{"bytes": len(data), "xxh3": xxhash.xxh3_64_hexdigest(data)}]}
    # The last line is the checksum of everything before it.
    text = json.dumps(head)[:-1] + ",\n"
    text += f'  "xxh3": "{xxhash.xxh3_64_hexdigest(text.encode())}"\n}}\n'
    (Path(folder) / MANIFEST).write_text(text)


def show(folder):
    manifest, _, values = read(folder)
    # Manifests up to version 2 call it a tenure.
    generation = manifest.get("generation", manifest.get("tenure"))
    print(f"step {manifest['step']}, epoch {manifest['epoch']}, "
          f"{len(manifest['files'])} ranks, generation {generation}")
    for name, text in values.items():
        print(f"  {name} = {text}")
    for rank in range(len(manifest["files"])):
        path = rank_file(folder, rank, is_emergency=manifest.get("emergency", False))
        with safe_open(path, "pt") as file:
            print(f"{path.name}:")
            for name in sorted(file.keys()):
                tensor = file.get_slice(name)
                print(f"  {name} {tensor.get_dtype()} {tensor.get_shape()}")


def to_torch(folder, path):
    manifest, tensors, values = read(folder)
    network = {name.removeprefix("model."): tensor for name, tensor in tensors.items()
               if name.startswith("model.")}
    state = {}
    for name, tensor in tensors.items():
        if match := re.fullmatch(r"optimizer\.state\.(\d+)\.(\w+)", name):
            state.setdefault(int(match[1]), {})[match[2]] = tensor
    rates = json.loads(values["optimizer.lr"])
    # The program sets the optimizer's other settings: take them from a new optimizer.
    parameters = [torch.nn.Parameter(tensor) for tensor in network.values()]
    optimizer = torch.optim.Adam(parameters, lr=rates[0]).state_dict()
    optimizer["state"] = dict(sorted(state.items()))
    torch.save({"epoch": manifest["epoch"], "step": manifest["step"],
                "samples_used": int(values["samples_used"]),
                "network": network, "optimizer": optimizer}, path)


def from_torch(path, folder):
    saved = torch.load(path, weights_only=True)
    tensors = {f"model.{name}": tensor for name, tensor in saved["network"].items()}
    for index, fields in saved["optimizer"]["state"].items():
        for field, tensor in fields.items():
            tensors[f"optimizer.state.{index}.{field}"] = tensor
    rates = [group["lr"] for group in saved["optimizer"]["param_groups"]]
    write(folder, tensors, {"optimizer.lr": json.dumps(rates),
                            "samples_used": str(saved["samples_used"])}, epoch=saved["epoch"])


def main():
    commands = {"show": (show, 1), "to-torch": (to_torch, 2), "from-torch": (from_torch, 2)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    command, count = commands[sys.argv[1]]
    if len(sys.argv) != 2 + count:
        sys.exit(__doc__)
    command(*sys.argv[2:])


if __name__ == "__main__":
    main()
