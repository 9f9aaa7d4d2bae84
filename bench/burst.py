"""Many requests at once, each on a connection of its own, from one thread."""

from __future__ import annotations

import json
import select
import socket
import time
from dataclasses import dataclass

from bodies import HOST
from failure import Failure


@dataclass(frozen=True)
class Burst:
    seconds: float  # from the first request sent to the last answer's last byte
    processes: int  # how many different ones answered


def connect(port: int, count: int) -> list[socket.socket]:
    made = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        connection.setblocking(False)
        made.append(connection)
    return made


def body(answer: bytes) -> bytes:
    """Of a whole HTTP/1.1 answer with a length; anything but status 200 is a failure."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise Failure("a request of the burst was not answered with 200", detail=answer[:500].decode(errors="replace"))
    if b"transfer-encoding: chunked" in head.lower():
        return chunks(rest)
    lengths = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    if len(lengths) != 1 or int(lengths[0]) != len(rest):
        raise Failure("an answer of the burst is not whole", detail=answer[:500].decode(errors="replace"))
    return rest


def chunks(rest: bytes) -> bytes:
    """A chunked body, whole."""
    parts = []
    while True:
        size, found, rest = rest.partition(b"\r\n")
        length = int(size.partition(b";")[0] or b"0", 16) if found else -1
        if length < 0 or rest[length:length + 2] != b"\r\n":
            raise Failure("a chunked answer of the burst is not whole", detail=size[:100].decode(errors="replace"))
        if length == 0:
            return b"".join(parts)
        parts.append(rest[:length])
        rest = rest[length + 2:]


def exchange(port: int, path: str, count: int, deadline_s: float) -> tuple[float, list[bytes]]:
    """The seconds and the bodies of that many requests. All connections are made before the first is sent."""
    request = f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()
    connections = connect(port, count)
    answers: dict[int, bytes] = {connection.fileno(): b"" for connection in connections}
    by_number = {connection.fileno(): connection for connection in connections}
    poll = select.epoll()
    began = time.monotonic()
    for number, connection in by_number.items():
        connection.send(request)
        poll.register(number, select.EPOLLIN)
    left = count
    while left:
        if time.monotonic() - began > deadline_s:
            raise Failure(f"{left} of {count} requests are not answered after {deadline_s:g} s")
        for number, _ in poll.poll(1.0, 1024):
            got = by_number[number].recv(65536)
            answers[number] += got
            if not got:
                poll.unregister(number)
                left -= 1
    seconds = time.monotonic() - began
    poll.close()
    for connection in connections:
        connection.close()
    return seconds, [body(answer) for answer in answers.values()]


def run(port: int, path: str, count: int, deadline_s: float) -> Burst:
    """Requests to a script that says who answers it (bench/scripts/sleep.php)."""
    seconds, bodies = exchange(port, path, count, deadline_s)
    told = [json.loads(one) for one in bodies]
    others = sum(one["mode"] != "snapshot" for one in told)
    if others:
        raise Failure(f"{others} of {count} requests were not answered from a snapshot")
    return Burst(seconds, len({one["pid"] for one in told}))
