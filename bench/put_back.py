"""Pages that a rewind puts back, of applications under a server: by its status page, so that any build can be asked."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import applications
import bodies
import measure
import sites
import processes
from peers import reprise
from scenarios import SCENARIOS, Boot

REQUESTS = 500
ATTEMPTS = 4
WARMUP = 600  # a page that is written twice within 256 rewinds is put back by each
# What is shown, by the scenario that serves it.
PAGES = {
    "hello": "hello-snapshot",
    "Symfony, /hello": "symfony-bridge-hello", "Symfony, /api/posts": "symfony-bridge-api",
    "Symfony, /": "symfony-bridge", "Symfony, /post/5": "symfony-bridge-post",
    "Laravel, /hello": "laravel-bridge-hello", "Laravel, /": "laravel-bridge",
    "WordPress, /": "wordpress-bridge",
}


@dataclass(frozen=True)
class Rewinds:
    """Of all workers of a lane."""

    fast: int = 0
    scanned: int = 0
    pages: int = 0

    @property
    def number(self) -> int:
        return self.fast + self.scanned

    def since(self, before: Rewinds) -> Rewinds:
        return Rewinds(self.fast - before.fast, self.scanned - before.scanned, self.pages - before.pages)

    def pages_each(self) -> float:
        return self.pages / self.number

    def as_dict(self) -> dict[str, float]:
        return {"fast": self.fast, "scanned": self.scanned, "pages": self.pages}


def read(status: dict[str, Any], script: str) -> dict[int, Rewinds]:
    """By process, from `reprise status --json`: of the lane that serves the script."""
    lanes = [lane for generations in status["applications"].values() for generation in generations for lane in generation["lanes"]
             if lane["script"] and Path(lane["script"]).name == script]
    return {worker["pid"]: Rewinds(**{key: worker["rewinds"][key] for key in ("fast", "scanned", "pages")})
            for lane in lanes for worker in lane.get("workers", ())}


def added(before: dict[int, Rewinds], after: dict[int, Rewinds]) -> Rewinds:
    """What has happened between two readings; what a worker that has ended did after the first is lost."""
    each = [now.since(before.get(pid, Rewinds())) for pid, now in after.items()]
    return Rewinds(*(sum(getattr(one, name) for one in each) for name in ("fast", "scanned", "pages")))


def cell(rewinds: Rewinds) -> str:
    """Pages of a rewind; the share of fast rewinds if not nearly all are."""
    share = rewinds.fast / rewinds.number
    return f"{rewinds.pages_each():,.0f}" + ("" if share >= 0.99 else f" ({share:.0%} fast)")


def table_rows(found: dict[str, Sequence[Rewinds]]) -> list[list[str]]:
    """One column for each build; with two the ratio of the second to the first."""
    rows = []
    for name, builds in found.items():
        ratio = [f"{builds[1].pages_each() / builds[0].pages_each():.2f}"] if len(builds) == 2 else []
        rows.append([name, *map(cell, builds), *ratio])
    return rows


def alone(boot: Boot) -> Boot:
    """The same boot, but without requests of the server's own: each page is to find only what it has written itself."""
    paths = {"REPRISE_WARMUP": " ".join(boot.warmup)} if boot.warmup else {}
    return dataclasses.replace(boot, warmup=(), env={**boot.env, **paths})


class Applications:
    """Serves pages by one build or two, one after the other."""

    def __init__(self, builder: applications.Builder, workdir: Path, requests: int, say: Callable[[str], None]) -> None:
        self.builder, self.workdir, self.requests, self.say = builder, workdir, requests, say
        self.database: applications.Database | None = None
        self.prepared: set[tuple[str, bool]] = set()

    def measure(self, scenario_name: str, program: str) -> Rewinds:
        scenario = SCENARIOS[scenario_name]
        assert scenario.boot
        boot = alone(scenario.boot)
        self._prepare(scenario.application, boot.bridge)
        place = Path(tempfile.mkdtemp(prefix="reprise-", dir=self.workdir))
        place.chmod(0o755)
        site = sites.Site(scenario.application, self.builder.root(scenario.application, boot.script, boot.bridge),
                          self.database.env() if self.database else {}, place, processes.free_port(), 1, {}, "", boot)
        side = measure.Side(program or "reprise", reprise.start(site, reprise.settings(program=program)))
        measure.await_ready(side, scenario.path)
        self._send(side, scenario.path, WARMUP)
        rewinds = Rewinds()
        for _ in range(ATTEMPTS):
            before = self._read(side, place, boot.script, program)
            self._send(side, scenario.path, self.requests)
            rewinds = added(before, self._read(side, place, boot.script, program))
            # Less if the worker has made room for one of a newer snapshot.
            if rewinds.number >= 0.9 * self.requests:
                break
        else:
            raise side.failed(f"only {rewinds.number} rewinds after {self.requests} requests for {scenario.path}", "are its workers replaced?")
        side.running.stop()
        self.builder.empty(scenario.application)
        return rewinds

    def _prepare(self, name: str, bridged: bool) -> None:
        if applications.APPLICATIONS[name].database and self.database is None:
            self.say("starting MariaDB")
            self.database = applications.Database(self.workdir)
        for one in {False, bridged}:
            # Where there is a database, an application is built with it in each run: once is enough.
            if (name, one) not in self.prepared:
                self.builder.prepare(name, self.database, one)
                self.prepared.add((name, one))

    @staticmethod
    def _send(side: measure.Side, path: str, requests: int) -> None:
        for _ in range(requests):
            status = bodies.fetch(side.running.port, path).status
            if status != 200:
                raise side.failed(f"answers {path} with status {status}")

    @staticmethod
    def _read(side: measure.Side, place: Path, script: str, program: str) -> dict[int, Rewinds]:
        return read(reprise.status(place / "reprise.toml", {"program": program}), script)
