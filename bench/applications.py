"""The applications served: built by tests/apps/setup.sh, kept between runs, with a database of their own if need be."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import bridges
import intervals
import processes
from failure import Failure, tool

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "tests" / "apps"
DEFAULT_DEST = REPOSITORY / "target" / "bench-apps"
DATABASE_PASSWORD = "bench"


@dataclass(frozen=True)
class Application:
    public: str  # document root below its directory
    built: bool = True  # by setup.sh; otherwise copied
    database: bool = False
    shared: bool = False  # the one with its bridge is a copy, which uses what the other has written
    of: str = ""  # the application that it is with another database; its own name if empty
    emptied: tuple[str, ...] = ()  # files the load leaves behind, removed between runs: session files slow both sides


APPLICATIONS: dict[str, Application] = {
    "plain": Application("public", built=False),
    "snapshot": Application("public", built=False),
    "symfony": Application("public", emptied=("var/sessions/*",)),
    "laravel": Application("public", emptied=("storage/framework/sessions/*",)),
    "symfony-database": Application("public", database=True, of="symfony", emptied=("var/sessions/*",)),
    "laravel-database": Application("public", database=True, of="laravel", emptied=("storage/framework/sessions/*",)),
    "slim": Application("public"),
    "wordpress": Application("htdocs", database=True, shared=True),
    "mediawiki": Application("htdocs", shared=True),  # with PHP 8.3 or later
    "eav": Application("public", database=True),
}


def reachable(directory: Path, user: str) -> bool:
    """Whether `user` may enter `directory` and all above it."""
    account = pwd.getpwnam(user)
    for place in (directory, *directory.parents):
        if not place.exists():
            continue
        info = place.stat()
        bit = stat.S_IXUSR if info.st_uid == account.pw_uid else stat.S_IXGRP if info.st_gid == account.pw_gid else stat.S_IXOTH
        if not info.st_mode & bit:
            return False
    return True


def destination(wanted: Path | None, user: str, say: Callable[[str], None]) -> Path:
    """Where the applications are built: `wanted`, or below target/ if the web user may read there."""
    dest = (wanted or DEFAULT_DEST).absolute()
    if not reachable(dest, user):
        if wanted:
            raise Failure(f"{user} may not read {wanted}", "choose --apps below /var/tmp")
        dest = Path(f"/var/tmp/reprise-bench-apps-{os.geteuid()}")
        say(f"{user} may not read below {DEFAULT_DEST.parent}: the applications are built in {dest}")
    dest.mkdir(mode=0o755, parents=True, exist_ok=True)
    if dest.is_symlink() or dest.stat().st_uid != os.geteuid():
        raise Failure(f"{dest} belongs to somebody else", "choose another directory by --apps")
    return dest


def _fingerprint(source: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(source)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


class Builder:
    """Builds each application once; a change of the sources builds it anew."""

    def __init__(self, source: Path, dest: Path, user: str, rebuild: bool, say: Callable[[str], None]) -> None:
        if not source.is_dir():
            raise Failure(f"{source} is not there", "--apps-source names the directory of the applications' sources")
        self.source, self.dest, self.user, self.rebuild, self.say = source, dest, user, rebuild, say
        self.mark = _fingerprint(source)

    def directory(self, name: str, bridged: bool = False) -> Path:
        place, of = self.dest / "bridged" if bridged else self.dest, APPLICATIONS[name].of
        return place / "database" / of if of else place / name

    def prepare(self, name: str, database: Database | None, bridged: bool = False) -> Path:
        """The application's directory, ready to be served; `bridged` with the package. Both use one database."""
        directory = self.directory(name, bridged)
        stamp = directory.with_name(f".{name}.built")
        mark = self.mark + _fingerprint(bridges.PACKAGE) if bridged else self.mark
        # The database is new in every run, so what depends on it is as well.
        if database is None and not self.rebuild and directory.is_dir() and stamp.is_file() and stamp.read_text() == mark:
            return directory
        self.say(f"building {name} in {directory}")
        stamp.unlink(missing_ok=True)
        directory.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if bridged and APPLICATIONS[name].shared:
            # Building it anew would empty the database, or make another.
            shutil.rmtree(directory, ignore_errors=True)
            subprocess.run(["cp", "-a", str(self.directory(name)), str(directory)], check=True)
        elif APPLICATIONS[name].built:
            self._setup(APPLICATIONS[name].of or name, database, directory.parent)
        else:
            if not (self.source / name).is_dir():
                raise Failure(f"{self.source / name} is not there")
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(self.source / name, directory)
        if not (directory / APPLICATIONS[name].public).is_dir():
            raise Failure(f"{name} was built, but has no {APPLICATIONS[name].public}/")
        if bridged:
            bridges.INSTALL[APPLICATIONS[name].of or name](directory)
        stamp.write_text(mark)
        return directory

    def _setup(self, name: str, database: Database | None, dest: Path) -> None:
        script = self.source / "setup.sh"
        if not script.is_file():
            raise Failure(f"{script} is not there")
        env = {**os.environ, "WEBUSER": self.user, **(database.env() if database else {})}
        command = ["bash", str(script), str(dest), name]
        result = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        if result.returncode:
            tail = "\n".join(result.stdout.splitlines()[-25:])
            raise Failure(f"{name} could not be built (status {result.returncode})",
                          "setup.sh --packages prints the Debian packages it needs", f"$ {' '.join(command)}\n{tail}")

    def root(self, name: str, front_controller: str = "index.php", bridged: bool = False) -> Path:
        """The document root. One with another front controller has no index.php, which would answer for / before it."""
        public = self.directory(name, bridged) / APPLICATIONS[name].public
        if front_controller == "index.php":
            return public
        other = self.dest / name / f"public-{Path(front_controller).stem}"
        other.mkdir(exist_ok=True)
        shutil.copy(public / front_controller, other)
        return other

    def empty(self, name: str) -> None:
        for pattern in APPLICATIONS[name].emptied:
            for directory in (self.directory(name), self.directory(name, bridged=True)):
                for path in directory.glob(pattern):
                    if path.is_file():
                        path.unlink(missing_ok=True)


