"""What bench/cache-clients can measure: clients, serializers, values, operations, transports, processes. Pure functions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from distribution import PHP
from failure import Failure

MULTI_LIMIT_BYTES = 16 << 20  # of one multi-get


@dataclass(frozen=True)
class Client:
    label: str
    server: str  # "" for none
    extension: str  # "" for one written in PHP
    package: str  # of Debian
    serializers: tuple[str, ...]


@dataclass(frozen=True)
class Value:
    """A record of three fields, with the rows of a query's result if there are any, or with what a site has."""

    rows: int  # rows, points of a menu or routes
    keys: int  # how many different ones are stored, at least
    about_bytes: int  # as PHP serializes it
    kind: str = "rows"  # as the PHP script knows it


@dataclass(frozen=True)
class Operation:
    name: str  # as the PHP script knows it
    size: int = 1  # keys of one call


CLIENTS = {
    "memcached": Client("Memcached", "memcached", "memcached", f"php{PHP}-memcached", ("php", "igbinary", "by-hand")),
    "memcache": Client("Memcache", "memcached", "memcache", f"php{PHP}-memcache", ("php", "by-hand")),
    "phpredis": Client("PhpRedis", "redis", "redis", f"php{PHP}-redis", ("php", "igbinary", "by-hand")),
    "predis": Client("Predis", "redis", "", "php-predis", ("php", "by-hand")),
    "apcu": Client("APCu", "", "apcu", f"php{PHP}-apcu", ("php", "igbinary", "by-hand")),
    "reprise": Client("Reprise", "", "", "", ("php",)),
}
SERIALIZERS = {
    "php": "PHP's own; with Predis, which has none, by calls of serialize() and unserialize(); with Reprise none: it keeps arrays as they are",
    "igbinary": "igbinary by the client, as an option of it",
    "by-hand": "igbinary_serialize() and igbinary_unserialize() in PHP code, the client stores strings",
}
VALUES = {"small": Value(0, 100, 80), "medium": Value(25, 100, 4_300), "huge": Value(800, 16, 140_000),
          "menu": Value(150, 100, 30_000, "menu"), "routes": Value(400, 16, 158_000, "routes")}
SITE = ("menu", "routes")  # what a site has; few read such values alone
OPERATIONS = {
    "get": Operation("get"), "set": Operation("set"), "multi-10": Operation("multi", 10), "multi-250": Operation("multi", 250),
    "multi-500": Operation("multi", 500), "miss": Operation("miss"),
}
TRANSPORTS = {"unix": "unix socket", "tcp": "TCP, 127.0.0.1", "memory": "shared memory (APCu, Reprise)"}
PROCESSES = (1, 2, 50, 100, 150)
DIMENSIONS: dict[str, tuple[str, ...]] = {
    "client": tuple(CLIENTS), "serializer": tuple(SERIALIZERS), "value": tuple(VALUES), "operation": tuple(OPERATIONS),
    "transport": tuple(TRANSPORTS), "processes": tuple(map(str, PROCESSES)),
}
Filters = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Cell:
    """One row of the table."""

    client: str
    serializer: str
    value: str
    operation: str
    transport: str
    processes: int

    @property
    def shape(self) -> tuple[str, str, str, int]:
        """What clients are compared in. A cache in one's own memory stands beside the shortest way to a server."""
        return self.value, self.operation, "unix" if self.transport == "memory" else self.transport, self.processes

    @property
    def server(self) -> str:
        """The server it needs; each transport has one of its own."""
        server = CLIENTS[self.client].server
        return f"{server} {self.transport}" if server else ""

    def is_possible(self) -> bool:
        size, value = OPERATIONS[self.operation].size, VALUES[self.value]
        return (self.serializer in CLIENTS[self.client].serializers
                and (self.transport == "memory") == (not CLIENTS[self.client].server)
                and size * value.about_bytes <= MULTI_LIMIT_BYTES
                # Nothing is read by a miss.
                and (self.operation != "miss" or (self.value, self.serializer) == ("small", "php")))

    def is_usual(self) -> bool:
        """Whether it is in the default choice, in which one thing is varied at a time around one medium get."""
        value, operation, transport, processes = self.shape
        near = transport == "unix" and processes == 1
        if value in SITE:
            return transport == "unix" and (operation == "get" and processes in (1, 50) or near and operation == "set") and self.serializer != "by-hand"
        if self.serializer != "php":
            return near and operation in ("get", "set", "multi-250") and (operation != "multi-250" or value == "medium")
        return (near and (value == "medium" or operation in ("get", "set", "miss"))
                or processes == 1 and value == "medium" and operation in ("get", "multi-250")
                or transport == "unix" and value == "medium" and operation == "get")

    def __str__(self) -> str:
        plural = "es" if self.processes > 1 else ""
        return (f"{CLIENTS[self.client].label}, {self.serializer}, {self.value} {self.operation}, {self.transport}, "
                f"{self.processes} process{plural}")


def choose(dimension: str, text: str) -> tuple[str, ...]:
    """The names of a comma-separated list; an unknown one is refused with all that are known."""
    known = DIMENSIONS[dimension]
    names = tuple(dict.fromkeys(name for name in text.split(",") if name))
    for name in names:
        if name not in known:
            raise Failure(f"--{dimension} {name}: unknown", f"known: {', '.join(known)}")
    if not names:
        raise Failure(f"--{dimension} {text!r}: names nothing", f"known: {', '.join(known)}")
    return names


def cells(full: bool, filters: Filters) -> list[Cell]:
    """The chosen rows, those of one shape together."""
    every = (Cell(client, serializer, value, operation, transport, int(processes))
             for value, operation, transport, processes, client, serializer in itertools.product(
                 *(DIMENSIONS[name] for name in ("value", "operation", "transport", "processes", "client", "serializer"))))
    possible = [cell for cell in every if cell.is_possible()
                and all(str(getattr(cell, name)) in wanted for name, wanted in filters.items())]
    chosen = [cell for members in groups(possible) for cell in members if full or cell.is_usual()]
    if not chosen:
        asked = " ".join(f"--{name} {','.join(wanted)}" for name, wanted in filters.items())
        if possible:
            raise Failure(f"nothing of the default choice is {asked}", "add --full: it has what is asked for")
        raise Failure(f"nothing can be measured with {asked}",
                      "APCu and Reprise have the transport memory, the others unix and tcp; a miss is measured with small values and php")
    return chosen


def groups(chosen: Iterable[Cell]) -> list[list[Cell]]:
    """By shape, in the order of first appearance."""
    found: dict[tuple[str, str, str, int], list[Cell]] = {}
    for cell in chosen:
        found.setdefault(cell.shape, []).append(cell)
    return list(found.values())


def in_turn(members: Sequence[Cell], number: int) -> list[Cell]:
    """The order of round `number`: forwards, then backwards, so that a steady drift hits all alike; and each begins elsewhere,
    so that nobody always follows the same one."""
    start = number // 2 % len(members)
    turned = [*members[start:], *members[:start]]
    return turned if number % 2 == 0 else turned[::-1]
