"""One side of bench/cache-deaths: requests all the time, deaths at random points, and what comes of them."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from death_servers import WORKERS, Victims
from failure import Failure

LONGEST_MS = 6.0  # from one death to the next, beside the response that is awaited


@dataclass(frozen=True)
class Plan:
    kills: int
    seconds: float
    patience: float
    watch: float
    steps: int


@dataclass
class Deaths:
    kills: int = 0
    seconds: float = 0.0
    answered: int = 0
    unanswered: int = 0  # the worker died, or all were blocked
    hangs: int = 0
    watched_s: float = 0.0  # how long the first hang was watched, without an end
    wrong: int = 0
    lost: int = 0
    crashes: int = 0
    first: str = ""  # of what was wrong or lost
    waits_ms: list[float] = field(default_factory=list)  # from each death to the next response

    def run(self, start: Callable[[int], Victims], plan: Plan, dice: random.Random, began: float) -> None:
        """Kills until there are as many as planned or the time is over. A server that hangs is started anew."""
        starts = 0
        while self.kills < plan.kills and time.monotonic() - began < plan.seconds:
            victims = start(starts)
            starts += 1
            crowd = Crowd(victims.port, plan, self)
            try:
                crowd.begin()
                self._kill(victims, crowd, plan, dice, began)
            finally:
                crowd.end()
                victims.stop()
                self.crashes += victims.crashes()
        self.seconds = time.monotonic() - began

    def _kill(self, victims: Victims, crowd: Crowd, plan: Plan, dice: random.Random, began: float) -> None:
        while self.kills < plan.kills and time.monotonic() - began < plan.seconds:
            time.sleep(dice.uniform(0, LONGEST_MS) / 1000)  # the random point
            workers = victims.workers()
            if not workers:
                continue
            before = self.answered
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(workers), signal.SIGKILL)
                self.kills += 1
            killed = time.monotonic()
            if crowd.goes_on(before, plan.patience):
                self.waits_ms.append((time.monotonic() - killed) * 1000)
                continue
            self.hangs += 1
            if self.hangs == 1:
                if crowd.goes_on(before, plan.watch):
                    raise Failure("a hang has ended by itself", "a larger --patience")
                self.watched_s = time.monotonic() - killed
            return


class Crowd:
    """As many clients as there are workers; each asks again when it has its response."""

    def __init__(self, port: int, plan: Plan, counts: Deaths) -> None:
        self.port, self.plan, self.counts = port, plan, counts
        self.changed, self.is_over = threading.Condition(), False
        self.threads = [threading.Thread(target=self._ask, args=(number,), daemon=True) for number in range(WORKERS)]

    def begin(self) -> None:
        """All values that are to stay are stored, and somebody has read some."""
        deadline = time.monotonic() + 20
        said = ""
        while said != "kept":
            with contextlib.suppress(OSError, http.client.HTTPException):
                said = self._get("/index.php?keep=1")[1]
            if time.monotonic() > deadline:
                raise Failure("the server does not answer", detail=said)
        for thread in self.threads:
            thread.start()
        if not self.goes_on(self.counts.answered, 20):
            raise Failure("no request ends, before anybody was killed")

    def goes_on(self, before: int, seconds: float) -> bool:
        """Whether a request ends within that time."""
        with self.changed:
            return self.changed.wait_for(lambda: self.counts.answered > before, seconds)

    def end(self) -> None:
        self.is_over = True

    def _get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.plan.patience)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        finally:
            connection.close()

    def _ask(self, number: int) -> None:
        while not self.is_over:
            number += WORKERS
            try:
                status, said = self._get(f"/index.php?seed={self.port * 1000 + number}&steps={self.plan.steps}")
            except (OSError, http.client.HTTPException):
                status, said = 0, ""
            with self.changed:
                counts = self.counts
                # The script always says something; a server that is ended while it runs may not.
                if status != 200 or not said or self.is_over:
                    counts.unanswered += 1
                    continue
                counts.answered += 1
                counts.lost += said.startswith("lost")
                counts.wrong += said != "right" and not said.startswith("lost")
                if said != "right":
                    counts.first = counts.first or said
                self.changed.notify_all()
