"""What bench/all measures: the servers that take part, the pages, and who serves which page how."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import peer_files
import peers
from distribution import with_version
from failure import Failure, pick
from scenarios import LARAVEL, SCENARIOS, SYMFONY, WORDPRESS, Boot, Scenario
from stage import Entrant, Part, entrants

BASE = "nginx_fpm"  # what all are compared with
# label -> (peer, its settings, what it is)
FIELD: dict[str, tuple[str, dict[str, str], str]] = {
    BASE: ("nginx_fpm", {}, "nginx before PHP-FPM over a unix socket"),
    "apache": ("apache", {}, "Apache with PHP as its module (prefork)"),
    "node-single": ("node", {"processes": "1"}, "node, one process; only pages without an application in PHP"),
    "node-cluster": ("node", {}, "node, a cluster of as many processes as there are workers"),
    "reprise-classic": ("reprise", {"mode": "classic"}, "Reprise; the script runs anew for each request, as elsewhere"),
    "reprise-snapshot": ("reprise", {"mode": "snapshot"}, "Reprise; booted once, memory put back after each request"),
    "reprise-worker": ("reprise", {"mode": "worker"}, "Reprise; a loop in a script that stays, nothing is put back"),
}


@dataclass(frozen=True)
class Page:
    """One page that all serve. What Reprise boots for it is by mode: the application and the script."""

    scenario: Scenario
    what: str
    booted: Mapping[str, tuple[str, Boot]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.scenario.name


def _bridge(application: str, boot: Boot, *modes: str) -> dict[str, tuple[str, Boot]]:
    return {mode: (application, dataclasses.replace(boot, mode=mode)) for mode in modes}


def _scripts(application: str, snapshot: str, worker: str) -> dict[str, tuple[str, Boot]]:
    return {"snapshot": (application, Boot(snapshot)), "worker": (application, Boot(worker, "worker"))}


PAGES: dict[str, Page] = {
    page.name: page
    for page in (
        Page(SCENARIOS["hello"], "one line of text", _scripts("snapshot", "index.php", "worker.php")),
        Page(SCENARIOS["json"], "40 records as JSON, 7 KB", _scripts("snapshot", "snapshot_json.php", "worker_json.php")),
        Page(SCENARIOS["blog"], "108,000 drawn characters through a file, 108 KB, 200 connections",
             _scripts("snapshot", "snapshot_blog.php", "worker_blog.php")),
        Page(SCENARIOS["eav"], "100 customers with their default billing and shipping addresses out of MariaDB: entities, attributes and "
             "values in tables of their own, four joins; each request opens its connection", _scripts("eav", "snapshot.php", "worker.php")),
        Page(SCENARIOS["symfony"], f"{with_version('Symfony')}, a blog's first page out of SQLite",
             _bridge("symfony", SYMFONY, "snapshot", "worker")),
        Page(SCENARIOS["laravel"], f"{with_version('Laravel')}, a blog's first page out of SQLite, for a visitor who has a session in a file",
             _bridge("laravel", LARAVEL, "snapshot", "worker")),
        Page(SCENARIOS["wordpress"], f"{with_version('WordPress')}, the first page out of MariaDB", _bridge("wordpress", WORDPRESS, "snapshot")),
    )
}


def names() -> list[str]:
    return [*FIELD, *peer_files.names()]


def _listed(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def chosen_pages(text: str | None) -> list[Page]:
    wanted = _listed(text) if text is not None else list(PAGES)
    if not wanted:
        raise Failure("--scenario names none", f"known: {', '.join(PAGES)}")
    return [PAGES[pick("scenario", name, PAGES)] for name in wanted]


def chosen_entrants(text: str | None, settings: Sequence[str]) -> list[Entrant]:
    """By name or file; what all are compared with is first, named or not."""
    wanted = _listed(text) if text is not None else list(FIELD)
    rows: list[tuple[str, str, dict[str, str]]] = []
    for name in [BASE, *(name for name in wanted if name != BASE)]:
        if name not in FIELD and peer_files.find(name) is None:
            missing = f"there is no file {name}" if name.endswith(".toml") else f"unknown peer {name!r}"
            raise Failure(missing, f"known: {', '.join(names())}; or a file that ends in .toml (bench/peers/other/README.md)")
        peer, own, _ = FIELD.get(name, (name, {}, ""))
        rows.append((Path(name).stem if name not in FIELD else name, peer, own))
    labels = {label: peer for label, peer, _ in rows}
    if len(labels) < len(rows):
        raise Failure("--peers: two have the same name")
    options = peers.options(labels, list(settings))
    return entrants([(label, peer, {**options[label], **own}) for label, peer, own in rows])


def part(page: Page, entrant: Entrant) -> Part | str:
    """What an entrant serves of a page, or why it does not."""
    served = peers.pages(entrant.module)
    if served is not None and page.name not in served:
        return f"it serves {', '.join(name for name in PAGES if name in served)} only"
    mode = entrant.options.get("mode", "") if entrant.peer == "reprise" else ""
    if mode in ("", "classic"):
        return Part(entrant, page.scenario.application, None)
    if mode not in page.booted:
        return f"the application has no {mode} mode"
    return Part(entrant, *page.booted[mode])


def what(label: str) -> str:
    return FIELD[label][2] if label in FIELD else "a server out of a file of its own; its PHP settings are its own and not compared"
