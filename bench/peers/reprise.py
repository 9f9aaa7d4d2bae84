"""Reprise as built in this tree."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import bodies
import processes
from failure import Failure, pick
from sites import Running, Site
from scenarios import Boot

# As shipped; the self-tests run what the other tests run.
BUILT = Path(os.environ.get("REPRISE_PROGRAMS") or Path(__file__).resolve().parents[2] / "target" / "release") / "reprise"
# Of the CPU time of all workers; classic ones wake up once a second.
SNAPSHOT_SHARE = 0.98
STATUS = "/reprise-status"
MODES = ("snapshot", "worker", "classic")
OPTIONS: dict[str, tuple[str, str]] = {
    "program": ("", "the executable; target/release/reprise if empty"),
    "entry": ("", "front controller with a snapshot or a loop, instead of the scenario's"),
    "count": ("", "1: with a status page, which tells the requests of each process"),
    "mode": ("", "snapshot, worker or classic, instead of the scenario's"),
    "env": ("", "NAME=VALUE, one more variable of the application's environment"),
    "kept": ("", "workers that keep their connections to the database"),
    "request_timeout": ("", "longest time of a request, instead of the default"),
}


def _program(options: dict[str, str]) -> Path:
    return Path(options["program"]).absolute() if options["program"] else BUILT


def settings(**chosen: str) -> dict[str, str]:
    """All options, those that are not named with their defaults: what `check` and `start` take."""
    unknown = chosen.keys() - OPTIONS.keys()
    assert not unknown, unknown
    return {**{name: default for name, (default, _) in OPTIONS.items()}, **chosen}


def check(options: dict[str, str]) -> None:
    program = _program(options)
    if not os.access(program, os.X_OK):
        raise Failure(f"{program} is not there", "cargo build --release")
    if options["mode"]:
        pick("mode", options["mode"], MODES)
    if options["env"] and not options["env"].partition("=")[1]:
        raise Failure(f"env={options['env']} is not NAME=VALUE")


def versions(options: dict[str, str]) -> dict[str, str]:
    try:
        told = subprocess.run([_program(options), "--version"], capture_output=True, text=True, timeout=10)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{_program(options)} --version does not end") from error
    return {"reprise": (told.stdout.strip() or "unknown").splitlines()[0]}


def _table(name: str, rows: dict[str, str]) -> list[str]:
    return [name, *(f"{quoted(key)} = {quoted(value)}" for key, value in rows.items())] if rows else []


def quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are a part of TOML's, but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def boot(wanted: Boot | None, options: dict[str, str]) -> Boot | None:
    """The scenario's, or what the options make of it. The entries' names say which of them have a loop."""
    if wanted is None or options["mode"] == "classic":
        return None
    if options["entry"]:
        wanted = Boot(options["entry"], "worker" if options["entry"].startswith("worker") else "snapshot")
    return dataclasses.replace(wanted, mode=options["mode"] or wanted.mode)


def kind(options: dict[str, str]) -> str:
    mode = options["mode"] or ("worker" if options["entry"].startswith("worker") else "")
    return f"reprise {mode}" if mode else "reprise"


def application(boot: Boot) -> list[str]:
    """The application's lines for what is booted."""
    paths = ", ".join(map(quoted, boot.warmup))
    return [f"front_controller = {quoted(boot.script)}", f'mode = {{ {quoted(boot.script)} = {quoted(boot.mode)} }}',
            *([f"warmup = [{paths}]"] if boot.warmup else [])]


def configuration(site: Site, count: bool = False, request_timeout: str = "", kept: str = "") -> str:
    env: dict[str, str] = {}
    if site.boot and site.boot.bridge:
        env = {**site.boot.env, "REPRISE_MODE": site.boot.mode}
    lines = [
        f'listen = ["127.0.0.1:{site.port}"]',
        f"state_dir = {quoted(str(site.workdir / 'state'))}",
        f"access_log = {quoted(str(site.workdir / 'access.log'))}",
        "",
        "[[application]]",
        f"name = {quoted(site.name)}",
        f"root = {quoted(str(site.root))}",
        *([f"user = {quoted(site.user)}"] if os.geteuid() == 0 else []),
        f"workers = {site.workers}",
        # Each response is made by PHP, as the peers' are.
        "cache_memory = 0",
        *([f'status_path = "{STATUS}"'] if count else []),
        *([f"kept_connections = {kept}"] if kept else []),
        *([f"request_timeout = {quoted(request_timeout)}"] if request_timeout else []),
        *(application(site.boot) if site.boot else []),
        *_table("[application.ini]", site.ini),
        *_table("[application.env]", {**site.env, **env}),
    ]
    return "\n".join(lines) + "\n"


