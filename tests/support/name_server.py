#!/usr/bin/env python3
"""A small DNS server, like a cluster's: `name_server.py ADDRESS ZONE_FILE`.

Each line of the zone file is a name and its IPv4 address. The file is read for every question, so
that a test decides when a name exists. Unknown names get NXDOMAIN at once.
"""

import socket
import struct
import sys
from pathlib import Path

NAME_ERROR = 3
A, AAAA = 1, 28


def question_of(packet):
    """Returns the name, its type, and the end of the question."""
    labels, at = [], 12
    while packet[at]:
        length = packet[at]
        labels.append(packet[at + 1:at + 1 + length].decode("ascii"))
        at += 1 + length
    return ".".join(labels).lower(), struct.unpack("!H", packet[at + 1:at + 3])[0], at + 5


def answer_to(packet, zone):
    name, kind, end = question_of(packet)
    address = zone.get(name) if kind == A else None
    error = 0 if name in zone else NAME_ERROR
    flags = 0x8180 | error
    head = packet[:2] + struct.pack("!HHHHH", flags, 1, 1 if address else 0, 0, 0)
    record = b""
    if address:
        record = b"\xc0\x0c" + struct.pack("!HHIH", A, 1, 0, 4) + socket.inet_aton(address)
    return head + packet[12:end] + record


def main():
    address, zone_file = sys.argv[1], Path(sys.argv[2])
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    print("ready", flush=True)
    while True:
        packet, client = server.recvfrom(4096)
        lines = zone_file.read_text().splitlines()
        zone = dict(line.split() for line in lines if line.strip())
        server.sendto(answer_to(packet, zone), client)


if __name__ == "__main__":
    main()
