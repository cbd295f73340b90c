#!/usr/bin/env python3
"""The same program as main.cpp, as a plain PyTorch script with its own transformer modules."""
import argparse
import collections
import contextlib
import os
import re
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SHAPES = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "medium": (8, 512),
          "base": (12, 768)}
PADDING, UNKNOWN, CLASS, FIRST_WORD = range(4)


def parse_arguments():
    parser = argparse.ArgumentParser(description="trains a BERT encoder to tell texts apart")
    parser.add_argument("--size", default="tiny", choices=SHAPES)
    parser.add_argument("--data", default="/usr/share/common-licenses")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16, help="of each rank, in a pass")
    parser.add_argument("--accumulate", type=int, default=1, help="passes for one step")
    parser.add_argument("--length", type=int, default=32, help="tokens of a sample")
    parser.add_argument("--vocabulary", type=int, default=2000)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bf16-gradients", action="store_true")
    parser.add_argument("--init-method", default="env://", help="tcp://IP:PORT of rank 0")
    parser.add_argument("--rank", type=int, default=-1)
    parser.add_argument("--world-size", type=int, default=-1)
    return parser.parse_args()


def read_paragraphs(path):
    paragraphs = [[]]
    with open(path, "rb") as file:
        for line in file:
            words = re.findall(rb"[a-z]+", line.lower())
            if words:
                paragraphs[-1] += words
            elif paragraphs[-1]:
                paragraphs.append([])
    return paragraphs


def read_classes(folder):
    entries = [entry for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
    classes = collections.defaultdict(list)
    for entry in sorted(entries, key=lambda entry: os.fsencode(entry.name)):
        classes[re.split("[-.]", entry.name)[0]] += read_paragraphs(entry.path)
    return [paragraphs for _, paragraphs in sorted(classes.items())
            if sum(map(len, paragraphs)) >= 1000]


def read_texts(folder, length, vocabulary_max):
    """Returns the numbers of classes and tokens, and the samples for training and for the test."""
    classes = read_classes(folder)
    counts = collections.Counter(word for paragraphs in classes
                                 for words in paragraphs for word in words)
    kept = sorted(counts, key=lambda word: (-counts[word], word))[:vocabulary_max - FIRST_WORD]
    numbers = {word: FIRST_WORD + number for number, word in enumerate(kept)}
    split = [[], []], [[], []]
    for label, paragraphs in enumerate(classes):
        pieces = [words[first:first + length - 1] for words in paragraphs
                  for first in range(0, len(words), length - 1)]
        pieces = [piece for piece in pieces if len(piece) >= 8]
        for number, piece in enumerate(pieces, 1):
            tokens = [CLASS] + [numbers.get(word, UNKNOWN) for word in piece]
            tokens += [PADDING] * (length - len(tokens))
            all_tokens, all_labels = split[number % 5 == 0]
            all_tokens.append(tokens)
            all_labels.append(label)
    return len(classes), FIRST_WORD + len(numbers), *(
        TensorDataset(torch.tensor(tokens), torch.tensor(labels)) for tokens, labels in split)


class Bert(nn.Module):
    def __init__(self, size, vocabulary, length, classes, dropout):
        super().__init__()
        count, width = SHAPES[size]
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout, "gelu", 1e-12,
                                       batch_first=True) for _ in range(count))
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, classes)
        self.dropout = nn.Dropout(dropout)

    @torch.no_grad()
    def initialize(self):
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.02)
            elif "norm" in name and name.endswith("weight"):
                parameter.fill_(1)
            else:
                parameter.zero_()

    def forward(self, tokens):
        values = self.dropout(self.norm(self.words(tokens) + self.positions.weight))
        is_padding = tokens == PADDING
        for layer in self.layers:
            values = layer(values, src_key_padding_mask=is_padding)
        pooled = torch.tanh(self.pooler(values[:, 0]))
        return self.classifier(self.dropout(pooled))


def make_optimizer(network, given):
    decaying = [each for each in network.parameters() if each.dim() > 1]
    others = [each for each in network.parameters() if each.dim() <= 1]
    return torch.optim.AdamW([{"params": decaying, "weight_decay": given.weight_decay},
                              {"params": others, "weight_decay": 0.0}], given.lr)


