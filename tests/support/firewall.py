"""A firewall on one host of a test (nftables)."""

import json
import shutil
import subprocess

import pytest

TABLE = "ddprun_test"


def rules(host, *lines):
    """Installs chains in a table of its own. Skips the test if nft is missing or does not work."""
    if shutil.which("nft") is None:
        pytest.skip("no nft here: install nftables, as tests/setup does")
    text = f"table inet {TABLE} {{\n" + "\n".join(lines) + "\n}\n"
    done = subprocess.run([*host.prefix, "nft", "-f", "-"], input=text, text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this kernel has no firewall for us: {done.stderr}")


def incoming(host, *lines):
    rules(host, "chain input { type filter hook input priority 0; policy accept;", *lines, "}")


def open_for(host, *ports):
    """Lets other hosts reach only these TCP ports of this host; outgoing connections are allowed.
    Other packets are dropped, and counted."""
    accepted = f"tcp dport {{ {', '.join(map(str, ports))} }} accept;" if ports else ""
    incoming(host, "iif lo accept;", "ct state established,related accept;", accepted,
             "meta l4proto { tcp, udp } counter drop;")


def turned_away(host):
    """The number of packets that `open_for` has dropped."""
    done = subprocess.run([*host.prefix, "nft", "-j", "list", "table", "inet", TABLE],
                          capture_output=True, text=True, check=True)
    counters = [part["counter"]["packets"] for each in json.loads(done.stdout)["nftables"]
                for part in each.get("rule", {}).get("expr", []) if "counter" in part]
    assert len(counters) == 1, done.stdout
    return counters[0]


def remove(host):
    subprocess.run([*host.prefix, "nft", "delete", "table", "inet", TABLE], check=True)
