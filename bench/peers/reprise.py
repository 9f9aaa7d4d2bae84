"""Reprise as built in this tree."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import processes
from failure import Failure
from peers import Running, Site

BUILT = Path(__file__).resolve().parents[2] / "target" / "release" / "reprise"
OPTIONS: dict[str, tuple[str, str]] = {"program": ("", "the executable; target/release/reprise if empty")}


def _program(options: dict[str, str]) -> Path:
    return Path(options["program"]).absolute() if options["program"] else BUILT


def check(options: dict[str, str]) -> None:
    program = _program(options)
    if not os.access(program, os.X_OK):
        raise Failure(f"{program} is not there", "cargo build --release")


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


def configuration(site: Site) -> str:
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
        *_table("[application.ini]", site.ini),
        *_table("[application.env]", site.env),
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


def start(site: Site, options: dict[str, str]) -> Running:
    text = configuration(site)
    config = site.workdir / "reprise.toml"
    config.write_text(text)
    server = processes.start("reprise", [str(_program(options)), "serve", "--config", str(config)],
                             site.workdir / "reprise.log", cpus=site.cpus)
    return Running("reprise", site.port, [server], lambda: groups(server.pid), site.workdir / "access.log", [],
                   {"reprise.toml": text})