def rate(step, steps):
    """A factor of the learning rate: it rises during the first tenth of the steps, then falls."""
    warm_up = max(1, steps // 10)
    return min(step / warm_up, (steps - step + 1) / (steps - warm_up + 1))


def train(parallel, loader, optimizer, device, epoch, given):
    """Returns the sums of the loss and of right answers, and the last step's gradient norm."""
    parallel.train()
    loader.sampler.set_epoch(epoch)
    steps = (len(loader) + given.accumulate - 1) // given.accumulate
    step, loss_sum, right = (epoch - 1) * steps, 0.0, 0
    optimizer.zero_grad()
    for number, (tokens, labels) in enumerate(loader, 1):
        tokens, labels = tokens.to(device), labels.to(device)
        is_step = number % given.accumulate == 0 or number == len(loader)
        with contextlib.nullcontext() if is_step else parallel.no_sync():
            answers = parallel(tokens)
            loss = functional.cross_entropy(answers, labels)
            (loss / given.accumulate).backward()
        loss_sum += loss.item() * len(labels)
        right += (answers.argmax(1) == labels).sum().item()
        if not is_step:
            continue
        norm = nn.utils.clip_grad_norm_(parallel.parameters(), given.clip).item()
        step += 1
        for group in optimizer.param_groups:
            group["lr"] = given.lr * rate(step, given.epochs * steps)
        optimizer.step()
        optimizer.zero_grad()
    return loss_sum, right, norm


@torch.no_grad()
def test(network, samples, device, batch_size):
    network.eval()
    tokens, labels = samples[dist.get_rank()::dist.get_world_size()]
    answers = [network(part.to(device)).argmax(1).cpu() for part in tokens.split(batch_size)
               if len(part)]
    right = sum((torch.cat(answers) == labels).tolist()) if answers else 0
    return sums_over_ranks(device, right, len(labels))


def sums_over_ranks(device, *values):
    sums = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(sums)
    return sums.tolist()


def main():
    given = parse_arguments()
    classes, vocabulary, training, testing = read_texts(given.data, given.length, given.vocabulary)
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if has_gpu else "gloo", init_method=given.init_method,
                            rank=given.rank, world_size=given.world_size)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    network = Bert(given.size, vocabulary, given.length, classes, given.dropout)
    torch.manual_seed(given.seed)
    network.initialize()
    network.to(device)
    if rank == 0:
        parameters = sum(each.numel() for each in network.parameters())
        print(f"{classes} classes, {len(training)} samples to train on, {len(testing)} for the "
              f"test; {vocabulary} words; {parameters} parameters", flush=True)
    optimizer = make_optimizer(network, given)
    parallel = DistributedDataParallel(network, [local_rank] if has_gpu else None)
    if given.bf16_gradients:
        parallel.register_comm_hook(None, bf16_compress_hook)
    sampler = DistributedSampler(training, seed=given.seed)
    loader = DataLoader(training, given.batch_size, sampler=sampler)
    torch.manual_seed(given.seed + rank)
    for epoch in range(1, given.epochs + 1):
        start = time.perf_counter()
        loss_sum, right, norm = train(parallel, loader, optimizer, device, epoch, given)
        seconds = time.perf_counter() - start
        print(f"rank {rank} | epoch {epoch} | loss {loss_sum / len(sampler):.4f} | "
              f"gradient norm {norm:.6f}", flush=True)
        loss, right, seen = sums_over_ranks(device, loss_sum, right, len(sampler))
        test_right, tested = test(network, testing, device, given.batch_size)
        if rank == 0:
            print(f"all    | epoch {epoch} | loss {loss / seen:.4f} | accuracy {right / seen:.4f} "
                  f"| test accuracy {test_right / tested:.4f}", flush=True)
            print(f"epoch {epoch} took {seconds:.2f} s, {seen / seconds:.1f} samples/s",
                  flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # PyTorch 2.11 may abort a worker that used Gloo and DDP while Python shuts down.
    sys.stdout.flush()
    os._exit(0)
