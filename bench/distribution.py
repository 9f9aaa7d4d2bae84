"""Which version of PHP the distribution has. Peers and clients run that one; without a command-line PHP it is the newest in /etc/php."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"php(\d+\.\d+)")


def _php() -> str:
    named = _NAME.fullmatch(Path("/usr/bin/php").resolve().name)
    if named:
        return named[1]
    versions = [path.name for path in Path("/etc/php").glob("*.*")]
    return max(versions, key=lambda version: [int(part) for part in version.split(".")], default="8.4")


PHP = _php()  # "8.2": what a package php8.2-NAME is called after
