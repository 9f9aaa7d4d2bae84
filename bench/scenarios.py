"""What is measured: one row per scenario."""

from __future__ import annotations

import re
from dataclasses import dataclass

from intervals import Goal

# Where two honest answers to one request may differ. Anything else that differs fails the run.
NORMALISATIONS: dict[str, tuple[re.Pattern[bytes], bytes]] = {
    "csrf-token": (re.compile(rb'(name="csrf-token" content=")[A-Za-z0-9]{40}'), rb"\1TOKEN"),
    "nonce": (re.compile(rb'("?nonce"?[:=]\s*")[0-9a-f]{10}'), rb"\1NONCE"),
}


@dataclass(frozen=True)
class Scenario:
    name: str
    application: str  # a row of applications.APPLICATIONS
    path: str
    goal: Goal | None = None  # of Reprise against nginx with PHP-FPM
    normalise: tuple[str, ...] = ()
    # The front controller, with a snapshot or a loop, of peers that have such; it must serve from that. Others have index.php.
    snapshot: str = ""

    def normalised(self, body: bytes) -> bytes:
        for name in self.normalise:
            pattern, replacement = NORMALISATIONS[name]
            body = pattern.sub(replacement, body)
        return body


SCENARIOS: dict[str, Scenario] = {
    row.name: row
    for row in (
        Scenario("hello", "plain", "/", Goal(3.0)),
        Scenario("json", "plain", "/json.php", Goal(2.0)),
        Scenario("symfony", "symfony", "/", Goal(1.05)),
        Scenario("symfony-hello", "symfony", "/hello"),
        Scenario("symfony-post", "symfony", "/post/5"),
        Scenario("symfony-api", "symfony", "/api/posts"),
        Scenario("laravel", "laravel", "/", normalise=("csrf-token",)),
        Scenario("laravel-hello", "laravel", "/hello", normalise=("csrf-token",)),
        Scenario("slim-hello", "slim", "/hello"),
        Scenario("wordpress", "wordpress", "/", Goal(1.0, "reaches"), ("nonce",)),
        Scenario("wordpress-feed", "wordpress", "/feed/"),
        Scenario("hello-snapshot", "snapshot", "/", Goal(2.2), snapshot="index.php"),
        Scenario("hello-worker", "snapshot", "/", Goal(4.0), snapshot="worker.php"),
        Scenario("array-snapshot", "snapshot", "/array.php?i=123456", Goal(20.0), snapshot="array.php"),
        Scenario("symfony-snapshot", "symfony", "/", Goal(1.7), snapshot="snapshot.php"),
        Scenario("symfony-snapshot-post", "symfony", "/post/5", Goal(2.1), snapshot="snapshot.php"),
        Scenario("symfony-snapshot-hello", "symfony", "/hello", Goal(4.0), snapshot="snapshot.php"),
    )
}

# CPU per request on the scenario `hello`, in µs, by the groups of peers/reprise.py.
CPU_GOALS: dict[str, float] = {"front": 10.0, "workers": 14.0}
