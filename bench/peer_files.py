"""Servers that are told by one small file, in bench/peers/other or anywhere: how it starts, where its pages are, when it is ready.
bench/peers/other/README.md has the keys. Such a server is a peer as the modules of bench/peers are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
import urllib.parse
from pathlib import Path
from typing import Any

import phpini
import processes
from failure import Failure
from sites import Running, Site, as_user

DIRECTORY = Path(__file__).resolve().parent / "peers" / "other"
STRINGS = ("program", "hint", "ready", "access_log")
LISTS = ("start", "check", "version", "copies", "pass")
TABLES = ("urls", "env", "files")
READY_S = 30


def find(name: str) -> Path | None:
    """The file of a peer: a path that ends in .toml, or a name in bench/peers/other."""
    path = Path(name) if name.endswith(".toml") else DIRECTORY / f"{name}.toml"
    return path if path.is_file() else None


def names() -> list[str]:
    return sorted(path.stem for path in DIRECTORY.glob("*.toml"))


def _strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def read(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: {error}") from error
    hint = f"{DIRECTORY / 'README.md'} has the keys"
    if unknown := found.keys() - {*STRINGS, *LISTS, *TABLES}:
        raise Failure(f"{path}: unknown keys: {', '.join(sorted(unknown))}", hint)
    for key, value in found.items():
        good = isinstance(value, str) if key in STRINGS else _strings(value) if key in LISTS else (
            isinstance(value, dict) and _strings(list(value.values())))
        if not good:
            raise Failure(f"{path}: {key} is no {'string' if key in STRINGS else 'list of strings' if key in LISTS else 'table of strings'}", hint)
    for key in ("program", "start", "urls"):
        if not found.get(key):
            raise Failure(f"{path}: {key} is missing", hint)
    return found


class FilePeer:
    """A peer out of a file. Its PHP, if it runs one, has settings of its own: they are not compared."""

    PHP = False
    OPTIONS = {"program": ("", "the executable; what its file says if empty")}

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.stem
        self.told = read(path)
        self.PAGES = tuple(self.told["urls"])

    def _program(self, options: dict[str, str]) -> str:
        wanted = options["program"] or self.told["program"]
        found = shutil.which(wanted)
        if found is None:
            where = "" if "/" in wanted else f"; looked for in {os.environ.get('PATH', '')}"
            raise Failure(f"{self.name}: the program {wanted} is not installed{where}",
                          f"{self.told.get('hint', 'install it')}; --set {self.name}.program=FILE names one elsewhere")
        return found

    def _run(self, words: list[str], options: dict[str, str]) -> subprocess.CompletedProcess[str]:
        command = [_fill(word, {"program": self._program(options), "here": str(self.path.parent)}, self.path) for word in words]
        try:
            return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(f"{self.name}: {' '.join(command)}: {error}") from error

    def check(self, options: dict[str, str]) -> None:
        self._program(options)
        for name in self.told.get("copies", []):
            if not (self.path.parent / name).is_file():
                raise Failure(f"{self.path}: {self.path.parent / name} is not there")
        if "check" in self.told:
            done = self._run(self.told["check"], options)
            if done.returncode:
                raise Failure(f"{self.name}: `{' '.join(done.args)}` failed", self.told.get("hint", ""), done.stdout[-1000:])

    def versions(self, options: dict[str, str]) -> dict[str, str]:
        lines = self._run(self.told["version"], options).stdout.strip().splitlines() if "version" in self.told else []
        return {self.name: lines[0] if lines else "not told"}

    def start(self, site: Site, options: dict[str, str]) -> Running:
        place = site.workdir
        values = {"program": self._program(options), "here": str(self.path.parent), "port": str(site.port), "root": str(site.root),
                  "dir": str(place), "workers": str(site.workers), "user": site.user}
        files = {name: _fill(text, values, self.path) for name, text in self.told.get("files", {}).items()}
        phpini.write(place / "ini", site.ini)
        for name, text in files.items():
            (place / name).write_text(text)
        for name in self.told.get("copies", []):
            shutil.copy(self.path.parent / name, place)
        if os.geteuid() == 0:
            for one in (place, *place.iterdir()):
                shutil.chown(one, site.user, site.user)
        env = {"PATH": os.environ["PATH"], "HOME": str(place), **site.env,
               **{name: os.environ[name] for name in self.told.get("pass", []) if name in os.environ},
               **{name: _fill(text, values, self.path) for name, text in self.told.get("env", {}).items()}}
        words = [_fill(word, values, self.path) for word in self.told["start"]]
        server = processes.start(self.name, [*as_user(site), *words], place / "output.log", cpus=site.cpus, env=env)
        if ready := self.told.get("ready"):
            processes.wait_until(lambda: ready in server.log.read_text(errors="replace"), READY_S, server, f"it says {ready!r}")
        log = self.told.get("access_log")
        return Running(self.name, site.port, [server], lambda: {self.name: processes.tree(server.pid)},
                       Path(_fill(log, values, self.path)) if log else None, configuration=files, path=self._page(site, values))

    def _page(self, site: Site, values: dict[str, str]) -> str:
        """Where it has the scenario's page."""
        if site.scenario not in self.PAGES:
            raise Failure(f"{self.name} has no page for {site.scenario!r}", f"{self.path} has {', '.join(self.PAGES)}")
        url = urllib.parse.urlsplit(_fill(self.told["urls"][site.scenario], values, self.path))
        if (url.scheme, url.hostname, url.port) != ("http", "127.0.0.1", site.port):
            raise Failure(f"{self.path}: the URL of {site.scenario} does not begin with http://127.0.0.1:@port@/")
        return (url.path or "/") + (f"?{url.query}" if url.query else "")


def _fill(text: str, values: dict[str, str], path: Path) -> str:
    """@name@ is replaced."""
    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise Failure(f"{path}: {match[0]} is not known here", f"known: {', '.join(f'@{name}@' for name in values)}")
        return values[match[1]]

    return re.sub(r"@([a-z]+)@", value, text)
