"""The effective PHP settings of each peer, asked of the peer itself over HTTP, must be the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bodies
from failure import Failure

PROBE = """<?php
$jit = function_exists('opcache_get_status') ? (opcache_get_status(false)['jit']['on'] ?? false) : false;
header('Content-Type: application/json');
echo json_encode(['version' => PHP_VERSION, 'sapi' => PHP_SAPI, 'zts' => PHP_ZTS, 'debug' => PHP_DEBUG, 'jit' => $jit,
    'opcache' => function_exists('opcache_get_status') && opcache_get_status(false) !== false,
    'user' => posix_geteuid(), 'umask' => umask(),
    'file' => php_ini_loaded_file(), 'extensions' => get_loaded_extensions(),
    'ini' => ini_get_all(null, false)], JSON_INVALID_UTF8_SUBSTITUTE);
"""

KEY_SETTINGS = ("memory_limit", "max_execution_time", "output_buffering", "zend.assertions", "realpath_cache_size")

# What may differ, and why.
EXPECTED_DIFFERENCES: dict[str, str] = {
    "cgi.": "settings of the FastCGI interface",
    "fastcgi.": "settings of the FastCGI interface",
    "fpm.": "settings of the FastCGI interface",
    "reprise.": "Reprise's own",
    "engine": "a setting of Apache's module",
    "last_modified": "a setting of Apache's module",
    "xbithack": "a setting of Apache's module",
    "child_terminate": "a setting of Apache's module",
    "opcache.force_restart_timeout": "Reprise's templates hold opcache's lock and must not be killed for it",
    "opcache.lockfile_path": "a directory",
    "opcache.preload_user": "preloading is off on both sides",
}
# Debian compiles pcntl into libphp but not into php-fpm; unused, it costs nothing.
EXPECTED_EXTENSIONS = frozenset({"cgi-fcgi", "apache2handler", "reprise", "pcntl"})


@dataclass(frozen=True)
class Settings:
    """What one peer's PHP says about itself."""

    raw: dict[str, Any]

    @property
    def ini(self) -> dict[str, str | None]:
        return self.raw["ini"]

    def key_settings(self) -> dict[str, str | None]:
        keys = [*KEY_SETTINGS, *sorted(name for name in self.ini if name.startswith("opcache."))]
        return {name: self.ini.get(name) for name in keys}

    def summary(self) -> str:
        opcache = "on" if self.raw["opcache"] else "OFF"
        jit = "on" if self.raw["jit"] else "off"
        main = " ".join(f"{name}={self.ini.get(name)}" for name in KEY_SETTINGS)
        return f"PHP {self.raw['version']} ({self.raw['sapi']}), opcache {opcache}, JIT {jit}; {main}"


def write_probe(root: Path) -> None:
    root.mkdir(parents=True)
    root.chmod(0o755)
    (root / "index.php").write_text(PROBE)
    (root / "index.php").chmod(0o644)


def write(directory: Path, settings: dict[str, str]) -> None:
    """A directory for PHP_INI_SCAN_DIR with what `-d` would set."""
    directory.mkdir()
    directory.chmod(0o755)
    path = directory / "bench.ini"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    path.chmod(0o644)


def read(label: str, port: int) -> Settings:
    answer = bodies.fetch(port, "/")
    try:
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        return Settings(json.loads(answer.body))
    except ValueError as error:
        raise Failure(f"{label} does not tell its settings: {error}", detail=bodies.excerpt(answer.body)) from error


def expected(name: str) -> str | None:
    """Why a setting may differ; None if it may not."""
    for prefix, reason in EXPECTED_DIFFERENCES.items():
        if name == prefix or (prefix.endswith(".") and name.startswith(prefix)):
            return reason
    return None


def differences(first: Settings, second: Settings) -> tuple[list[str], list[str]]:
    """(what must not differ, what may), one line each."""
    forbidden, allowed = [], []
    absent = "(absent)"
    for name in sorted(first.ini.keys() | second.ini.keys()):
        one, two = first.ini.get(name, absent), second.ini.get(name, absent)
        if one != two:
            reason = expected(name)
            line = f"{name}: {one!r} and {two!r}"
            (allowed if reason else forbidden).append(line + (f" ({reason})" if reason else ""))
    for what in ("version", "zts", "debug", "jit", "opcache", "user", "umask"):
        if first.raw[what] != second.raw[what]:
            forbidden.append(f"{what}: {first.raw[what]!r} and {second.raw[what]!r}")
    unlike = set(first.raw["extensions"]) ^ set(second.raw["extensions"])
    for name in sorted(unlike):
        (allowed if name in EXPECTED_EXTENSIONS else forbidden).append(f"extension {name}: on one side only")
    return forbidden, allowed


def require_same(labels: tuple[str, str], first: Settings, second: Settings) -> list[str]:
    """The allowed differences; any other is a failure."""
    forbidden, allowed = differences(first, second)
    if forbidden:
        raise Failure(f"the PHP settings of {labels[0]} and {labels[1]} differ", "unlike is not compared",
                      "\n".join(forbidden))
    return allowed
