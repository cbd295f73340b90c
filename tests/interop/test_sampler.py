"""The C++ distributed sampler compared with PyTorch's, index by index."""

import random
import subprocess

from torch.utils.data.distributed import DistributedSampler

from tests.support.cluster import BIN

# From the workloads: even, padded, cut, shuffled, another epoch, another seed, fewer samples than
# ranks.
CASES = [(8, 4, 1, 0, 0, 0, 0), (10, 4, 2, 0, 0, 0, 0), (10, 4, 2, 0, 1, 0, 0),
         (100, 4, 1, 1, 0, 0, 0), (100, 4, 1, 1, 0, 0, 3), (100, 4, 1, 1, 0, 7, 0),
         (3, 8, 7, 0, 0, 0, 0)]


def some(seed, count):
    chance = random.Random(seed)
    for _ in range(count):
        world_size = chance.randint(1, 17)
        # For PyTorch an empty data set is an error.
        yield (chance.choice([1, 2, 5, 100, 1000]) * chance.randint(1, 9), world_size,
               chance.randrange(world_size), chance.randint(0, 1), chance.randint(0, 1),
               chance.getrandbits(chance.choice([4, 31, 40])), chance.randint(0, 300))


def theirs(length, world_size, rank, shuffle, drop_last, seed, epoch):
    sampler = DistributedSampler(range(length), num_replicas=world_size, rank=rank,
                                 shuffle=bool(shuffle), seed=seed, drop_last=bool(drop_last))
    sampler.set_epoch(epoch)
    return list(sampler)


def test_indices_are_those_of_pytorch():
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    cases = [*CASES, *some(seed, 1000)]
    words = "".join(" ".join(map(str, case)) + "\n" for case in cases)
    lines = subprocess.run([BIN / "sampler_talker"], input=words, capture_output=True, text=True,
                           check=True).stdout.splitlines()
    assert len(lines) == len(cases)
    for case, line in zip(cases, lines):
        assert [int(word) for word in line.split()] == theirs(*case), case
