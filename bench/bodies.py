"""Fetching pages and requiring that all sides answer alike."""

from __future__ import annotations

import difflib
import hashlib
import http.client
from collections.abc import Sequence
from dataclasses import dataclass

from failure import Failure
from scenarios import Scenario

# Sent by every client to every peer, so that links made from it are the same on both sides.
HOST = "localhost"
TIMEOUT_S = 30.0
BODY_LIMIT = 64 << 20


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    cookies: str  # that it sets, as a client sends them back


def fetch(port: int, path: str, timeout_s: float = TIMEOUT_S) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", path, headers={"Host": HOST, "Connection": "close"})
        response = connection.getresponse()
        body = response.read(BODY_LIMIT + 1)
        if len(body) > BODY_LIMIT:
            raise Failure(f"{path}: a body above {BODY_LIMIT >> 20} MiB")
        cookies = "; ".join(value.partition(";")[0] for value in response.headers.get_all("set-cookie", []))
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body, cookies)
    finally:
        connection.close()


def excerpt(body: bytes, limit: int = 1500) -> str:
    text = body[:limit].decode(errors="replace")
    return text + (f"\n… {len(body) - limit} bytes more" if len(body) > limit else "")


def difference(first: bytes, second: bytes, names: tuple[str, str]) -> str:
    """The first differing lines; long lines are cut around the place where they begin to differ."""
    at = next((i for i, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second)))
    lines = list(difflib.unified_diff(first.decode(errors="replace").splitlines(),
                                      second.decode(errors="replace").splitlines(), *names, n=1, lineterm=""))
    head = f"{len(first)} and {len(second)} bytes, different from byte {at} on"
    if lines and max(map(len, lines[:24])) <= 300:
        return "\n".join([head, *lines[:24]])
    around = slice(max(0, at - 80), at + 160)
    return "\n".join([head, *(f"{name}: …{body[around]!r}…" for name, body in zip(names, (first, second)))])


@dataclass(frozen=True)
class Check:
    """What one comparison found: the digest of the body all sides sent, and headers that only one of a pair sends."""

    sha256: str
    size: int
    unlike_headers: tuple[str, ...]


def _answer(scenario: Scenario, label: str, port: int, path: str, when: str) -> Answer:
    try:
        answer = fetch(port, path)
    except (OSError, http.client.HTTPException) as error:
        raise Failure(f"{scenario.name}: {label} does not answer {path} {when}: {error!r}") from error
    if answer.status != 200:
        raise Failure(f"{scenario.name}: {label} answers {path} with status {answer.status} {when}", detail=excerpt(answer.body))
    if scenario.drawn_bytes and len(answer.body) != scenario.drawn_bytes:
        raise Failure(f"{scenario.name}: the body of {label} has {len(answer.body)} bytes {when}, not {scenario.drawn_bytes}",
                      detail=excerpt(answer.body, 300))
    return answer


def _require_pair(scenario: Scenario, labels: tuple[str, str], answers: tuple[Answer, Answer], when: str) -> list[str]:
    """Headers that only one of the two has; a failure if their bodies or types differ."""
    first, second = (scenario.normalised(answer.body) for answer in answers)
    if not scenario.drawn_bytes and first != second:
        raise Failure(f"{scenario.name}: the bodies of {labels[0]} and {labels[1]} differ {when}; unlike is not compared",
                      detail=difference(first, second, labels))
    one, two = (answer.headers for answer in answers)
    if one.get("content-type") != two.get("content-type"):
        raise Failure(f"{scenario.name}: the content types of {labels[0]} and {labels[1]} differ {when}",
                      detail=f"{one.get('content-type')} and {two.get('content-type')}")
    return [f"{name} ({labels[0]} only)" for name in sorted(one.keys() - two.keys())] + [
        f"{name} ({labels[1]} only)" for name in sorted(two.keys() - one.keys())]


def require_alike(scenario: Scenario, sides: Sequence[tuple[str, int, str]], when: str) -> Check:
    """Fetch the scenario's page from all sides (label, port, path). Anything but answers of 200 with equal bodies is a failure."""
    answers = [_answer(scenario, label, port, path, when) for label, port, path in sides]
    unlike: list[str] = []
    for (label, _, _), answer in zip(sides[1:], answers[1:]):
        unlike += _require_pair(scenario, (sides[0][0], label), (answers[0], answer), when)
    return Check(hashlib.sha256(scenario.normalised(answers[0].body)).hexdigest(), len(answers[0].body), tuple(unlike))
