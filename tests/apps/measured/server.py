"""A server whose behaviour is known, for tests of what measures it. Prints its port, then the process ids of its groups.

    server.py burn MS [SECOND_MS]   each request costs MS of processor time here, and SECOND_MS in a second process
    server.py stall AT SECONDS      AT seconds after the first request, one holds up all for so long, once
    server.py change AT             from that request on another body
    server.py die AT                ends at that request
    server.py redirect              / and /a lead to each other
"""

import os
import socket
import sys
import threading
import time

MODE, NUMBERS = sys.argv[1], [float(text) for text in sys.argv[2:]]
BODY = b"x" * 100


def burn_until(spent_ns: int) -> None:
    while time.process_time_ns() < spent_ns:
        pass


def second(read_end: int, cost_ns: int) -> None:
    """Burns for each byte that comes."""
    began, count = time.process_time_ns(), 0
    while data := os.read(read_end, 4096):
        count += len(data)
        burn_until(began + count * cost_ns)


class Server:
    """One thread that serves all connections: what it burns is exact."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()
        self.bell = -1
        self.first, self.has_stalled = 0.0, False
        self.began = 0
        self.cost_ns = int(NUMBERS[0] * 1e6) if MODE == "burn" else 0

    def answer(self, path: bytes) -> bytes:
        with self.lock:
            self.count += 1
            number = self.count
            if MODE == "burn":
                if self.bell >= 0:
                    os.write(self.bell, b"x")
                burn_until(self.began + number * self.cost_ns)
            elif MODE == "stall":
                self.stall()
            elif MODE == "die" and number == int(NUMBERS[0]):
                os._exit(0)
            elif MODE == "redirect":
                to = b"/a" if path == b"/" else b"/"
                return b"HTTP/1.1 302 Found\r\nLocation: " + to + b"\r\nContent-Length: 0\r\n\r\n"
        body = BODY[:-1] + b"y" if MODE == "change" and number >= NUMBERS[0] else BODY
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def stall(self) -> None:
        self.first = self.first or time.monotonic()
        if not self.has_stalled and time.monotonic() > self.first + NUMBERS[0]:
            self.has_stalled = True
            time.sleep(NUMBERS[1])

    def converse(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = b""
        try:
            while piece := connection.recv(65536):
                data += piece
                while b"\r\n\r\n" in data:
                    head, data = data.split(b"\r\n\r\n", 1)
                    connection.sendall(self.answer(head.split(b" ")[1]))
        except OSError:
            pass
        connection.close()


def main() -> None:
    server, pids = Server(), [os.getpid()]
    if MODE == "burn" and len(NUMBERS) > 1:
        read_end, server.bell = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(server.bell)
            second(read_end, int(NUMBERS[1] * 1e6))
            os._exit(0)
        os.close(read_end)
        pids.append(child)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listener.getsockname()[1], *pids, flush=True)
    server.began = time.process_time_ns()
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=server.converse, args=(connection,), daemon=True).start()


main()
