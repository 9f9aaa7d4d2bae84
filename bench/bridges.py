"""The test applications with their bridges, installed as docs/guides/frameworks.md tells users to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from failure import Failure, tool

PACKAGE = Path(__file__).resolve().parents[1] / "composer"


def _require_package(directory: Path) -> None:
    repository = {"type": "path", "url": str(PACKAGE), "options": {"symlink": False}}
    for words in (["config", "repositories.packagist.org", "false"],
                  ["config", "repositories.reprise", json.dumps(repository)],
                  ["require", "--optimize-autoloader", "--classmap-authoritative", "reprise/reprise:*@dev"]):
        command = [tool("composer", "composer"), "--no-interaction", *words]
        done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                              env={**os.environ, "COMPOSER_ALLOW_SUPERUSER": "1", "COMPOSER_DISABLE_NETWORK": "1"})
        if done.returncode:
            raise Failure(f"the package could not be installed in {directory}", detail=f"$ {' '.join(command)}\n{done.stdout[-2000:]}")
    subprocess.run(["chmod", "-R", "a+rX", str(directory / "vendor")], check=True)


def laravel(directory: Path) -> None:
    _require_package(directory)
    subprocess.run(["vendor/bin/reprise-laravel", "--write"], cwd=directory, check=True, stdout=subprocess.DEVNULL)


def wordpress(directory: Path) -> None:
    # The address must be fixed; the clients of these programs send this one.
    config = directory / "htdocs" / "wp-config.php"
    config.write_text(config.read_text().replace("'http://' . $_SERVER['HTTP_HOST']", "'http://localhost'"))
    plugins = directory / "htdocs" / "wp-content" / "mu-plugins"
    plugins.mkdir(exist_ok=True)
    shutil.copy(PACKAGE / "wordpress" / "reprise.php", plugins)
    shutil.copytree(PACKAGE / "wordpress" / "reprise", plugins / "reprise")
    subprocess.run(["chmod", "-R", "a+rX", str(plugins)], check=True)


def mediawiki(directory: Path) -> None:
    shutil.copytree(PACKAGE, directory / "reprise")
    settings = directory / "htdocs" / "LocalSettings.php"
    settings.write_text(settings.read_text() + f"require '{directory}/reprise/mediawiki/reprise.php';\n")
    subprocess.run(["chmod", "-R", "a+rX", str(directory / "reprise")], check=True)


INSTALL: dict[str, Callable[[Path], None]] = {"symfony": _require_package, "laravel": laravel, "wordpress": wordpress,
                                              "mediawiki": mediawiki}