class Database:
    """A MariaDB of this run: own directory, own port, nothing read from the system's configuration."""

    def __init__(self, workdir: Path, cpus: str = "", delay_us: int = 0) -> None:
        server, install = tool("mariadbd", "mariadb-server"), tool("mariadb-install-db", "mariadb-server")
        self.directory = workdir / "mariadb"
        self.directory.mkdir()
        as_root = os.geteuid() == 0
        user = "mysql" if as_root else pwd.getpwuid(os.geteuid()).pw_name
        if as_root:
            shutil.chown(self.directory, "mysql")
        data, self.socket = self.directory / "data", self.directory / "s"
        # A server that starts removes what it takes for left behind in the directory of temporary tables.
        own = f"--tmpdir={self.directory}"
        made = subprocess.run([install, "--no-defaults", own, f"--datadir={data}", "--auth-root-authentication-method=normal",
                               "--skip-test-db", f"--user={user}"], capture_output=True, text=True, timeout=120)
        if made.returncode:
            raise Failure("MariaDB's directory could not be made", detail=(made.stdout + made.stderr)[-1500:])
        self.port = processes.free_port()
        self.process = processes.start("mariadbd", [
            server, "--no-defaults", own, f"--datadir={data}", f"--socket={self.socket}", f"--port={self.port}",
            "--bind-address=127.0.0.1", f"--pid-file={self.directory}/pid", f"--user={user}", "--skip-log-bin",
            "--innodb-flush-log-at-trx-commit=2", "--max-connections=2000"], workdir / "mariadb.log", cpus=cpus)
        processes.wait_until(lambda: self._client("SELECT 1").returncode == 0, 60, self.process, "answering")
        for account in ("'app'@'127.0.0.1'", "'app'@'localhost'"):
            granted = self._client(f"CREATE USER {account} IDENTIFIED BY '{DATABASE_PASSWORD}'; "
                                   f"GRANT ALL ON *.* TO {account}")
            if granted.returncode:
                raise Failure("MariaDB's user could not be made", detail=granted.stderr)

        self.delay: processes.Started | None = None
        if delay_us:
            own, self.port = self.port, processes.free_port()
            self.delay = processes.start("the delay", [str(intervals.program()), "delay", f"127.0.0.1:{self.port}", f"127.0.0.1:{own}", str(delay_us)],
                                         workdir / "delay.log")
            processes.wait_until(self._is_reached, 10, self.delay, "listening")

    def _is_reached(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _client(self, statement: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([tool("mariadb", "mariadb-client"), "--no-defaults", f"--socket={self.socket}", "-uroot",
                               "-e", statement], capture_output=True, text=True, timeout=30)

    def version(self) -> str:
        return self._client("SELECT VERSION()").stdout.split()[-1]

    def env(self) -> dict[str, str]:
        """Where the database is, for setup.sh and for the application alike."""
        return {"WP_DB_HOST": f"127.0.0.1:{self.port}", "WP_DB_USER": "app", "WP_DB_PASSWORD": DATABASE_PASSWORD,
                "WP_DB_NAME": "wordpress",
                "EAV_DSN": f"mysql:host=127.0.0.1;port={self.port};dbname=eav;charset=utf8mb4", "EAV_USER": "app",
                "EAV_PASSWORD": DATABASE_PASSWORD, "BLOG_URL": f"mysql://app:{DATABASE_PASSWORD}@127.0.0.1:{self.port}"}

    def groups(self) -> processes.Groups:
        return {"mariadbd": processes.tree(self.process.pid)}
