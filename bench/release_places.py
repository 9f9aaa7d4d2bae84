"""Where bench/releases has its applications: a disk of its own that can be made cold and slow, and a file system in memory. Takes root.

The disk is a file with ext4, behind a loop device that reads past the page cache of that file. Unmounted and mounted again, nothing of
it is in memory, and nothing else on the machine has become cold. A control group limits the reads of the processes in it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from failure import Failure, tool

GROUPS = Path("/sys/fs/cgroup")
NAME = "reprise-bench-releases"


def _run(*command: str) -> str:
    done = subprocess.run([tool(command[0], "mount, e2fsprogs"), *command[1:]], capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"{' '.join(command)} ended with status {done.returncode}", detail=done.stderr)
    return done.stdout.strip()


def require_root() -> None:
    if os.geteuid() != 0:
        raise Failure("mounts a disk of its own, which takes root", "sudo bench/releases")


class Memory:
    """A file system in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", "mode=0755,size=2G", "releases", str(path))

    def close(self) -> None:
        _run("umount", str(self.path))


class Disk:
    """A disk of its own."""

    def __init__(self, image: Path, path: Path, mib: int) -> None:
        self.path = path
        path.mkdir()
        with image.open("wb") as file:
            file.truncate(mib << 20)
        _run("mkfs.ext4", "-q", "-m", "0", str(image))
        self.device = _run("losetup", "--find", "--show", "--direct-io=on", str(image))
        self.is_mounted = False
        try:
            self._mount()
        except Failure:
            self.close()
            raise

    def _mount(self) -> None:
        _run("mount", "-o", "noatime", self.device, str(self.path))
        self.is_mounted = True

    def number(self) -> str:
        """Its numbers, as control groups have them."""
        return (Path("/sys/block") / Path(self.device).name / "dev").read_text().strip()

    def make_cold(self) -> None:
        _run("umount", str(self.path))
        self.is_mounted = False
        self._mount()

    def close(self) -> None:
        if self.is_mounted:
            _run("umount", str(self.path))
        _run("losetup", "--detach", self.device)


def limit(groups: Path, device: str, reads: int) -> tuple[Path, str, str]:
    """The directory of control groups that can limit reads, with the file and the line that does."""
    if (groups / "blkio").is_dir():
        return groups / "blkio", "blkio.throttle.read_iops_device", f"{device} {reads}"
    controllers = groups / "cgroup.controllers"
    if controllers.is_file() and "io" in controllers.read_text().split():
        return groups, "io.max", f"{device} riops={reads}"
    raise Failure("no control group of this machine limits reads", "a kernel with CONFIG_BLK_DEV_THROTTLING; --kinds without throttled")


class Throttle:
    """A control group whose processes read so often in a second from a disk, and no more."""

    def __init__(self, disk: Disk, reads: int) -> None:
        above, file, line = limit(GROUPS, disk.number(), reads)
        if file == "io.max":
            (above / "cgroup.subtree_control").write_text("+io")
        self.path = above / f"{NAME}-{os.getpid()}"
        self.path.mkdir()
        try:
            (self.path / file).write_text(line)
        except OSError:
            self.close()
            raise

    def command(self, argv: list[str]) -> list[str]:
        """The same program in that group."""
        return ["sh", "-c", 'echo 0 > "$0" && exec "$@"', str(self.path / "cgroup.procs"), *argv]

    def close(self) -> None:
        self.path.rmdir()
