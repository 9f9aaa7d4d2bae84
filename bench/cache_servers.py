"""memcached and Redis, started for a run of bench/cache-clients: one process per transport, so that its CPU time is known."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import processes
from failure import Failure, tool
from processes import Started

READY_DEADLINE_S = 15.0
MEMORY_MIB = 2048  # a limit, not what is used
PACKAGES = {"memcached": ("memcached", "memcached"), "redis": ("redis-server", "redis-server")}


@dataclass(frozen=True)
class Address:
    """Where a server listens: the path of a unix socket, or a port on 127.0.0.1."""

    socket: str = ""
    port: int = 0

    def connect(self) -> socket.socket:
        if self.socket:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(5)
            try:
                connection.connect(self.socket)
            except OSError:
                connection.close()
                raise
            return connection
        return socket.create_connection(("127.0.0.1", self.port), timeout=5)


@dataclass(frozen=True)
class Server:
    name: str  # "redis unix"
    address: Address
    process: Started

    def require_alive(self, suspicious: bool) -> None:
        """A server that is gone has made all that was measured with it worthless. After a client has failed, its end is waited
        for: clients notice it first."""
        try:
            status = self.process.popen.wait(0.3 if suspicious else 0)
        except subprocess.TimeoutExpired:
            if suspicious and not answers(self.name.partition(" ")[0], self.address):
                raise self.process.failed("answers no more; nothing is reported", "does it have memory and processor time?") from None
            return
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        raise self.process.failed(f"{how} during the measurement; nothing is reported", "run it again; its output is above, if there is any")


def _memcached(address: Address, threads: int) -> list[str]:
    where = ["-s", address.socket] if address.socket else ["-l", "127.0.0.1", "-p", str(address.port), "-U", "0"]
    user = ["-u", "root"] if os.geteuid() == 0 else []
    return [tool(*PACKAGES["memcached"]), *where, *user, "-m", str(MEMORY_MIB), "-c", "1024", "-t", str(threads)]


def _redis(address: Address, workdir: Path) -> list[str]:
    where = ["--port", "0", "--unixsocket", address.socket] if address.socket else ["--port", str(address.port), "--bind", "127.0.0.1"]
    return [tool(*PACKAGES["redis"]), *where, "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", str(workdir),
            "--maxmemory", f"{MEMORY_MIB}mb", "--maxmemory-policy", "noeviction"]


def answers(kind: str, address: Address) -> bool:
    try:
        with address.connect() as connection:
            connection.sendall(b"version\r\n" if kind == "memcached" else b"PING\r\n")
            return connection.recv(64).startswith(b"VERSION" if kind == "memcached" else b"+PONG")
    except OSError:
        return False


def start(name: str, workdir: Path, threads: int = 4) -> Server:
    """`name` is a server and a transport, "memcached tcp"."""
    kind, _, transport = name.partition(" ")
    address = Address(socket=str(workdir / f"{kind}.sock")) if transport == "unix" else Address(port=processes.free_port())
    argv = _memcached(address, threads) if kind == "memcached" else _redis(address, workdir)
    process = processes.start(name, argv, workdir / f"{kind}-{transport}.log")
    processes.wait_until(lambda: answers(kind, address), READY_DEADLINE_S, process, "answering")
    return Server(name, address, process)


def start_all(names: Iterable[str], workdir: Path) -> dict[str, Server]:
    return {name: start(name, workdir) for name in dict.fromkeys(names) if name}


def versions(kinds: Iterable[str]) -> dict[str, str]:
    found = {}
    for kind in sorted(set(kinds)):
        program = tool(*PACKAGES[kind])
        try:
            told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(f"{program} --version: {error}") from error
        found[f"server {kind}"] = (told.stdout.strip() or "unknown").splitlines()[0]
    return found
