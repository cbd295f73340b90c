#!/usr/bin/env python3
"""Measures what a second host gains, and over which network: runs the same training on one node and
on all, over each interface given, and shows the epoch times as a table and as a plot.

On hosts that ssh can reach:

    bench_hosts.py --hosts node-a,node-b --interface eth0 --interface ib0

On this machine alone, as root: two network namespaces stand in for the hosts, with an unlimited
interface eth0 and an interface eth1 that `tc` slows down, by a delay and a rate:

    bench_hosts.py --namespaces --delay 2ms --rate 1gbit
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESNET = HERE.parent / "07_resnet_synthetic" / "resnet.py"
EPOCH = re.compile(r"Epoch: \[(\d+)\] took ([\d.]+) s")


class RunFailed(Exception):
    pass


class RealHosts:
    """Hosts on which `ddprun -H` starts agents."""

    def __init__(self, given):
        self.given = given
        self.names = given.hosts.split(",")
        self.interfaces = {name: name for name in given.interface}

    def line(self, nodes, interface, words):
        hosts = ",".join(f"{name}:{self.given.nproc_per_node}" for name in self.names[:nodes])
        network = ["--network", interface] if interface else []
        return [[self.given.ddprun, "-H", hosts, *self.given.head_options, *network, *words]]

    def close(self):
        pass


class Namespaces:
    """Two network namespaces with two links between them, of which the second is slow."""

    def __init__(self, given):
        self.given = given
        self.names = [f"bench-{os.getpid()}-{number}" for number in range(2)]
        self.interfaces = {"eth0": "eth0"}
        try:
            for name in self.names:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            for link in range(2):
                self.connect(link)
        except BaseException:
            self.close()
            raise

    def connect(self, link):
        device, (one, other) = f"eth{link}", self.names
        ip("-n", one, "link", "add", device, "type", "veth", "peer", "name", device, "netns", other)
        for number, name in enumerate(self.names):
            ip("-n", name, "address", "add", f"10.78.{link}.{number + 1}/24", "dev", device)
            ip("-n", name, "link", "set", device, "up")
            if link == 1:
                self.interfaces[device] = f"{device}, {self.slow_down(name, device)}"

    def slow_down(self, name, device):
        """Limits what is sent there, and returns a description: not every kernel can delay."""
        add = ["tc", "-n", name, "qdisc", "add", "dev", device, "root"]
        delay, rate = self.given.delay, self.given.rate
        try:
            run([*add, "netem", "delay", delay, "rate", rate, "limit", "100000"])
            return f"{rate}, delay {delay}"
        except RunFailed as why:
            print(f"no delay: the kernel lacks sch_netem ({why})", file=sys.stderr)
        run([*add, "tbf", "rate", rate, "burst", "256kb", "latency", "400ms"])
        return rate

    def line(self, nodes, interface, words):
        """Returns one agent's command line for each node."""
        lines = []
        for number in range(nodes):
            meet = ["--standalone"] if nodes == 1 else [
                "--nnodes", str(nodes), "--rdzv-endpoint", "10.78.0.1", "--rdzv-id", "bench",
                "--node-rank", str(number), "--network", interface]
            lines.append(["ip", "netns", "exec", self.names[number], self.given.ddprun,
                          "--nproc-per-node", str(self.given.nproc_per_node), "--node-id",
                          f"node-{number}", *meet, *words])
        return lines

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunFailed(f"{' '.join(words)}: {done.stderr.strip()}")


def ip(*words):
    run(["ip", *words])


def train(lines):
    """Runs one job, with one command for each node, and returns the seconds of its epochs."""
    agents = []
    try:
        for line in lines:
            agents.append(subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                           stderr=subprocess.STDOUT, text=True))
        told = [agent.communicate()[0] for agent in agents]
    finally:
        for agent in agents:
            if agent.poll() is None:
                agent.terminate()
                agent.wait()
    for agent, text in zip(agents, told):
        if agent.returncode != 0:
            raise RunFailed(f"exit code {agent.returncode} of {' '.join(agent.args)}\n{text}")
    seconds = {int(epoch): float(took) for epoch, took in EPOCH.findall("".join(told))}
    if not seconds:
        raise RunFailed("the script has printed no line \"Epoch: [1] took 2.34 s\"\n" + told[0])
    return [seconds[epoch] for epoch in sorted(seconds)]


