"""Messages between the tasks of a barrier stage, over sockets that both ends prove a common secret on.

The secret is random, made anew for each stage, and reaches the tasks through Spark. What travels is not
encrypted; rows do not travel.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
import socket
import struct
from typing import Any

GREETING_SECONDS = 60.0  # for the other end to be there and to prove the secret
QUIET_SECONDS, PROBES, PROBE_SECONDS = 30, 3, 10  # a machine that is silent this long is asked, then lost
NONCE = 32
LENGTH = struct.Struct("!Q")


class Channel:
    """One end of a connection."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        sock.settimeout(GREETING_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", QUIET_SECONDS),
            ("TCP_KEEPINTVL", PROBE_SECONDS),
            ("TCP_KEEPCNT", PROBES),
        ):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def send(self, message: Any) -> None:
        self.send_bytes(pickle.dumps(message, protocol=5))

    def send_bytes(self, data: bytes) -> None:
        self.sock.sendall(LENGTH.pack(len(data)))
        self.sock.sendall(data)

    def receive(self) -> Any:
        """Waits as long as the other end lives; ConnectionError once it does not."""
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        return pickle.loads(self._exactly(length))

    def _exactly(self, n: int) -> bytearray:
        found = bytearray(n)
        view = memoryview(found)
        while len(view):
            count = self.sock.recv_into(view)
            if count == 0:
                raise ConnectionError("a task of the stage is lost (out of memory, or its machine is gone)")
            view = view[count:]
        return found

    def prove(self, secret: bytes, ours: bytes, theirs: bytes) -> None:
        """Both ends show that they know the secret; `ours` and `theirs`: what the ends are called."""
        nonce = secrets.token_bytes(NONCE)
        self.sock.sendall(nonce)
        asked = bytes(self._exactly(NONCE))
        self.sock.sendall(_proof(secret, ours, asked, nonce))
        if not hmac.compare_digest(bytes(self._exactly(NONCE)), _proof(secret, theirs, nonce, asked)):
            raise ConnectionError("the other end of the connection does not know the secret")
        self.sock.settimeout(None)  # a round may take any time

    def close(self) -> None:
        self.sock.close()


def _proof(secret: bytes, name: bytes, asked: bytes, nonce: bytes) -> bytes:
    return hmac.digest(secret, name + b"|" + asked + nonce, "sha256")


class Door:
    """Where the first task waits for the others."""

    def __init__(self, host: str):
        self.secret = secrets.token_bytes(NONCE)
        self.sock = socket.create_server((host, 0), family=_family(host), backlog=1024)
        self.address = host, self.sock.getsockname()[1]

    def channels(self, n: int) -> list[Channel]:
        """Of as many tasks, each of which tells its number, from 1 on; strangers are turned away."""
        found: dict[int, Channel] = {}
        self.sock.settimeout(GREETING_SECONDS)
        while len(found) < n:
            channel = Channel(self.sock.accept()[0])
            try:
                channel.prove(self.secret, b"first", b"other")
            except OSError:
                channel.close()
                continue
            found[channel.receive()] = channel
        return [found[number] for number in sorted(found)]

    def close(self) -> None:
        self.sock.close()


def knock(address: tuple[str, int], secret: bytes, number: int) -> Channel:
    """The way to the first task."""
    channel = Channel(socket.create_connection(address, GREETING_SECONDS))
    channel.prove(secret, b"other", b"first")
    channel.send(number)
    return channel


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
