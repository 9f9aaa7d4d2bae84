"""Which version of PHP the distribution has, and which applications it has for it. Peers and clients run that PHP; without a command-line
PHP it is the newest in /etc/php."""

from __future__ import annotations

import os
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

# Where an application says its version, below /usr/share.
_VERSIONS = {
    "Symfony": "php/Symfony/Component/HttpKernel/Kernel.php",
    "Laravel": "php/Illuminate/Foundation/Application.php",
    "WordPress": "wordpress/wp-includes/version.php",
}
_VERSION = re.compile(r"^(?:\$wp_version|\s*(?:public )?const VERSION) = '([^']+)';", re.MULTILINE)


def share(php: str = PHP) -> Path:
    """Where tests/apps/setup.sh takes applications from: with PHP 8.2 Debian's own, with a later one what fetch.sh unpacks."""
    return Path("/usr/share") if php == "8.2" else Path(os.environ.get("REPRISE_APPS") or "/opt/reprise-apps") / "usr" / "share"


def with_version(name: str, below: Path | None = None) -> str:
    """Its name with its version; the name alone where it is not installed."""
    try:
        said = _VERSION.search(((below or share()) / _VERSIONS[name]).read_text(errors="replace"))
    except OSError:
        return name
    return f"{name} {said[1]}" if said else name