def measure(hosts, words):
    """Returns [{name, nodes, epochs, median}]: for one node, then for all over each interface."""
    count = len(hosts.names)
    wanted = [("1 node", 1, None)]
    wanted += [(f"{count} nodes, {told}", count, name) for name, told in hosts.interfaces.items()]
    if not hosts.interfaces:
        wanted.append((f"{count} nodes", count, None))
    rows = []
    for name, nodes, interface in wanted:
        print(f"{name} ...", file=sys.stderr, flush=True)
        epochs = train(hosts.line(nodes, interface, words))
        rows.append({"name": name, "nodes": nodes, "epochs": epochs,
                     "median": statistics.median(epochs[1:] or epochs)})
    return rows


def against(first, row):
    return f"{first['median'] / row['median']:.2f}x" if row["median"] > 0 else "-"


def table(rows):
    """Returns Markdown. The median leaves out the first epoch, in which everything is loaded."""
    lines = ["| | each epoch, s | median, s | against 1 node |", "|---|---|---|---|"]
    for row in rows:
        epochs = ", ".join(f"{seconds:.2f}" for seconds in row["epochs"])
        lines.append(f"| {row['name']} | {epochs} | {row['median']:.2f} | "
                     f"{against(rows[0], row)} |")
    return "\n".join(lines) + "\n"


def plot(rows, path):
    import matplotlib  # imported here because the table does not need it

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 1 + 0.6 * len(rows)))
    names = [row["name"] for row in rows]
    bars = axes.barh(names, [row["median"] for row in rows], color="0.75")
    axes.bar_label(bars, fmt="%.2f s", padding=4)
    for place, row in enumerate(rows):
        axes.plot(row["epochs"], [place] * len(row["epochs"]), "k.", markersize=4)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.2 * max(max(row["epochs"]) for row in rows))
    axes.set_xlabel("seconds for an epoch: the median, and each one as a dot")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--hosts", help="NAME,NAME: the first one alone, then all of them")
    where.add_argument("--namespaces", action="store_true", help="two that are made here")
    parser.add_argument("--interface", action="append", default=[],
                        help="of the hosts, to go over; several times")
    parser.add_argument("--delay", default="2ms", help="of eth1, one way, with --namespaces")
    parser.add_argument("--rate", default="1gbit", help="of eth1, with --namespaces")
    parser.add_argument("--nproc-per-node", type=int, default=1)
    parser.add_argument("--ddprun", default=shutil.which("ddprun") or "ddprun")
    parser.add_argument("--head-options", default="", help="more for ddprun -H: '-p 2222 -x NAME'")
    parser.add_argument("--output", type=Path, default=Path("."),
                        help="the folder for epochs.json, epochs.md and epochs.png")
    parser.add_argument("script", nargs="*", default=[],
                        help="and its arguments, behind --; it has to print "
                             "\"Epoch: [1] took 2.34 s\" (07_resnet_synthetic/resnet.py)")
    given = parser.parse_args(words)
    given.head_options = given.head_options.split()
    given.script = given.script or [str(RESNET)]
    if given.namespaces and given.interface:
        parser.error("--interface is for --hosts; with --namespaces these are eth0 and eth1")
    if given.hosts and len(given.hosts.split(",")) < 2:
        parser.error("--hosts: name two or more")
    return given


def main():
    given = parse_arguments()
    hosts = None
    try:
        hosts = Namespaces(given) if given.namespaces else RealHosts(given)
        rows = measure(hosts, given.script)
    except (RunFailed, OSError) as why:
        sys.exit(f"bench_hosts: {why}")
    finally:
        if hosts is not None:
            hosts.close()
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "epochs.json").write_text(json.dumps(rows, indent=1) + "\n")
    (given.output / "epochs.md").write_text(table(rows))
    print(table(rows), end="")
    try:
        plot(rows, given.output / "epochs.png")
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)


if __name__ == "__main__":
    main()
