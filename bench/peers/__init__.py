"""The servers that can be compared: one module each, found by its file name. To add one, add a module here with

    OPTIONS: dict[str, tuple[str, str]]     name -> (default, what it does); set by --set PEER.NAME=VALUE
    def check(options) -> None              raise Failure if something it needs is missing
    def versions(options) -> dict[str, str]
    def start(site, options) -> Running     start it on 127.0.0.1:site.port; it need not be ready on return
    def boot(wanted, options) -> Boot       only if it can boot a script once: what it makes of a scenario's wish
    def kind(options) -> str                only if one of its options makes it another thing to goals than its name
    PHP = False                             only if it runs no PHP
    PAGES = (name, …)                       only if it serves these scenarios alone

A server that needs no code to be started is one small file in bench/peers/other; peer_files reads it.

A peer gets the same number of workers, the same ini settings over Debian's fpm profile, the same user and the same
environment as the other side, as far as it runs PHP, and keeps an access log with one line per request.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import peer_files
from failure import Failure, pick
from scenarios import Boot


def modules() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))


def names() -> list[str]:
    return [*modules(), *peer_files.names()]


def load(name: str) -> ModuleType:
    """The module, or what has its shape."""
    found: ModuleType
    if path := peer_files.find(name):
        found = peer_files.FilePeer(path)
        return found
    return importlib.import_module(f"peers.{pick('peer', name, names())}")


def boot(module: ModuleType, wanted: Boot | None, chosen: dict[str, str]) -> Boot | None:
    found: Boot | None = module.boot(wanted, chosen) if hasattr(module, "boot") else None
    return found


def kind(name: str, chosen: dict[str, str]) -> str:
    """What goals call this side."""
    module = load(name)
    return str(module.kind(chosen)) if hasattr(module, "kind") else name


def runs_php(module: ModuleType) -> bool:
    return bool(getattr(module, "PHP", True))


def pages(module: ModuleType) -> tuple[str, ...] | None:
    """The scenarios it serves; None for all."""
    found: tuple[str, ...] | None = getattr(module, "PAGES", None)
    return found


def options(labels: dict[str, str], settings: list[str]) -> dict[str, dict[str, str]]:
    """The options of each side (label -> peer): defaults, then `SIDE.NAME=VALUE` settings, in their order."""
    chosen = {label: {key: row[0] for key, row in load(peer).OPTIONS.items()} for label, peer in labels.items()}
    for setting in settings:
        target, equals, value = setting.partition("=")
        side, dot, key = target.partition(".")
        if not equals or not dot:
            raise Failure(f"--set {setting}: not of the form PEER.NAME=VALUE")
        pick("peer", side, [*chosen, *names()])
        for label, peer in labels.items():
            if side in (label, peer):  # the plain name of a peer that is compared with itself means both sides
                chosen[label][pick(f"option of {peer}", key, chosen[label])] = value
    return chosen
