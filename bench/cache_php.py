"""The PHP of bench/cache-clients: its php.ini, what it says about itself, and one turn of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cache_reprise
import processes
from cache_matrix import CLIENTS, OPERATIONS, VALUES, Cell
from cache_servers import Address
from distribution import PHP
from failure import Failure, tool
from peers import reprise
from processes import Started

SCRIPT = Path(__file__).resolve().parent / "scripts" / "cache_client.php"
START_DEADLINE_S = 60.0
# memcached was built with msgpack's and igbinary's serializers, redis with igbinary's: these are loaded before.
EXTENSIONS = ("igbinary", "msgpack", "memcached", "memcache", "redis", "apcu")
SETTINGS = {
    "memory_limit": "2G", "display_errors": "stderr", "log_errors": "0", "zend.assertions": "-1",
    # As under PHP-FPM: Predis is compiled and optimised once.
    "opcache.enable": "1", "opcache.enable_cli": "1", "opcache.validate_timestamps": "0", "opcache.file_update_protection": "0",
    "opcache.jit": "off", "opcache.jit_buffer_size": "0",
    "apc.enable_cli": "1", "apc.shm_size": "1G", "apc.serializer": "php",
    # It is the only client that compresses by itself at this size; Memcached's is switched off by an option.
    "memcache.compress_threshold": "0",
}
# Of the same kind, for PHP in Reprise. The rest is as Reprise has it.
REPRISE_SETTINGS = {name: SETTINGS[name] for name in ("memory_limit", "log_errors", "opcache.jit", "opcache.jit_buffer_size")}
PROBE = """
$versions = ['php' => PHP_VERSION, 'opcache' => ini_get('opcache.enable_cli') && function_exists('opcache_get_status')
    && is_array($status = opcache_get_status(false)) && $status['opcache_enabled'], 'jit' => $status['jit']['on'] ?? false];
foreach (['igbinary', 'memcached', 'memcache', 'redis', 'apcu'] as $name) { $versions[$name] = phpversion($name) ?: ''; }
if (defined('Memcached::LIBMEMCACHED_VERSION_HEX')) {
    $hex = Memcached::LIBMEMCACHED_VERSION_HEX;
    $versions['libmemcached'] = ($hex >> 24) . '.' . ($hex >> 12 & 0xfff) . '.' . ($hex & 0xfff);
}
@include_once 'Predis/autoload.php';
$versions['predis'] = class_exists('Predis\\\\Client') ? Predis\\Client::VERSION : '';
$versions['missing'] = array_values(array_filter(['pcntl_fork', 'igbinary_serialize'], fn($name) => !function_exists($name)));
echo json_encode($versions + ['scanned' => php_ini_scanned_files()]);
"""


@dataclass(frozen=True)
class Php:
    """The interpreter with a php.ini of our own; the system's directories are not looked into."""

    program: str
    ini: Path

    @classmethod
    def prepare(cls, workdir: Path, settings: dict[str, str], clients: Sequence[str]) -> Php:
        wanted = {CLIENTS[name].extension for name in clients if CLIENTS[name].extension} | {"igbinary"} | ({"msgpack"} if "memcached" in clients else set())
        lines = ["zend_extension=opcache", *(f"extension={name}" for name in EXTENSIONS if name in wanted)]
        lines += [f"{name}={value}" for name, value in {**SETTINGS, **settings}.items()]
        ini = workdir / "php.ini"
        ini.write_text("\n".join(lines) + "\n")
        return cls(tool(f"php{PHP}", f"php{PHP}-cli"), ini)

    def command(self, *arguments: str) -> list[str]:
        return [self.program, "-c", str(self.ini), *arguments]

    @staticmethod
    def environment() -> dict[str, str]:
        return {**os.environ, "PHP_INI_SCAN_DIR": ""}

    def versions(self, clients: Sequence[str]) -> dict[str, str]:
        """Of everything that takes part; what is missing ends the run."""
        told = subprocess.run(self.command("-r", PROBE), capture_output=True, text=True, timeout=60, env=self.environment())
        try:
            found: dict[str, Any] = json.loads(told.stdout)
        except ValueError as error:
            raise Failure(f"{self.program} does not tell its versions", "", told.stdout + told.stderr) from error
        for name in found.pop("missing"):
            raise Failure(f"PHP has no {name}()", f"apt-get install php{PHP}-cli php{PHP}-igbinary")
        for name in clients:
            client = CLIENTS[name]
            if name == "reprise":
                reprise.check(reprise.settings())
                found |= reprise.versions(reprise.settings())
            elif not found[client.extension or "predis"]:
                raise Failure(f"{client.label} is not there: {self.program} does not load it", f"apt-get install {client.package}",
                              told.stderr)
        if not found["opcache"]:
            raise Failure("opcache is off, Predis would be compiled in each turn", f"apt-get install php{PHP}-opcache", told.stderr)
        if found.pop("scanned"):
            raise Failure("PHP reads settings beside those of this run", "is PHP_INI_SCAN_DIR set by a wrapper?")
        extensions = {client.extension for client in CLIENTS.values()} | {"igbinary"}
        return {f"extension {name}" if name in extensions else name: ("on" if value else "off") if isinstance(value, bool) else str(value)
                for name, value in found.items() if value != ""}


class Broken(Failure):
    """One turn has failed; the others may go on."""


class Control:
    """The line to the PHP parent of one turn. What does not come in time, or breaks, is a failure with PHP's output."""

    def __init__(self, process: Started, listener: socket.socket, request: socket.socket | None = None) -> None:
        self.process, self.received, self.request = process, b"", request
        listener.settimeout(0.05)
        deadline = time.monotonic() + START_DEADLINE_S
        while True:
            try:
                self.connection = listener.accept()[0]
                return
            except TimeoutError:
                if process.popen.poll() is not None or time.monotonic() > deadline:
                    raise process.failed("PHP ended, or hung, before it began") from None

    def broken(self, what: str) -> Broken:
        failure = self.process.failed(what)
        return Broken(failure.args[0], detail=failure.detail)

    def say(self, text: str) -> None:
        try:
            self.connection.sendall(text.encode() + b"\n")
        except OSError as error:
            raise self.broken(f"PHP ended: {error}") from error

    def hear(self, deadline_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + deadline_s
        while b"\n" not in self.received:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.broken(f"PHP says nothing for {deadline_s:g} s")
            self.connection.settimeout(left)
            try:
                part = self.connection.recv(1 << 16)
            except TimeoutError:
                continue
            if not part:
                raise self.broken("PHP ended in the middle of a turn")
            self.received += part
        line, _, self.received = self.received.partition(b"\n")
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise self.broken(f"PHP says {line[:200]!r}") from error
        return said

    def close(self) -> None:
        self.connection.close()
        if self.request:
            self.request.close()


def begin(php: Php, cell: Cell, address: Address, workdir: Path, seconds: float, timeout: int, verify: str) -> Control:
    """Start the turn's PHP parent and tell it the cell."""
    path = workdir / "control.sock"
    path.unlink(missing_ok=True)
    serializer = "igbinary" if cell.serializer == "igbinary" else "php"
    arguments = ["-d", f"apc.serializer={serializer}"] if cell.client == "apcu" else []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        if cell.client == "reprise":
            path.chmod(0o666)
            process, port = cache_reprise.start(SCRIPT, REPRISE_SETTINGS, workdir)
            control = Control(process, listener, cache_reprise.begin(port, path))
            return _told(control, cell, address, seconds, timeout, verify)
        process = processes.start("PHP", php.command(*arguments, str(SCRIPT), str(path)), workdir / "php.log", env=php.environment())
        control = Control(process, listener)
    return _told(control, cell, address, seconds, timeout, verify)


def _told(control: Control, cell: Cell, address: Address, seconds: float, timeout: int, verify: str) -> Control:
    operation, value = OPERATIONS[cell.operation], VALUES[cell.value]
    control.say(json.dumps({
        "client": cell.client, "serializer": cell.serializer, "operation": operation.name, "size": operation.size,
        "rows": value.rows, "kind": value.kind, "keys": max(value.keys, operation.size), "processes": cell.processes,
        "socket": address.socket, "port": address.port, "seconds": seconds, "timeout": timeout, "verify": verify,
    }))
    return control
