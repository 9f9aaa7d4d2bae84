"""One turn of bench/cache-clients in Reprise: a server of its own, in a worker of which the turn's script runs, as PHP does for the other clients."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from urllib.parse import quote

import processes
from peers import reprise
from sites import WEB_USER
from processes import Started

READY_DEADLINE_S = 30.0
ENTRY = "<?php require dirname(__DIR__) . '/{script}';\n"
# What the script itself requires.
BESIDE = "cache_adapters.php"
# As APCu has.
MEMORY = "1G"


def start(script: Path, settings: dict[str, str], workdir: Path) -> tuple[Started, int]:
    """A server that runs the script for each request, and its port. Everything of an earlier turn is gone."""
    own, port = workdir / "reprise", processes.free_port()
    shutil.rmtree(own, ignore_errors=True)
    root = own / "public"
    root.mkdir(parents=True)
    # Copies: a repository in root's home is closed to PHP's user.
    for name in (script.name, BESIDE):
        (own / name).write_bytes(script.with_name(name).read_bytes())
        (own / name).chmod(0o644)
    (root / "index.php").write_text(ENTRY.format(script=script.name))
    workdir.chmod(0o711)
    lines = [
        f'listen = ["http://127.0.0.1:{port}"]', f"state_dir = {reprise.quoted(str(own / 'state'))}", 'access_log = "off"', "front_threads = 1",
        "[[application]]", f"root = {reprise.quoted(str(root))}", "workers = 1", f'data_cache_memory = "{MEMORY}"',
        *([f'user = "{WEB_USER}"'] if os.geteuid() == 0 else []),
        *(f"ini.{reprise.quoted(name)} = {reprise.quoted(value)}" for name, value in settings.items()),
    ]
    (own / "reprise.toml").write_text("\n".join(lines) + "\n")
    server = processes.start("Reprise", [str(reprise.BUILT), "serve", "--config", str(own / "reprise.toml")], own / "output.log")
    processes.wait_until(lambda: "ready after" in server.log.read_text(errors="replace"), READY_DEADLINE_S, server, "it says that it is ready")
    return server, port


def begin(port: int, control: Path) -> socket.socket:
    """Has the script run. The connection is to stay open as long as the turn."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    connection.sendall(f"GET /?control={quote(str(control))} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection
