#!/usr/bin/env python3
"""The same program as main.cpp, as a plain PyTorch script, modelled on its ImageNet example.

torchrun or ddprun starts one process for each worker. With --multiprocessing-distributed, start one
process for each node, which spawns its workers itself; --world-size and --rank then count nodes.
"""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

FIRST_IMAGE, FIRST_TEST_IMAGE = 1_000_000, 2_000_000_000
SHAPES = {"resnet18": (False, (2, 2, 2, 2)), "resnet50": (True, (3, 4, 6, 3)),
          "resnet101": (True, (3, 4, 23, 3))}


def parse_arguments():
    parser = argparse.ArgumentParser(description="trains a ResNet on images that it makes itself")
    parser.add_argument("-a", "--arch", default="resnet18", choices=SHAPES)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("-b", "--batch-size", type=int, default=16, help="of each rank")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--test-images", type=int, default=128)
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("-p", "--print-freq", type=int, default=10)
    parser.add_argument("-j", "--workers", type=int, default=0, help="of the data loader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", help="a file: saved there after each epoch, and gone on from")
    parser.add_argument("--dist-url", "--init-method", default="env://")
    parser.add_argument("--world-size", type=int, default=-1)
    parser.add_argument("--rank", type=int, default=-1)
    parser.add_argument("--multiprocessing-distributed", action="store_true")
    parser.add_argument("--workers-per-node", type=int, default=torch.cuda.device_count() or 2,
                        help="with --multiprocessing-distributed")
    return parser.parse_args()


def convolution(channels_in, channels_out, kernel, stride=1):
    return nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False)


