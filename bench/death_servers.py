"""What bench/cache-deaths kills workers of: Reprise with its data cache, and PHP-FPM behind nginx with APCu."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import processes
from edge_servers import own_place
from peers import nginx_fpm, reprise
from sites import WEB_USER, Site

SIDES = {
    "reprise": "Reprise's data cache; reprise_cache() computes",
    "apcu": "APCu under PHP-FPM; who misses computes and stores",
    "apcu-entry": "APCu under PHP-FPM; apcu_entry() computes, and holds APCu's lock meanwhile",
}
WORKERS = 4
# Of either cache: nothing has to be evicted.
MEMORY = "32M"
SCRIPT = Path(__file__).parent / "scripts" / "cache_deaths.php"
_CRASH = re.compile(r"SIGSEGV|SIGBUS|SIGABRT|signal (?:6|7|11)\b")


@dataclass(frozen=True)
class Victims:
    """A server, and who of it may be killed."""

    port: int
    workers: Callable[[], list[int]]
    crashes: Callable[[], int]
    stop: Callable[[], None]


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def start(name: str, workdir: Path, number: int) -> Victims:
    """`number` tells starts of the same side apart."""
    own = own_place(workdir, f"{name}-{number}")
    root = own / "public"
    root.mkdir(mode=0o755)
    (root / "index.php").write_bytes(SCRIPT.read_bytes())
    return (_reprise if name == "reprise" else _fpm)(own, root, name)


def _crashes(*logs: Path) -> int:
    return sum(len(_CRASH.findall(log.read_text(errors="replace"))) for log in logs if log.exists())


def _reprise(own: Path, root: Path, name: str) -> Victims:
    port = processes.free_port()
    (own / "reprise.toml").write_text("\n".join([
        f'listen = ["http://127.0.0.1:{port}"]', f"state_dir = {reprise.quoted(str(own / 'state'))}", 'access_log = "off"',
        "[[application]]", f"root = {reprise.quoted(str(root))}", f"workers = {WORKERS}", "cache_memory = 0", f'data_cache_memory = "{MEMORY}"',
        f"env.KIND = {reprise.quoted(name)}", *([f'user = "{WEB_USER}"'] if os.geteuid() == 0 else [])]) + "\n")
    server = processes.start(name, [str(reprise.BUILT), "serve", "--config", str(own / "reprise.toml")], own / "output.log")
    processes.wait_until(lambda: "ready after" in server.log.read_text(errors="replace"), 30, server, "it says that it is ready")

    def workers() -> list[int]:
        """Those whom a prototype has forked; killing twenty in a minute brings another prototype."""
        prototypes = [pid for pid in children(server.pid) if processes.comm(pid).startswith("reprise-php")]
        return [pid for prototype in prototypes for pid in children(prototype)]

    return Victims(port, workers, lambda: _crashes(server.log), server.stop)


def _fpm(own: Path, root: Path, name: str) -> Victims:
    site = Site(name, root, {"KIND": name}, own, processes.free_port(), WORKERS, {"apc.shm_size": MEMORY}, "")
    running = nginx_fpm.start(site, {"processes": "1", "count": "", "upstream_requests": "0"})
    fpm = running.processes[1]
    processes.wait_until(lambda: processes.listens(site.port), 15, running.processes[0], "listening", running.logs)
    return Victims(site.port, lambda: children(fpm.pid), lambda: _crashes(own / "fpm.log"), running.stop)
