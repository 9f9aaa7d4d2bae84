"""What all scenarios of a run share: the servers that take part, the applications, the database, equal PHP settings."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pwd
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import applications
import measure
import peers
import sites
import phpini
import processes
import report
from failure import Failure, tool
from load import REPORT, Load
from program import say
from scenarios import CONNECTIONS, Boot, Scenario

JIT = {"opcache.jit": "tracing", "opcache.jit_buffer_size": "64M"}


@dataclass(frozen=True)
class Entrant:
    """One server that takes part: a peer with settings, under a name of its own."""

    label: str
    peer: str
    options: dict[str, str]
    port: int

    @property
    def module(self) -> ModuleType:
        return peers.load(self.peer)


@dataclass(frozen=True)
class Part:
    """What an entrant serves in a scenario: an application, and what of it is booted, if it can boot."""

    entrant: Entrant
    application: str
    wanted: Boot | None

    @property
    def boot(self) -> Boot | None:
        return peers.boot(self.entrant.module, self.wanted, self.entrant.options)


def entrants(wanted: Sequence[tuple[str, str, dict[str, str]]], port: int = 0) -> list[Entrant]:
    """Of (label, peer, settings), each on a port of its own: from `port` on if given. What it needs must be there."""
    ports: list[int] = []
    while len(ports) < len(wanted):
        free = processes.free_port(port + len(ports) if port else 0)
        ports += [free] if free not in ports else []
    made = [Entrant(*one, number) for one, number in zip(wanted, ports)]
    for entrant in made:
        entrant.module.check(entrant.options)
    return made


class Stage:
    def __init__(self, args: argparse.Namespace, workdir: Path, entrants: Sequence[Entrant]) -> None:
        tool("wrk", "wrk")
        self.args, self.workdir, self.entrants = args, workdir, list(entrants)
        self.web_user = sites.WEB_USER if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self.builder = applications.Builder(args.apps_source, applications.destination(args.apps, self.web_user, say),
                                            self.web_user, args.rebuild, say)
        script = workdir / "report.lua"
        script.write_text(REPORT)
        self.load = Load(args.threads, args.connections or CONNECTIONS, args.timeout, args.client_cpus, script)
        self.ini: dict[str, str] = {}
        self.jit = False
        self.database: applications.Database | None = None
        self.database_version = ""
        self.prepared: set[tuple[str, bool]] = set()
        self.sides: list[measure.Side] = []

    def plan(self, scenario: Scenario) -> measure.Plan:
        load = dataclasses.replace(self.load, connections=self.args.connections or scenario.connections)
        return measure.Plan(load, self.args.rounds, self.args.seconds, self.args.warmup, say)

    def _start(self, entrant: Entrant, name: str, root: Path, env: dict[str, str], boot: Boot | None, scenario: str = "") -> measure.Side:
        place = Path(tempfile.mkdtemp(prefix=f"{name}-{entrant.label.replace('/', '-')}-", dir=self.workdir))
        place.chmod(0o755)
        site = sites.Site(name, root, env, place, entrant.port, self.args.workers, self.ini, self.args.server_cpus, boot, scenario)
        processes.free_port(site.port)
        before = processes.count()
        try:
            return measure.Side(entrant.label, entrant.module.start(site, entrant.options))
        except Failure as failure:
            failure.label = entrant.label
            processes.stop_all(but=before)
            raise

    def compare_settings(self, ini: dict[str, str], jit: bool) -> dict[str, phpini.Settings]:
        """From here on PHP has these settings. Each peer that runs PHP tells them; a difference is a failure."""
        self.ini = {**ini, **JIT} if jit else ini
        root = self.workdir / "settings"
        if not root.exists():
            phpini.write_probe(root)
        found: dict[str, phpini.Settings] = {}
        for entrant in self._with_php():
            side = self._start(entrant, "settings", root, {}, None)
            measure.await_ready(side, "/")
            found[side.label] = phpini.read(side.label, side.running.port)
            side.running.stop()
            say(f"{side.label}: {found[side.label].summary()}")
        self._require_same(found, jit)
        return found

    def _with_php(self) -> list[Entrant]:
        """One for each program: the modes of one peer have the settings in common."""
        chosen: dict[tuple[str, str], Entrant] = {}
        for entrant in self.entrants:
            if peers.runs_php(entrant.module):
                told = sorted((key, value) for key, value in entrant.options.items() if key != "mode")
                chosen.setdefault((entrant.peer, str(told)), entrant)
        return list(chosen.values())

    def _require_same(self, found: dict[str, phpini.Settings], jit: bool) -> None:
        if not found:
            return
        first, *others = found
        for other in others:
            lines = phpini.require_same((first, other), found[first], found[other])
            if len(others) == 1:
                say("\n".join(f"  differs: {line}" for line in lines))
            else:
                say(f"{other}: {len(lines)} settings and extensions of a kind that may differ from those of {first}")
        self.jit = any(settings.raw["jit"] for settings in found.values())
        if jit and not self.jit:
            raise Failure("the JIT was asked for, and PHP says that it is off")
        opcache = [f"{key}={value}" for key, value in found[first].key_settings().items() if key.startswith("opcache.")]
        say(textwrap.fill(f"all: {' '.join(opcache)}", 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))

    def _prepare(self, part: Part) -> applications.Database | None:
        """The application is there, with its database, and with its bridge if that is booted."""
        if applications.APPLICATIONS[part.application].database and self.database is None:
            say("starting MariaDB")
            self.database = applications.Database(self.workdir, self.args.server_cpus, getattr(self.args, "database_delay", 0))
            self.database_version = self.database.version()
        database = self.database if applications.APPLICATIONS[part.application].database else None
        for bridged in sorted({False, bool(part.wanted and part.wanted.bridge)}):
            if (part.application, bridged) not in self.prepared:
                self.builder.prepare(part.application, database, bridged)
                self.prepared.add((part.application, bridged))
        return database

    def start(self, scenario: Scenario, parts: Sequence[Part]) -> list[measure.Side]:
        """All servers of a scenario, each on the document root for what it boots."""
        self.sides = sides = []
        for part in parts:
            database, boot = self._prepare(part), part.boot
            root = self.builder.root(part.application, boot.script, boot.bridge) if boot else self.builder.root(part.application)
            sides.append(self._start(part.entrant, part.application, root, database.env() if database else {}, boot, scenario.name))
        return sides

    def stop(self) -> None:
        """All servers of the scenario that runs."""
        for side in self.sides:
            side.running.stop()
        self.sides = []

    def empty(self, parts: Sequence[Part]) -> None:
        for name in {part.application for part in parts}:
            self.builder.empty(name)

    def shared(self, parts: Sequence[Part]) -> processes.Groups:
        """The processes that work for whichever side has its turn."""
        used = any(applications.APPLICATIONS[part.application].database for part in parts)
        return self.database.groups() if used and self.database else {}

    def environment(self) -> dict[str, Any]:
        versions: dict[str, str] = {"mariadb": self.database_version} if self.database_version else {}
        for entrant in self.entrants:
            versions |= entrant.module.versions(entrant.options)
        return {**report.environment(), "versions": versions, "server_cpus": self.args.server_cpus or "all",
                "client_cpus": self.args.client_cpus or "all", "workers": self.args.workers, "user": self.web_user,
                "peer_settings": {entrant.label: entrant.options for entrant in self.entrants}}
