"""What bench/releases starts and measures: a server with the application in one of several places."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import processes
import release_trees
from failure import Failure, tool
from peers import reprise
from sites import WEB_USER
from release_places import Disk, Memory, Throttle

APPLICATION = "shop"
# Without compression, as the directory is.
MAKE_PHAR = "$phar = new Phar($argv[1]); $phar->buildFromDirectory($argv[2]); $phar->setSignatureAlgorithm(Phar::SHA256);"
# Any user that nothing else runs as; Debian has this one.
RELEASE_USER = "backup"
READY_S = 120.0
POLL_S = 0.001
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Kind:
    """A place for an application."""

    name: str
    label: str
    is_release: bool = False
    is_cold: bool = False
    is_throttled: bool = False
    # Nothing is unpacked yet: as after the start of the machine.
    is_packed: bool = False
    is_phar: bool = False


KINDS = {kind.name: kind for kind in (
    Kind("release", "release with compiled code, unpacked in memory", is_release=True),
    Kind("packed", "the same from its file on a cold disk, unpacked first", is_release=True, is_cold=True, is_packed=True),
    Kind("phar", "phar on a cold disk, checked and unpacked first", is_cold=True, is_phar=True),
    Kind("warm", "directory, its files in the page cache"),
    Kind("cold", "directory, cold", is_cold=True),
    Kind("throttled", "directory, cold, on a throttled disk", is_cold=True, is_throttled=True),
)}


@dataclass(frozen=True)
class Turn:
    """One start."""

    ready_ms: float  # from the start of the program until it says that it is ready
    first_ms: float  # the first request
    work_ms: float  # processor time of all its processes until then

    @property
    def whole_ms(self) -> float:
        return self.ready_ms + self.first_ms


def work_ns(pids: list[int]) -> int:
    """Processor time of processes, and of those of their children that have ended."""
    total = 0
    for pid in pids:
        total += processes.cpu_ns(pid)
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[13]) + int(fields[14])) * TICK_NS
    return total


def configuration(kind: Kind, port: int, place: Place) -> str:
    quoted = reprise.quoted
    lines = [f'listen = ["127.0.0.1:{port}"]', f"state_dir = {quoted(str(place.own / 'state'))}", 'access_log = "off"']
    application = ["[[application]]", f"name = {quoted(APPLICATION)}", "workers = 2", f"user = {quoted(WEB_USER)}", "cache_memory = 0"]
    if kind.is_release:
        lines += [f"release_user = {quoted(RELEASE_USER)}", f"release_dir = {quoted(str(place.memory.path))}",
                  f"release_state = {quoted(str(place.disk.path / 'kept'))}", f"release_shared = {quoted(str(place.own / 'shared'))}"]
        application += [f"release_pool = {quoted(str(place.pool))}", f"release_keys = [{quoted(place.public)}]", 'root = "public"']
    else:
        application.append(f"root = {quoted(str((place.phar if kind.is_phar else place.tree) / 'public'))}")
    return "\n".join([*lines, *application]) + "\n"


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"{' '.join(command[:3])} ended with status {done.returncode}", detail=done.stderr)
    return done.stdout


STATE = Path("/run/reprise")


class Place:
    """An application of so many files: as a directory on a disk, and as a release in a pool."""

    def __init__(self, stack: ExitStack, workdir: Path, files: int, compiled: bool, reads: int, say: Callable[[str], None]) -> None:
        self.own = workdir
        self.disk = Disk(workdir / "image", workdir / "disk", 256 + files // 16)
        stack.callback(self.disk.close)
        self.memory = Memory(workdir / "releases")
        stack.callback(self.memory.close)
        if run(["stat", "-f", "-c", "%T", "/run"]).strip() != "tmpfs":
            # Where phars are unpacked. Hosts have /run in memory; ext4 looks long for the inode of a new file where many were just removed.
            stack.callback(Memory(STATE).close)
        self.throttle = Throttle(self.disk, reads) if reads else None
        if self.throttle:
            stack.callback(self.throttle.close)
        stack.callback(processes.stop_all)
        self.tree, self.pool, self.key = self.disk.path / "tree", workdir / "pool", workdir / "key"
        say(f"an application of {files:,} files")
        release_trees.write(self.tree, files)
        self.phar = self.disk.path / "app.phar"
        self.public = self.release("keygen", "-o", str(self.key)).strip()
        more = ["--release-dir", str(self.memory.path)] if compiled else ["--no-compile"]
        key = ["--key", str(self.key)]
        file = str(workdir / "file")
        self.built = json.loads(self.release("build", str(self.tree), "-o", file, "--name", APPLICATION, "--json", *more, *key))
        say(f"a release of {self.built['files']:,} files, {self.built['size'] / 2**20:.1f} MiB; unpacked {self.built['bytes'] / 2**20:.0f} MiB")
        self.release("push", file, str(self.pool), *key)
        self.release("activate", str(self.pool), APPLICATION, "latest", *key)

    def release(self, *arguments: str) -> str:
        return run([str(reprise.BUILT), "release", *arguments])

    def make_phar(self) -> None:
        run([tool("php", "php-cli"), "-d", "phar.readonly=0", "-r", MAKE_PHAR, str(self.phar), str(self.tree)])

    def prepare(self, kind: Kind) -> None:
        """What is not timed."""
        if kind.is_packed:
            shutil.rmtree(self.memory.path / APPLICATION, ignore_errors=True)
        if kind.is_cold:
            self.disk.make_cold()
        elif not kind.is_release:
            for path in self.tree.rglob("*.php"):
                path.read_bytes()

    def turn(self, kind: Kind, count: int) -> Turn:
        """Starts a server and asks it for the page that loads so many files."""
        self.prepare(kind)
        port = processes.free_port()
        config = self.own / "reprise.toml"
        config.write_text(configuration(kind, port, self))
        log = self.own / "output.log"
        log.write_bytes(b"")
        argv = [str(reprise.BUILT), "serve", "--config", str(config)]
        if kind.is_throttled:
            assert self.throttle is not None
            argv = self.throttle.command(argv)
        began = time.monotonic()
        server = processes.start("reprise", argv, log)
        while b"ready after" not in log.read_bytes():
            if server.popen.poll() is not None or time.monotonic() - began > READY_S:
                raise server.failed("is not ready")
            time.sleep(POLL_S)
        ready = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S)
        connection.request("GET", f"/index.php?n={count}")
        response = connection.getresponse()
        body = response.read()
        done = time.monotonic()
        connection.close()
        work = work_ns(processes.tree(server.pid))
        if response.status != 200 or body != str(release_trees.sum_of(count)).encode():
            raise server.failed(f"responds with {response.status} to a page of {count} files: {body[:200]!r}")
        server.stop()
        return Turn((ready - began) * 1e3, (done - ready) * 1e3, work / 1e6)
