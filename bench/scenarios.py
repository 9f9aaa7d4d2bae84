"""What is measured: one row per scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from intervals import Goal

# The two sides of a comparison, by what peers say they are (`kind`): goals are about pairs of these.
Pair = tuple[str, str]
FPM: Pair = ("reprise", "nginx_fpm")
NODE: Pair = ("reprise", "node")
NODE_SINGLE: Pair = ("reprise", "node single")
LOOP: Pair = ("reprise", "reprise worker")

CONNECTIONS = 64

# Where two honest answers to one request may differ. Anything else that differs fails the run.
NORMALISATIONS: dict[str, tuple[re.Pattern[bytes], bytes]] = {
    "csrf-token": (re.compile(rb'(name="csrf-token" content=")[A-Za-z0-9]{40}'), rb"\1TOKEN"),
    "request": (re.compile(rb'("wgRequestId":"|"wgBackendResponseTime":)[0-9a-f]+'), rb"\1"),
    "nonce": (re.compile(rb'("?nonce"?[:=]\s*")[0-9a-f]{10}'), rb"\1NONCE"),
}


@dataclass(frozen=True)
class Boot:
    """The script that a peer boots once, if it can, and how it must serve then. Other peers have index.php."""

    script: str = "index.php"
    mode: str = "snapshot"  # or worker
    bridge: bool = False  # in an application that has its bridge; other peers have the one that has none
    warmup: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    name: str
    application: str  # a row of applications.APPLICATIONS
    path: str
    goals: Mapping[Pair, Goal] = field(default_factory=dict)
    jit_goals: Mapping[Pair, Goal] = field(default_factory=dict)  # those that are only about PHP with its JIT on
    normalise: tuple[str, ...] = ()
    boot: Boot | None = None
    connections: int = CONNECTIONS
    is_visited: bool = False  # the client has been there, and sends the cookies of its first answer: its session is there
    drawn_bytes: int = 0  # the body is drawn anew for each answer, and this long: the length is compared

    def goal(self, pair: Pair, jit: bool) -> Goal | None:
        return (self.jit_goals.get(pair) if jit else None) or self.goals.get(pair)

    def is_judged(self, pair: Pair) -> bool:
        return pair in self.goals or pair in self.jit_goals

    def normalised(self, body: bytes) -> bytes:
        for name in self.normalise:
            pattern, replacement = NORMALISATIONS[name]
            body = pattern.sub(replacement, body)
        return body


# As docs/guides/frameworks.md has it. The pages asked for are among those the boot has warmed.
SYMFONY = Boot(bridge=True, warmup=("/hello", "/", "/post/5", "/api/posts", "/about", "/hello/you"),
               env={"APP_RUNTIME": "Reprise\\Symfony\\Runtime"})
LARAVEL = Boot(bridge=True, warmup=("/hello", "/", "/post/5", "/api/posts"))
WORDPRESS = Boot(bridge=True, warmup=("/", "/post-41/", "/feed/"))
MEDIAWIKI = Boot(bridge=True, warmup=("/wiki/Article_1", "/wiki/Article_2?action=history"))

SCENARIOS: dict[str, Scenario] = {
    row.name: row
    for row in (
        Scenario("hello", "plain", "/", {FPM: Goal(3.0)}),
        Scenario("json", "plain", "/json.php", {FPM: Goal(2.0)}),
        Scenario("blog", "plain", "/blog.php", {FPM: Goal(1.0)}, {NODE_SINGLE: Goal(1.15)}, connections=200, drawn_bytes=108_000),
        Scenario("symfony", "symfony", "/", {FPM: Goal(1.05)}),
        Scenario("symfony-hello", "symfony", "/hello"),
        Scenario("symfony-post", "symfony", "/post/5"),
        Scenario("symfony-api", "symfony", "/api/posts"),
        Scenario("laravel", "laravel", "/", normalise=("csrf-token",), is_visited=True),
        Scenario("laravel-hello", "laravel", "/hello", normalise=("csrf-token",), is_visited=True),
        Scenario("slim-hello", "slim", "/hello"),
        Scenario("wordpress", "wordpress", "/", {FPM: Goal(1.0, "reaches")}, normalise=("nonce",)),
        Scenario("wordpress-feed", "wordpress", "/feed/"),
        Scenario("mediawiki", "mediawiki", "/wiki/Article_1", normalise=("request",)),
        Scenario("mediawiki-bridge", "mediawiki", "/wiki/Article_1", {FPM: Goal(1.1)}, normalise=("request",), boot=MEDIAWIKI),
        Scenario("eav", "eav", "/"),
        Scenario("eav-snapshot", "eav", "/", boot=Boot("snapshot.php")),
        Scenario("eav-worker", "eav", "/", boot=Boot("worker.php", "worker")),
        Scenario("hello-snapshot", "snapshot", "/", {FPM: Goal(2.2)}, boot=Boot()),
        Scenario("hello-worker", "snapshot", "/", {FPM: Goal(4.0), NODE: Goal(0.95)}, boot=Boot("worker.php", "worker")),
        Scenario("json-worker", "snapshot", "/worker_json.php", {NODE: Goal(1.1)}, boot=Boot("worker_json.php", "worker")),
        Scenario("blog-worker", "snapshot", "/worker_blog.php", {FPM: Goal(1.0)}, {NODE_SINGLE: Goal(1.15)},
                 boot=Boot("worker_blog.php", "worker"), connections=200, drawn_bytes=108_000),
        Scenario("array-snapshot", "snapshot", "/array.php?i=123456", {FPM: Goal(20.0)}, boot=Boot("array.php")),
        Scenario("memory-snapshot", "snapshot", "/memory.php", {FPM: Goal(1.0, "reaches")}, boot=Boot("memory.php")),
        Scenario("symfony-snapshot", "symfony", "/", {FPM: Goal(1.7)}, boot=Boot("snapshot.php")),
        Scenario("symfony-snapshot-post", "symfony", "/post/5", {FPM: Goal(2.1)}, boot=Boot("snapshot.php")),
        Scenario("symfony-snapshot-hello", "symfony", "/hello", {FPM: Goal(4.0)}, boot=Boot("snapshot.php")),
        Scenario("symfony-bridge", "symfony", "/", {FPM: Goal(1.8), LOOP: Goal(0.9)}, boot=SYMFONY),
        Scenario("symfony-bridge-post", "symfony", "/post/5", {FPM: Goal(2.2), LOOP: Goal(0.9)}, boot=SYMFONY),
        Scenario("symfony-bridge-api", "symfony", "/api/posts", {FPM: Goal(2.5), LOOP: Goal(0.9)}, boot=SYMFONY),
        Scenario("symfony-bridge-hello", "symfony", "/hello", {FPM: Goal(4.4), LOOP: Goal(0.65)}, boot=SYMFONY),
        Scenario("laravel-bridge", "laravel", "/", {FPM: Goal(1.3)}, normalise=("csrf-token",), is_visited=True, boot=LARAVEL),
        Scenario("laravel-bridge-hello", "laravel", "/hello", {FPM: Goal(2.5)}, normalise=("csrf-token",), is_visited=True, boot=LARAVEL),
        Scenario("symfony-database", "symfony-database", "/", boot=SYMFONY),
        Scenario("symfony-database-post", "symfony-database", "/post/5", boot=SYMFONY),
        Scenario("laravel-database", "laravel-database", "/", normalise=("csrf-token",), is_visited=True, boot=LARAVEL),
        Scenario("laravel-database-api", "laravel-database", "/api/posts", boot=LARAVEL),
        Scenario("wordpress-bridge", "wordpress", "/", {FPM: Goal(1.15)}, normalise=("nonce",), boot=WORDPRESS),
        Scenario("wordpress-bridge-post", "wordpress", "/post-42/", {FPM: Goal(1.15)}, normalise=("nonce",), boot=WORDPRESS),
        Scenario("wordpress-bridge-feed", "wordpress", "/feed/", {FPM: Goal(1.6)}, boot=WORDPRESS),
    )
}

# CPU per request on the scenario `hello`, in µs, by the groups of peers/reprise.py.
CPU_GOALS: dict[str, float] = {"front": 10.0, "workers": 14.0}
