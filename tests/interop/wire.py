"""The bytes of the store's protocol, for tests that send what PyTorch's client never would."""

import socket
import struct

VALIDATE = struct.pack("<BI", 0, 0x3C85F7CE)
PING = struct.pack("<BI", 13, 7)
PONG = struct.pack("<I", 7)
GET_NUM_KEYS = b"\7"
LIST_KEYS = b"\x11"
PATIENCE = 300  # seconds; longer than anything that works takes


def text(value):
    return struct.pack("<Q", len(value)) + value


def set_(key, value):
    return b"\1" + text(key) + text(value)


def add(key, delta):
    return b"\4" + text(key) + struct.pack("<q", delta)


def wait(*keys):
    return struct.pack("<BQ", 6, len(keys)) + b"".join(map(text, keys))


def barrier(key, world_size):
    return b"\x12" + text(key) + struct.pack("<q", world_size)


def connect(port, says=b""):
    peer = socket.create_connection(("127.0.0.1", port), PATIENCE)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.sendall(says)
    return peer


def hear(peer, count):
    """Reads so many bytes; fewer if the server has closed."""
    heard = b""
    while len(heard) < count:
        more = peer.recv(count - len(heard))
        if not more:
            break
        heard += more
    return heard


def hear_i64(peer):
    return struct.unpack("<q", hear(peer, 8))[0]
