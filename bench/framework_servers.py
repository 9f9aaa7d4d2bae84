"""What bench/cache-frameworks compares: WordPress, a page of Symfony and one of Laravel in Reprise, each with Reprise's data cache, with another cache and, where
that is possible, with none. The server and the application are the same; only the cache differs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import applications
import cache_servers
import processes
from bridges import PACKAGE
from edge_servers import WORKERS, Server, own_place
from failure import Failure, tool
from peers import reprise
from sites import WEB_USER

MODES = ("classic", "snapshot")
SCRIPTS = Path(__file__).parent / "scripts" / "frameworks"
REDIS = "redis unix"
MEMORY = "64M"
OWN = "reprise"  # its store, of all three pages

SERVICES = """
    cache.adapter.reprise:
        class: Reprise\\Symfony\\Adapter
        abstract: true
        autoconfigure: false
        arguments: ['', 0]
        tags: [{ name: cache.pool, clearer: cache.default_clearer, reset: reset }]
    App\\Controller\\CachedController:
        arguments: { $pools: !service_locator { reprise: '@pool.reprise', redis: '@pool.redis', files: '@pool.files', apcu: '@pool.apcu' } }
"""
POOLS = """framework:
    cache:
        app: cache.adapter.filesystem
        default_redis_provider: 'redis://%s?persistent=1'
        pools:
            pool.reprise: { adapter: cache.adapter.reprise }
            pool.redis: { adapter: cache.adapter.redis }
            pool.files: { adapter: cache.adapter.filesystem }
            pool.apcu: { adapter: cache.adapter.apcu }
"""


@dataclass(frozen=True)
class Place:
    """What the pages share."""

    workdir: Path
    builder: applications.Builder
    redis: cache_servers.Server
    configurations: dict[str, Path] = field(default_factory=dict)  # of a page's servers, by name

    @property
    def socket(self) -> str:
        return self.redis.address.socket

    def hits(self, server: Server) -> tuple[int, int]:
        """What has been found in Redis, and in the server's data cache."""
        with self.redis.address.connect() as connection:
            connection.sendall(b"INFO stats\r\n")
            said = connection.recv(1 << 16).decode()
        command = [str(reprise.BUILT), "cache", "stats", "--json", "--config", str(self.configurations[server.name])]
        told = subprocess.run(command, capture_output=True, text=True, timeout=30)
        if told.returncode:
            raise Failure(f"{server.name} does not tell of its data cache", detail=told.stderr)
        return int(said.partition("keyspace_hits:")[2].split()[0]), int(json.loads(told.stdout)["hits"])


@dataclass(frozen=True)
class Page:
    path: str
    text: str
    stores: dict[str, str]  # what it is compared with, and Reprise's own
    start: Callable[[Place], list[Server]]


def place(workdir: Path, builder: applications.Builder) -> Place:
    redis = cache_servers.start(REDIS, workdir)
    Path(redis.address.socket).chmod(0o777)  # PHP has another user
    return Place(workdir, builder, redis)


def _run(directory: Path, *words: str) -> None:
    done = subprocess.run(words, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                          env={**os.environ, "COMPOSER_ALLOW_SUPERUSER": "1", "COMPOSER_DISABLE_NETWORK": "1"})
    if done.returncode:
        raise Failure(f"{directory} could not be prepared", detail=f"$ {' '.join(words)}\n{done.stdout[-2000:]}")


def _add(directory: Path, names: dict[str, str]) -> None:
    """Files of this bench, by where they go; then all that is there is known to the autoloader, and readable."""
    for name, to in names.items():
        (directory / to).write_bytes((SCRIPTS / name).read_bytes())
    _run(directory, tool("composer", "composer"), "dump-autoload", "-o", "-a", "--no-interaction")


def _hand_over(directory: Path, *writable: str) -> None:
    """To PHP's user."""
    _run(directory, "chmod", "-R", "a+rX", ".")
    if os.geteuid() == 0:
        _run(directory, "chown", "-R", WEB_USER, *writable)


def _serve(where: Place, store: str, mode: str, root: Path, env: dict[str, str], lines: list[str], others: list[int]) -> Server:
    name = f"{store}, {mode}"
    own, port = own_place(where.workdir, f"{root.parent.name}-{store}-{mode}"), processes.free_port()
    env = {"STORE": store, "REDIS_SOCKET": where.socket, **env}
    text = [
        f'listen = ["http://127.0.0.1:{port}"]', f"state_dir = {reprise.quoted(str(own / 'state'))}", 'access_log = "off"', "front_threads = 1",
        "[[application]]", f"root = {reprise.quoted(str(root))}", 'front_controller = "index.php"', f'mode."index.php" = "{mode}"', f"workers = {WORKERS}",
        'hosts = ["localhost"]', "cache_memory = 0", f'data_cache_memory = "{MEMORY}"', f'ini."apc.shm_size" = "{MEMORY}"', *lines,
        *([f'user = "{WEB_USER}"'] if os.geteuid() == 0 else []), "[application.env]", *(f"{key} = {reprise.quoted(value)}" for key, value in env.items()),
    ]
    configuration = where.configurations[name] = own / "reprise.toml"
    configuration.write_text("\n".join(text) + "\n")
    server = processes.start(name, [str(reprise.BUILT), "serve", "--config", str(configuration)], own / "output.log")
    processes.wait_until(lambda: "ready after" in server.log.read_text(errors="replace"), 60, server, "it says that it is ready")

    def groups() -> processes.Groups:
        found = reprise.groups(server.pid)
        beside = [pid for one in (*others, where.redis.process.pid) for pid in processes.tree(one)]
        return {"front": found["front"], "workers": [*found["workers"], *beside]}

    return Server(name, port, 0, groups)