def groups(supervisor: int) -> processes.Groups:
    """The supervisor, the front, and PHP (prototype, templates and workers alike)."""
    found: processes.Groups = {"supervisor": [], "front": [], "workers": []}
    for pid in processes.tree(supervisor):
        name = processes.comm(pid)
        if pid != supervisor and name == "reprise-front":
            found["front"].append(pid)
        elif pid != supervisor and name.startswith("reprise-php"):
            found["workers"].append(pid)
        else:
            found["supervisor"].append(pid)
    return found


def split(parents: dict[int, int], supervisor: int, php: list[int]) -> tuple[list[int], list[int]]:
    """(clones, classic workers): a prototype forks classic workers and templates, a template forks clones."""
    prototypes = {pid for pid in php if parents.get(pid) == supervisor}
    of_prototypes = {pid for pid in php if parents.get(pid) in prototypes}
    clones = [pid for pid in php if parents.get(pid) in of_prototypes]
    templates = {parents[pid] for pid in clones}
    return clones, sorted(of_prototypes - templates)


def clones(supervisor: int) -> tuple[list[int], list[int]]:
    php = groups(supervisor)["workers"]
    return split({pid: processes.parent(pid) for pid in php}, supervisor, php)


def served(port: int, script: str) -> dict[int, int]:
    """Requests by process, of the workers that serve the script: those of its lane if it has one."""
    told = json.loads(bodies.fetch(port, f"{STATUS}?full&json").body)["processes"]
    lanes = {one["lane"] for one in told}
    lane = next((name for name in lanes if Path(name).name == script), "classic")
    return {one["pid"]: one["requests"] for one in told if one["lane"] == lane}


def status(config: Path, options: dict[str, str]) -> dict[str, Any]:
    """What `reprise status --json` prints of a running server."""
    command = [str(_program(options)), "status", "--config", str(config), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{' '.join(command)} does not end") from error
    if done.returncode:
        raise Failure(f"{' '.join(command)} ended with status {done.returncode}", detail=done.stderr)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


class SnapshotCheck:
    """The script is booted, and since the first call it is clones that answer: nearly all CPU time of workers is theirs.
    The pages do not tell who answers them, and a path may lead to another script than the one that is booted."""

    def __init__(self, server: processes.Started, script: str) -> None:
        self.server, self.script = server, script
        self.before: dict[int, int] | None = None  # CPU time by process
        self.used = [0, 0]  # of clones and of others, since the first call

    def __call__(self) -> None:
        if f"/{self.script} is booted" not in self.server.log.read_text(errors="replace"):
            raise self.server.failed(f"{self.script} is not booted")
        now = [{pid: processes.cpu_ns(pid) for pid in pids} for pids in clones(self.server.pid)]
        before, self.before = self.before, {pid: ns for pids in now for pid, ns in pids.items()}
        if before is None:
            return
        # From call to call: clones that are idle for long are replaced, and what they have used is gone with them.
        self.used = [used + sum(ns - before.get(pid, 0) for pid, ns in pids.items()) for used, pids in zip(self.used, now)]
        of_clones, of_others = self.used
        if of_clones < SNAPSHOT_SHARE * (of_clones + of_others) or of_clones <= 0:
            raise self.server.failed(f"not every request is answered from the lane of {self.script}: its workers used "
                                     f"{of_clones / 1e6:.0f} ms of CPU time, classic ones {of_others / 1e6:.0f} ms")


def start(site: Site, options: dict[str, str]) -> Running:
    if options["env"]:
        name, _, value = options["env"].partition("=")
        site = dataclasses.replace(site, env={**site.env, name: value})
    text = configuration(site, bool(options["count"]), options["request_timeout"], options["kept"])
    config = site.workdir / "reprise.toml"
    config.write_text(text)
    server = processes.start("reprise", [str(_program(options)), "serve", "--config", str(config)],
                             site.workdir / "reprise.log", cpus=site.cpus)
    if site.boot:
        # Until its entries are booted the server answers in classic mode.
        processes.wait_until(lambda: "ready after" in server.log.read_text(errors="replace"), 30, server,
                             "it says that it is ready")
    return Running("reprise", site.port, [server], lambda: groups(server.pid), site.workdir / "access.log", [],
                   {"reprise.toml": text},
                   (lambda: served(site.port, "index.php" if site.boot is None else site.boot.script)) if options["count"] else None,
                   SnapshotCheck(server, site.boot.script) if site.boot else lambda: None)
