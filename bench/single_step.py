"""A worker that bench/scripts/single_step.c executes instruction by instruction."""

from __future__ import annotations

import platform
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from failure import Failure, tool

SOURCE = Path(__file__).resolve().parent / "scripts" / "single_step.c"
SILENCE_S = 600.0  # between two answers; the program tells about each million of instructions
SEIZE_ATTEMPTS = 20
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


def build(workdir: Path) -> Path:
    """The program, compiled for this run."""
    if platform.machine() != "x86_64":
        raise Failure(f"instructions are counted on x86-64 only; this is {platform.machine()}")
    program = workdir / "single_step"
    done = subprocess.run([tool("cc", "gcc"), "-O2", "-o", str(program), str(SOURCE)], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise Failure(f"{SOURCE.name} could not be compiled", "apt-get install gcc libc6-dev", done.stderr)
    return program


def hint(error: str) -> str:
    """What mends a failure to seize a worker."""
    if "not permitted" not in error and "denied" not in error:
        return ""
    try:
        scope = f"; kernel.yama.ptrace_scope is {YAMA.read_text().strip()} here" if YAMA.exists() else ""
    except OSError:
        scope = ""
    return f"run it as root: processes of Reprise do not let others look into them{scope}. In a container: --cap-add SYS_PTRACE"


class SingleStep:
    """Holds a worker while the block runs."""

    def __init__(self, program: Path, pid: int) -> None:
        self.program, self.pid = program, pid
        self.child: subprocess.Popen[str] | None = None

    def __enter__(self) -> SingleStep:
        for _ in range(SEIZE_ATTEMPTS):
            self.child = subprocess.Popen([str(self.program), str(self.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          text=True, bufsize=1)
            answer = self._answer()
            if answer == "ready":
                return self
            self._end()
            # It was between two waits.
            if not answer.startswith("failed the worker does not wait"):
                raise Failure(f"worker {self.pid}: {answer.removeprefix('failed ')}", hint(answer))
        raise Failure(f"worker {self.pid} never waits for a request")

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self.child and self.child.stdin and self.child.stdout:
            try:
                self.child.stdin.close()  # it lets go then
                self.child.wait(5)
            except (OSError, subprocess.TimeoutExpired):
                self.child.kill()
                self.child.wait()
            self.child.stdout.close()

    def _answer(self) -> str:
        assert self.child and self.child.stdout
        ready, _, _ = select.select([self.child.stdout], [], [], SILENCE_S)
        line = self.child.stdout.readline().rstrip("\n") if ready else ""
        return line or (f"it said nothing for {SILENCE_S:g} s" if not ready else "the program that steps it has ended")

    def _command(self, text: str) -> None:
        assert self.child and self.child.stdin
        self.child.stdin.write(text + "\n")

    def begin(self) -> None:
        self._command("step")

    def until_idle(self, at: Callable[[int], None]) -> int:
        """How many instructions there were until the worker was about to wait again."""
        while True:
            word, _, rest = (answer := self._answer()).partition(" ")
            if word == "idle":
                return int(rest)
            if word != "at":
                raise Failure(f"worker {self.pid} could not be stepped to its end: {answer.removeprefix('failed ')}", hint(answer))
            at(int(rest))

    def write(self, path: Path) -> None:
        self._command(f"write {path}")
        if (answer := self._answer()) != "written":
            raise Failure(f"what was counted could not be written: {answer.removeprefix('failed ')}")


class Progress:
    """A line now and then."""

    def __init__(self, say: Callable[[str], None], what: str, every_s: float = 15.0) -> None:
        self.say, self.what, self.every_s = say, what, every_s
        self.begun = self.last = time.monotonic()

    def __call__(self, steps: int) -> None:
        now = time.monotonic()
        if now - self.last >= self.every_s:
            self.last = now
            self.say(f"{self.what}: {steps:,} instructions in {now - self.begun:.0f} s")
