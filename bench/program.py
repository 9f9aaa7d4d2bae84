"""What programs that compare servers have in common: messages, arguments, signals, and leaving nothing behind."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import processes
from failure import Failure

ERROR, USAGE = 2, 64
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        say(f"{Path(self.prog).name}: {message}\nhint: {self.prog} --help")
        sys.exit(USAGE)


def count(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def ini(wanted: list[str]) -> dict[str, str]:
    """PHP settings of --ini."""
    for setting in wanted:
        if not setting.partition("=")[0] or "=" not in setting:
            raise Failure(f"--ini {setting}: not of the form NAME=VALUE")
    return {name: value for name, _, value in (setting.partition("=") for setting in wanted)}


def _interrupted(number: int, _frame: object) -> NoReturn:
    raise Failure(f"ended by {signal.Signals(number).name}")


def run(work: Callable[[Path], int], keep: bool = False) -> int:
    """`work` with a directory of its own. Whatever happens, what it started is ended."""
    for number in SIGNALS:
        signal.signal(number, _interrupted)
    workdir = Path(tempfile.mkdtemp(prefix="reprise-bench-"))
    workdir.chmod(0o755)  # the web user opens sockets and reads documents below it
    try:
        return work(workdir)
    except Failure as failure:
        say(str(failure))
        return ERROR
    except OSError as error:
        say(str(Failure(f"{error.filename or 'system call'}: {error.strerror or error}")))
        return ERROR
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        processes.stop_all()
        if keep:
            say(f"kept: {workdir}")
        else:
            shutil.rmtree(workdir, ignore_errors=True)
