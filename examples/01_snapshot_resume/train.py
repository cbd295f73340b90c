#!/usr/bin/env python3
"""The same job as main.cpp, as a script on plain PyTorch; runs under ddprun and torchrun alike.

Trains on all ranks, saves a snapshot every few epochs, and resumes from the newest one when it is
started again. On SIGTERM, which the launcher sends before it ends a worker, it saves one more.
It imports nothing of ddprun.
"""
import argparse
import contextlib
import io
import os
import re
import signal
import sys
import zlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Sampler, TensorDataset

TEST_EVERY = 5  # every fifth picture is for the test


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("epochs", nargs="?", type=int, default=50, help="epochs in all (50)")
    parser.add_argument("snapshot_interval", nargs="?", type=int, default=10,
                        help="epochs between two snapshots (10)")
    parser.add_argument("--data", default=os.environ.get("DDPRUN_DIGITS") or ".cache/digits.csv",
                        help="the digits ($DDPRUN_DIGITS, else .cache/digits.csv)")
    parser.add_argument("--snapshot-dir", default="snapshots",
                        help="where snapshots are kept; the same for all nodes (snapshots)")
    parser.add_argument("--batch-size", type=int, default=64,
                        help="samples of each rank in a step (64)")
    parser.add_argument("--seed", type=int, default=0,
                        help="decides the first weights and every shuffle (0)")
    parser.add_argument("--tell-samples", action="store_true",
                        help="say of each step which pictures it takes")
    parser.add_argument("--init-method", default="env://",
                        help="tcp://IP:PORT of rank 0, with --rank and --world-size (env://)")
    parser.add_argument("--rank", type=int, default=-1)
    parser.add_argument("--world-size", type=int, default=-1)
    return parser.parse_args()


def read_digits(path):
    """Reads pictures of 8x8 pixels and their digits: (train, test)."""
    try:
        with open(path) as file:
            rows = [[int(number) for number in line.split(",")] for line in file]
    except OSError as error:
        sys.exit(f"train.py: cannot read the digits {path}: {error.strerror}; ./tests/setup makes "
                 ".cache/digits.csv, --data or DDPRUN_DIGITS says where it is")
    except ValueError as error:
        sys.exit(f"train.py: {path}: {error}; run ./tests/setup to create it again")
    table = torch.tensor(rows)
    images = (table[:, :-1].float() / 16).reshape(-1, 1, 8, 8)
    labels = table[:, -1]
    test = torch.arange(len(rows)) % TEST_EVERY == 0
    return TensorDataset(images[~test], labels[~test]), TensorDataset(images[test], labels[test])


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.digit = nn.Linear(32 * 4 * 4, 10)

    def forward(self, images):
        values = functional.relu(self.first(images))
        values = functional.relu(self.second(values))
        values = functional.max_pool2d(values, 2)
        return functional.log_softmax(self.digit(values.flatten(1)), 1)