def _wordpress(where: Place) -> list[Server]:
    database = applications.Database(where.workdir)
    where.builder.prepare("wordpress", database)
    bridged = where.builder.prepare("wordpress", database, bridged=True)
    servers = []
    for store, drop_in in (("none", None), ("redis", SCRIPTS / "redis-object-cache.php"), (OWN, PACKAGE / "wordpress" / "object-cache.php")):
        directory = where.workdir / f"wordpress-{store}"
        shutil.copytree(bridged, directory, symlinks=True)
        if drop_in:
            (directory / "htdocs/wp-content/object-cache.php").write_bytes(drop_in.read_bytes())
        _hand_over(directory, "htdocs/wp-content/uploads")
        servers += [_serve(where, store, mode, directory / "htdocs", database.env(), [], [database.process.pid]) for mode in MODES]
    return servers


def _symfony(where: Place) -> list[Server]:
    directory = where.builder.prepare("symfony", None, bridged=True)
    with (directory / "config/services.yaml").open("a") as services:
        services.write(SERVICES)
    framework = directory / "config/packages/framework.yaml"
    framework.write_text("".join(line for line in framework.read_text().splitlines(keepends=True) if "cache: {" not in line))
    (directory / "config/packages/cache.yaml").write_text(POOLS % where.socket)
    _add(directory, {"SiteData.php": "src/SiteData.php", "CachedController.php": "src/Controller/CachedController.php", "cached.html.twig": "templates/cached.html.twig"})
    _run(directory, "php", "bin/console", "cache:clear")
    _hand_over(directory, "var", "data")
    env = {"APP_RUNTIME": "Reprise\\Symfony\\Runtime"}
    return [_serve(where, store, mode, directory / "public", env, ['warmup = ["/hello"]'], []) for store in PAGES["symfony"].stores for mode in MODES]


def _laravel(where: Place) -> list[Server]:
    directory = where.builder.prepare("laravel", None, bridged=True)
    with (directory / "routes/api.php").open("a") as routes:
        routes.write("Route::get('/flexible', [App\\Http\\Controllers\\FlexibleController::class, 'show']);\n")
    stores = f"'stores' => ['reprise' => ['driver' => 'reprise'], 'redis' => ['driver' => 'redis', 'connection' => 'cache', 'lock_connection' => 'cache'], "
    connection = f"'cache' => ['host' => '{where.socket}', 'port' => 0, 'database' => 0, 'persistent' => true], "
    for name, before, after in (("cache", "'stores' => [", stores), ("database", "'default' => ['host' =>", connection + "'default' => ['host' =>")):
        path = directory / "config" / f"{name}.php"
        text = path.read_text()
        if text.count(before) != 1:
            raise Failure(f"{path}: {before!r} is not there once")
        path.write_text(text.replace(before, after))
    _add(directory, {"SiteData.php": "app/SiteData.php", "FlexibleController.php": "app/Http/Controllers/FlexibleController.php",
                     "flexible.blade.php": "resources/views/flexible.blade.php"})
    for what in ("package:discover", "config:cache", "route:cache", "view:cache"):
        _run(directory, "php", "artisan", what)
    _hand_over(directory, "storage", "bootstrap/cache", "database")
    return [_serve(where, store, mode, directory / "public", {}, ['warmup = ["/hello"]'], []) for store in PAGES["laravel"].stores for mode in MODES]


PAGES = {
    "wordpress": Page("/", "the front page of WordPress, for visitors without a cookie", {
        "none": "WordPress' own object cache, which ends with the request", "redis": "the least object cache over PhpRedis (scripts/frameworks)",
        OWN: "composer/wordpress/object-cache.php"}, _wordpress),
    "symfony": Page("/cached", "a page of Symfony with twelve values of a pool: a menu of 26 KB, settings of 98 KB, 25 products, fragments", {
        "files": "cache.adapter.filesystem", "apcu": "cache.adapter.apcu", "redis": "cache.adapter.redis over PhpRedis", OWN: "Reprise\\Symfony\\Adapter"}, _symfony),
    "laravel": Page("/api/flexible", "the same values in Laravel by Cache::flexible(), good for two seconds, 20 ms to make one", {
        "file": "Laravel's files", "redis": "Laravel's Redis over PhpRedis", OWN: "the driver reprise"}, _laravel),
}