def projection(channels_in, channels_out, stride):
    if channels_in == channels_out and stride == 1:
        return None
    return nn.Sequential(convolution(channels_in, channels_out, 1, stride),
                         nn.BatchNorm2d(channels_out))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, channels_in, width, stride):
        super().__init__()
        downsample = projection(channels_in, width, stride)
        self.conv1, self.bn1 = convolution(channels_in, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, images):
        values = functional.relu(self.bn1(self.conv1(images)), inplace=True)
        values = self.bn2(self.conv2(values))
        values += self.downsample(images) if self.downsample else images
        return functional.relu(values, inplace=True)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels_in, width, stride):
        super().__init__()
        channels_out = width * self.expansion
        downsample = projection(channels_in, channels_out, stride)
        self.conv1, self.bn1 = convolution(channels_in, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = convolution(width, channels_out, 1), nn.BatchNorm2d(channels_out)
        self.downsample = downsample

    def forward(self, images):
        values = functional.relu(self.bn1(self.conv1(images)), inplace=True)
        values = functional.relu(self.bn2(self.conv2(values)), inplace=True)
        values = self.bn3(self.conv3(values))
        values += self.downsample(images) if self.downsample else images
        return functional.relu(values, inplace=True)


class ResNet(nn.Module):
    def __init__(self, architecture, classes):
        super().__init__()
        is_bottleneck, blocks = SHAPES[architecture]
        self.block = Bottleneck if is_bottleneck else BasicBlock
        self.channels = 64
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = self.make_layer(64, blocks[0], 1)
        self.layer2 = self.make_layer(128, blocks[1], 2)
        self.layer3 = self.make_layer(256, blocks[2], 2)
        self.layer4 = self.make_layer(512, blocks[3], 2)
        self.fc = nn.Linear(self.channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def make_layer(self, width, blocks, stride):
        layer = []
        for number in range(blocks):
            layer.append(self.block(self.channels, width, stride if number == 0 else 1))
            self.channels = width * self.block.expansion
        return nn.Sequential(*layer)

    def forward(self, images):
        values = functional.relu(self.bn1(self.conv1(images)), inplace=True)
        values = functional.max_pool2d(values, 3, 2, 1)
        values = self.layer4(self.layer3(self.layer2(self.layer1(values))))
        return self.fc(values.mean((2, 3)))


class SyntheticImages(Dataset):
    """Noise with a coarse pattern for each class."""

    def __init__(self, count, size, classes, first):
        self.count, self.size, self.classes, self.first = count, size, classes, first
        self.generator = torch.Generator()
        patterns = torch.randn(classes, 3, 4, 4, generator=torch.Generator().manual_seed(1))
        self.patterns = functional.interpolate(patterns, (size, size))

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.generator.manual_seed(self.first + index)
        label = index % self.classes
        noise = torch.randn(3, self.size, self.size, generator=self.generator)
        return noise + self.patterns[label], label


class Meter:
    """A running average; Meters.averages() averages it over all ranks."""

    def __init__(self):
        self.last = self.sum = self.weight = 0.0

    def add(self, value, weight=1):
        self.last, self.sum, self.weight = value, self.sum + value * weight, self.weight + weight


class Meters:
    NAMES = "time", "data", "loss", "top1", "top5"

    def __init__(self, device):
        self.device = device
        self.time, self.data, self.loss, self.top1, self.top5 = (Meter() for _ in self.NAMES)

    def add(self, answers, labels, loss):
        found = answers.topk(5, 1)[1] == labels.unsqueeze(1)
        samples = len(labels)
        self.loss.add(loss, samples)
        self.top1.add(100 * found[:, :1].sum().item() / samples, samples)
        self.top5.add(100 * found.sum().item() / samples, samples)

    def averages(self):
        """Returns the averages over all ranks. All ranks must call it."""
        meters = [getattr(self, name) for name in self.NAMES]
        sums = torch.tensor([[meter.sum, meter.weight] for meter in meters],
                            dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return dict(zip(self.NAMES, (sums[:, 0] / sums[:, 1]).tolist()))

    def tell(self, epoch, step, steps):
        average = self.averages()
        if dist.get_rank() == 0:
            print(f"Epoch: [{epoch}][{step}/{steps}]  "
                  f"Time {average['time']:.3f} ({self.time.last:.3f})  "
                  f"Data {average['data']:.3f} ({self.data.last:.3f})  "
                  f"Loss {average['loss']:.4f} ({self.loss.last:.4f})  "
                  f"Acc@1 {average['top1']:.2f} ({self.top1.last:.2f})  "
                  f"Acc@5 {average['top5']:.2f} ({self.top5.last:.2f})", flush=True)


def train(parallel, loader, optimizer, device, epoch, given):
    parallel.train()
    loader.sampler.set_epoch(epoch)
    rate = given.lr * 0.1 ** ((epoch - 1) // max(1, given.epochs // 3))
    for group in optimizer.param_groups:
        group["lr"] = rate
    found = Meters(device)
    start = time.perf_counter()
    for step, (images, labels) in enumerate(loader, 1):
        images, labels = images.to(device), labels.to(device)
        found.data.add(time.perf_counter() - start)
        optimizer.zero_grad()
        answers = parallel(images)
        loss = functional.cross_entropy(answers, labels)
        loss.backward()
        optimizer.step()
        found.add(answers.detach(), labels, loss.item())
        found.time.add(time.perf_counter() - start)
        if step % given.print_freq == 0 or step == len(loader):
            found.tell(epoch, step, len(loader))
        start = time.perf_counter()


@torch.no_grad()
def test(network, loader, device):
    network.eval()
    found = Meters(device)
    for images, labels in loader:
        labels = labels.to(device)
        answers = network(images.to(device))
        found.add(answers, labels, functional.cross_entropy(answers, labels).item())
    average = found.averages()
    if dist.get_rank() == 0:
        print(f" *   Loss {average['loss']:.4f}  Acc@1 {average['top1']:.2f}  "
              f"Acc@5 {average['top5']:.2f}", flush=True)


def save(path, state):
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def work(local_rank, given):
    """Runs one worker. `local_rank` is None if a launcher has started it."""
    place = {}
    if local_rank is None:
        local_rank = int(os.environ.get("LOCAL_RANK", 0))
        place = {"rank": given.rank, "world_size": given.world_size}
    else:
        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(max(1, os.cpu_count() // given.workers_per_node))
        place = {"rank": given.rank * given.workers_per_node + local_rank,
                 "world_size": given.world_size * given.workers_per_node}
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    torch.manual_seed(given.seed)
    dist.init_process_group("nccl" if has_gpu else "gloo", init_method=given.dist_url, **place)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    network = ResNet(given.arch, given.classes).to(device)
    optimizer = torch.optim.SGD(network.parameters(), given.lr, given.momentum,
                                weight_decay=given.weight_decay)
    first_epoch = 1
    if given.resume and os.path.exists(given.resume):
        state = torch.load(given.resume, map_location=device, weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        first_epoch = state["epoch"]
        if rank == 0:
            print(f"resuming from {given.resume} at epoch {first_epoch}", flush=True)
    parallel = DistributedDataParallel(network, [local_rank] if has_gpu else None)
    images = SyntheticImages(given.images, given.image_size, given.classes, FIRST_IMAGE)
    loader = DataLoader(images, given.batch_size, num_workers=given.workers,
                        sampler=DistributedSampler(images, seed=given.seed))
    images = SyntheticImages(given.test_images, given.image_size, given.classes, FIRST_TEST_IMAGE)
    share = Subset(images, range(rank, given.test_images, world_size))
    test_loader = DataLoader(share, given.batch_size, num_workers=given.workers)
    for epoch in range(first_epoch, given.epochs + 1):
        start = time.perf_counter()
        train(parallel, loader, optimizer, device, epoch, given)
        seconds = time.perf_counter() - start
        test(network, test_loader, device)
        if rank == 0:
            seen = len(loader.sampler) * world_size
            print(f"Epoch: [{epoch}] took {seconds:.2f} s, {seen / seconds:.1f} images/s",
                  flush=True)
            if given.resume:
                save(given.resume, {"epoch": epoch + 1, "network": network.state_dict(),
                                    "optimizer": optimizer.state_dict()})
    dist.barrier()
    dist.destroy_process_group()
    # PyTorch 2.11 may abort a worker that used Gloo and DDP while Python shuts down.
    sys.stdout.flush()
    os._exit(0)


def main():
    given = parse_arguments()
    if given.multiprocessing_distributed:
        mp.spawn(work, nprocs=given.workers_per_node, args=(given,))
    else:
        work(None, given)


if __name__ == "__main__":
    main()
