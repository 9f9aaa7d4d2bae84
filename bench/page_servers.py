"""What bench/cache-pages compares: WordPress behind nginx with PHP-FPM, with fastcgi_cache and without, and with its plugin in Reprise; and an application
that answers 304 by itself, or by a validator."""

from __future__ import annotations

import os
from pathlib import Path

import applications
import bridges
import hit_servers
import processes
from edge_servers import WORKERS, Server, own_place, start_fpm
from peers import nginx_fpm, reprise
from sites import WEB_USER

# The tag of a page.
TAG = '"v7"'
KERNEL = """<?php
require '{directory}/vendor/autoload.php';
$kernel = new App\\Kernel('prod', false);
$request = Symfony\\Component\\HttpFoundation\\Request::createFromGlobals();
$response = $kernel->handle($request);
$response->setEtag('v7');
$response->isNotModified($request);
$response->send();
$kernel->terminate($request, $response);
"""
# As an application would: its version is in the data cache.
VALIDATOR = "<?php reprise_not_modified(reprise_cache('version', fn () => 'v7'));\n"


def wordpress(workdir: Path, builder: applications.Builder) -> list[Server]:
    """Uncached, cached by nginx, and in Reprise."""
    database = applications.Database(workdir)
    plain = builder.prepare("wordpress", database)
    bridged = builder.prepare("wordpress", database, bridged=True)
    bridges.wordpress(plain)
    (plain / "htdocs/wp-content/mu-plugins/reprise.php").unlink()
    public = applications.APPLICATIONS["wordpress"].public
    servers = [_nginx(workdir, plain / public, name, is_cached, database) for name, is_cached in (("nginx-fpm", False), ("nginx-fastcgi", True))]
    return [_reprise(workdir, "reprise", bridged / public, ['cache_memory = "64M"', 'mode."index.php" = "snapshot"'], database.env()), *servers]


def _nginx(workdir: Path, root: Path, name: str, is_cached: bool, database: applications.Database) -> Server:
    """The page may be kept for an hour: without the plugin WordPress says nothing of caches."""
    own, port = own_place(workdir, name), processes.free_port()
    env = "\n".join(f"env[{key}] = {value}" for key, value in database.env().items() if key.startswith("WP_"))
    fpm = start_fpm(own, env)
    site = nginx_fpm.NGINX.format(user=f"user {WEB_USER};" if os.geteuid() == 0 else "", processes=1, workdir=own, http=nginx_fpm.HTTP.format(workdir=own),
                                  port=port, root=root, keepalive=f"keepalive {WORKERS};", keep_conn="fastcgi_keep_conn on;")
    site = site.replace(f"access_log {own}/access.log combined;", "access_log off; gzip on; gzip_vary on;")
    if is_cached:
        site = site.replace("    upstream php {", f"    fastcgi_cache_path {own}/cache keys_zone=one:10m max_size=64m; fastcgi_cache_key $scheme$host$request_uri;\n    upstream php {{", 1)
        site = site.replace("fastcgi_pass php;", "fastcgi_pass php; fastcgi_cache one; fastcgi_cache_lock on; fastcgi_cache_valid 200 1h; fastcgi_ignore_headers Cache-Control Expires Set-Cookie;", 1)
    nginx = hit_servers.nginx(own, site)
    return Server(name, port, 0, lambda: {"front": processes.tree(nginx.pid), "workers": [*processes.tree(fpm.pid), *processes.tree(database.process.pid)]})


def _reprise(workdir: Path, name: str, root: Path, lines: list[str], env: dict[str, str]) -> Server:
    own, port = own_place(workdir, name), processes.free_port()
    text = [
        f'listen = ["http://127.0.0.1:{port}"]', f"state_dir = {reprise.quoted(str(own / 'state'))}", 'access_log = "off"', "front_threads = 1",
        "[[application]]", f"root = {reprise.quoted(str(root))}", 'front_controller = "index.php"', f"workers = {WORKERS}", 'hosts = ["localhost"]', *lines,
        *([f'user = "{WEB_USER}"'] if os.geteuid() == 0 else []), "[application.env]", *(f"{key} = {reprise.quoted(value)}" for key, value in env.items()),
    ]
    (own / "reprise.toml").write_text("\n".join(text) + "\n")
    server = processes.start(name, [str(reprise.BUILT), "serve", "--config", str(own / "reprise.toml")], own / "output.log")
    processes.wait_until(lambda: "ready after" in server.log.read_text(errors="replace"), 60, server, "it says that it is ready")
    return Server(name, port, 0, lambda: reprise.groups(server.pid))


def validators(workdir: Path, builder: applications.Builder) -> list[Server]:
    """Symfony answers 304 by itself in classic mode; beside it a validator says the same before it."""
    directory = builder.prepare("symfony", None)
    public = workdir / "validated"
    public.mkdir()
    (public / "index.php").write_text(KERNEL.format(directory=directory))
    (public / "unchanged.php").write_text(VALIDATOR)
    for path in (public, *public.iterdir()):
        path.chmod(path.stat().st_mode | 0o444 | (0o111 if path.is_dir() else 0))
    classic = ['mode."index.php" = "classic"', "cache_memory = 0"]
    validated = ['mode."index.php" = "classic"', 'cache_memory = "64M"', 'validators."/" = "/unchanged.php"']
    env = {"APP_ENV": "prod", "APP_DEBUG": "0", "APP_SECRET": "0123456789abcdef", "DATABASE_PATH": "data/blog.sqlite"}
    return [_reprise(workdir, name, public, lines, env) for name, lines in (("reprise", validated), ("application", classic))]