class RestOfEpoch(Sampler):
    """DistributedSampler's order without its first `used` samples, which all ranks together have
    used. However many ranks there were, no sample is lost, and only the padding at the end repeats.
    """
    def __init__(self, count, seed):
        self.whole = DistributedSampler(range(count), num_replicas=1, rank=0, seed=seed)
        self.used = 0

    def set_place(self, epoch, used):
        self.whole.set_epoch(epoch)
        self.used = used

    def __len__(self):
        return -(-(len(self.whole) - self.used) // dist.get_world_size())

    def __iter__(self):
        order, ranks = list(self.whole), dist.get_world_size()
        first = self.used + dist.get_rank()
        return iter([order[(first + turn * ranks) % len(order)] for turn in range(len(self))])


class Snapshots:
    """Snapshot files in one folder for all nodes; rank 0 reads and writes them. A file is complete
    or absent.

    Opening the folder takes the next generation and creates a claim file for it. A late worker of
    an old round has an older generation: its save is refused, and a file that it is writing at that
    moment never counts as the newest. The name contains the checksum, so that a damaged file is
    detected and the one before it is used.
    """
    NAME = re.compile(r"snapshot-(\d+)-(\d+)-([0-9a-f]{8})\.pt")
    KEEP = 3

    def __init__(self, folder):
        self.folder = folder
        self.damaged = set()  # they do not count as one of the KEEP
        os.makedirs(folder, exist_ok=True)
        while True:
            self.generation = 1 + self.newest_generation()
            claim = os.path.join(folder, f"claim-{self.generation:06}")
            try:
                os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                break
            except FileExistsError:
                continue  # another process was faster
        for name in os.listdir(folder):
            number = re.match(r"(?:claim-(\d+)$|snapshot-(\d+)-.*\.tmp$)", name)
            if number and int(number[1] or number[2]) < self.generation:  # an earlier one
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, name))

    def newest_generation(self):
        numbers = [re.match(r"(?:snapshot|claim)-(\d+)", name) for name in os.listdir(self.folder)]
        return max((int(number[1]) for number in numbers if number), default=0)

    def all(self):
        """Returns tuples of (generation, step, path, checksum), oldest first."""
        names = [(name, self.NAME.fullmatch(name)) for name in os.listdir(self.folder)]
        return sorted((int(match[1]), int(match[2]), os.path.join(self.folder, name), match[3])
                      for name, match in names if match)

    def save(self, step, state):
        if self.newest_generation() > self.generation:
            raise RuntimeError(f"{self.folder}: a newer round has taken it over; this one is over")
        buffer = io.BytesIO()
        torch.save(state, buffer)
        data = buffer.getbuffer()
        name = f"snapshot-{self.generation:06}-{step:06}-{zlib.crc32(data):08x}.pt"
        path = os.path.join(self.folder, name)
        temporary = path + ".tmp"  # no other process has this generation
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # frees the space on a full disk
            raise
        folder = os.open(self.folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        files = self.all()
        kept = [file for file in files if file[2] not in self.damaged][-self.KEEP:]
        for file in files:
            if file < kept[0]:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(file[2])
        return path

    def newest(self):
        """Returns (path, state) of the newest undamaged snapshot, or None."""
        files = self.all()
        for _, _, path, checksum in reversed(files):
            with open(path, "rb") as file:
                data = file.read()
            if f"{zlib.crc32(data):08x}" == checksum:
                return path, torch.load(io.BytesIO(data), weights_only=True)
            self.damaged.add(path)
            print(f"snapshot {path} skipped: its bytes do not match their checksum", flush=True)
        if files:
            sys.exit(f"no snapshot in {self.folder} can be read; to begin from the start, move the "
                     "damaged ones away")
        return None


def open_snapshots(folder):
    try:
        return Snapshots(folder)
    except OSError as error:
        sys.exit(f"train.py: cannot use the snapshot folder {folder}: {error.strerror}")


class Job:
    def __init__(self, arguments):
        self.arguments = arguments
        self.rank = dist.get_rank()
        self.network = Network()
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)
        self.epoch, self.step, self.samples_used = 1, 0, 0
        self.snapshots = None  # only on rank 0
        self.unsaved = None  # why the last save failed
        self.is_stopped = False
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, *_):
        self.is_stopped = True

    def any_is_stopped(self):
        """SIGTERM reaches the ranks at different times, but all must save the same step."""
        stopped = torch.tensor([int(self.is_stopped)])
        dist.all_reduce(stopped)
        return stopped.item() > 0

    def resume(self):
        """Loads rank 0's newest snapshot on every rank."""
        found = [None]
        if self.rank == 0:
            self.snapshots = open_snapshots(os.path.abspath(self.arguments.snapshot_dir))
            newest = self.snapshots.newest()
            if newest is None:
                print(f"no snapshot in {self.snapshots.folder}: starting at epoch 1", flush=True)
            else:
                path, found[0] = newest
                epoch, middle = found[0]["epoch"], found[0]["samples_used"]
                if epoch > self.arguments.epochs:
                    print(f"snapshot {path}: all {self.arguments.epochs} epochs are done")
                else:
                    print(f"resuming from snapshot {path} at epoch {epoch}"
                          f"{', in its middle' if middle else ''}", flush=True)
        dist.broadcast_object_list(found, src=0)
        if found[0] is None:
            return
        self.network.load_state_dict(found[0]["network"])
        self.optimizer.load_state_dict(found[0]["optimizer"])
        self.epoch, self.step = found[0]["epoch"], found[0]["step"]
        self.samples_used = found[0]["samples_used"]

    def save(self, epoch, samples_used):
        """A job resumes in `epoch`, after `samples_used` samples of all ranks. If the snapshot
        cannot be written, training continues."""
        if self.snapshots is None:
            return
        state = {"epoch": epoch, "step": self.step, "samples_used": samples_used,
                 "network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}
        try:
            path = self.snapshots.save(self.step, state)
        except OSError as error:
            self.unsaved = f"cannot save a snapshot in {self.snapshots.folder}: {error.strerror}"
            print(self.unsaved, file=sys.stderr, flush=True)
            return
        self.unsaved = None
        print(f"epoch {epoch - 1} | snapshot saved at {path}", flush=True)

    def train(self, pictures):
        """Returns False if it has stopped on request, after a save."""
        parallel = DistributedDataParallel(self.network)
        # The first backward pass of a process fixes the order in which gradients are summed. Run a
        # pass and discard it, so that a resumed run sums as it would have without the interruption.
        functional.nll_loss(parallel(torch.zeros(1, 1, 8, 8)), torch.zeros(1).long()).backward()
        sampler = RestOfEpoch(len(pictures), self.arguments.seed)
        loader = DataLoader(pictures, self.arguments.batch_size, sampler=sampler)
        while self.epoch <= self.arguments.epochs:
            sampler.set_place(self.epoch, self.samples_used)
            indices = iter(list(sampler))
            loss_sum, used = 0.0, 0
            for images, labels in loader:
                self.optimizer.zero_grad()
                loss = functional.nll_loss(parallel(images), labels)
                loss.backward()
                self.optimizer.step()
                loss_sum += loss.item() * len(labels)
                used += len(labels)
                self.step += 1
                if self.arguments.tell_samples:
                    samples = " ".join(str(next(indices)) for _ in labels)
                    print(f"[rank {self.rank}] epoch {self.epoch} step {self.step} | samples "
                          f"{samples}", flush=True)
                if used < len(sampler) and self.any_is_stopped():
                    self.save(self.epoch, self.samples_used + used * dist.get_world_size())
                    return False
            print(f"[rank {self.rank}] epoch {self.epoch} | loss {loss_sum / len(sampler):.4f} | "
                  f"{len(sampler)} samples", flush=True)
            stops, is_last = self.any_is_stopped(), self.epoch == self.arguments.epochs
            if stops or is_last or self.epoch % self.arguments.snapshot_interval == 0:
                self.save(self.epoch + 1, 0)
            if stops and not is_last:
                return False
            self.epoch, self.samples_used = self.epoch + 1, 0
        return True

    def test(self, pictures):
        """Each rank tests its share of the pictures, so that none is counted twice."""
        images, labels = pictures[self.rank::dist.get_world_size()]
        with torch.no_grad():
            right = (self.network(images).argmax(1) == labels).sum()
        dist.all_reduce(right)
        if self.rank == 0:
            checksum = 0
            for parameter in self.network.parameters():
                checksum = zlib.crc32(parameter.detach().numpy().tobytes(), checksum)
            print(f"model checksum {checksum:08x}")
            print(f"accuracy {right.item() / len(pictures):.4f} "
                  f"({right.item()} of {len(pictures)} test pictures)", flush=True)


def main():
    arguments = parse_arguments()
    training, testing = read_digits(arguments.data)
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    dist.init_process_group("gloo", init_method=arguments.init_method, rank=arguments.rank,
                            world_size=arguments.world_size)
    job = Job(arguments)
    job.resume()
    is_done = job.train(training)
    if is_done:
        job.test(testing)
    dist.barrier()
    dist.destroy_process_group()
    if job.unsaved is not None:
        return 1  # without the last snapshot the job is not complete
    return 0 if is_done else 128 + signal.SIGTERM


if __name__ == "__main__":
    status = main()
    # PyTorch's DistributedDataParallel (2.11, 2.15) keeps Gloo's threads alive, and they abort one
    # worker in sixty while Python shuts down ("terminate called without an active exception").
    # Everything is written and synced by now, so skip Python's shutdown.
    sys.stdout.flush()
    os._exit(status)
