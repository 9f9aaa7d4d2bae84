"""What a server of a comparison is asked to serve, and the server that runs: for the modules of bench/peers."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from processes import Groups, Started
from scenarios import Boot

WEB_USER = "www-data"


@dataclass(frozen=True)
class Site:
    """What a peer is asked to serve."""

    name: str
    root: Path  # document root; its front controller answers what is no file
    env: dict[str, str]
    workdir: Path  # the peer's own: configuration, sockets, logs
    port: int
    workers: int
    ini: dict[str, str]
    cpus: str  # taskset's list, or empty
    boot: Boot | None = None  # what is booted once; else index.php runs for each request
    scenario: str = ""  # its name, for peers that have pages of their own

    @property
    def user(self) -> str:
        """The user PHP runs as."""
        return WEB_USER if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


@dataclass
class Running:
    """A started peer. `groups` names the processes whose CPU time and memory are reported together."""

    label: str
    port: int
    processes: list[Started]
    groups: Callable[[], Groups]
    access_log: Path | None  # None if it keeps none
    logs: list[Path] = field(default_factory=list)
    configuration: dict[str, str] = field(default_factory=dict)
    served: Callable[[], dict[int, int]] | None = None  # with the option count: requests by the process that served them
    verify: Callable[[], None] = lambda: None  # called before load and after each turn: Failure if that was not answered as was asked for
    path: str = ""  # where it has the page, if not where the scenario says

    def stop(self) -> None:
        for process in self.processes:
            process.stop()

    def commands(self) -> list[str]:
        return [" ".join(process.argv) for process in self.processes]


def as_user(site: Site) -> list[str]:
    """What stands before a command that shall run as the user PHP runs as."""
    if os.geteuid() != 0:
        return []
    account = pwd.getpwnam(site.user)
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
