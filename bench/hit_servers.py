"""The caches that bench/cache-hits compares: Reprise's own, nginx with fastcgi_cache and with proxy_cache, HAProxy and Varnish. Behind each is the same
script: in Reprise, or in PHP-FPM, behind another nginx where the cache speaks HTTP alone. None writes an access log, for HAProxy has none."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import processes
from edge_servers import WORKERS, Server, own_place, start_fpm
from failure import tool
from peers import nginx_fpm, reprise
from sites import WEB_USER

# What is to be cached, by its size in bytes; all but the header is alike.
PAGES = {"1k.php": 1024, "64k.php": 64 * 1024}
PAGE = "<?php header('Cache-Control: public, max-age=3600'); echo str_repeat('0123456789abcdef', {});"

FPM_AND_NGINX = """\
daemon off;
{user}
worker_processes 1;
pid {own}/nginx.pid;
error_log {own}/error.log;
events {{ worker_connections 16384; }}
http {{
{common}    access_log off;
    {caches}
    upstream php {{ server unix:{fpm}; keepalive {workers}; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {root};
        location ~ \\.php$ {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_keep_conn on;
            fastcgi_pass php;
            {use}
        }}
    }}
}}
"""

PROXY = """\
daemon off;
{user}
worker_processes 1;
pid {own}/nginx.pid;
error_log {own}/error.log;
events {{ worker_connections 16384; }}
http {{
{common}    access_log off;
    proxy_cache_path {own}/cache keys_zone=one:10m max_size=64m;
    upstream origin {{ server 127.0.0.1:{origin}; keepalive 8; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{ proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_cache one; proxy_cache_lock on; }}
    }}
}}
"""

HAPROXY = """\
global
    nbthread 1
    maxconn 4096
    tune.bufsize 131072
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
cache one
    total-max-size 64
    max-object-size 1048576
    max-age 3600
frontend clients
    bind 127.0.0.1:{port}
    http-request cache-use one
    http-response cache-store one
    default_backend origin
backend origin
    server origin 127.0.0.1:{origin}
"""


def make_root(workdir: Path) -> Path:
    root = workdir / "public"
    root.mkdir()
    for name, size in PAGES.items():
        (root / name).write_text(PAGE.format(size // 16))
    return root


def start_reprise(workdir: Path, root: Path, program: Path, name: str) -> Server:
    own, port = own_place(workdir, name), processes.free_port()
    lines = [
        f'listen = ["http://127.0.0.1:{port}"]', f"state_dir = {reprise.quoted(str(own / 'state'))}", 'access_log = "off"', "front_threads = 1",
        "[[application]]", f"root = {reprise.quoted(str(root))}", f"workers = {WORKERS}", 'cache_memory = "64M"',
        *([f'user = "{WEB_USER}"'] if os.geteuid() == 0 else []),
    ]
    (own / "reprise.toml").write_text("\n".join(lines) + "\n")
    server = processes.start(name, [str(program), "serve", "--config", str(own / "reprise.toml")], own / "output.log")
    processes.wait_until(lambda: "ready after" in server.log.read_text(errors="replace"), 30, server, "it says that it is ready")
    return Server(name, port, 0, lambda: reprise.groups(server.pid))


def nginx(own: Path, text: str) -> processes.Process:
    if os.geteuid() == 0:
        shutil.chown(own, WEB_USER, WEB_USER)
    (own / "nginx.conf").write_text(text)
    return processes.start("nginx", [tool("nginx", "nginx"), "-p", f"{own}/", "-c", str(own / "nginx.conf"), "-e", str(own / "error.log")],
                           own / "nginx-output.log", signal.SIGTERM)


def _user() -> str:
    return f"user {WEB_USER};" if os.geteuid() == 0 else ""


def start_fastcgi(workdir: Path, root: Path, name: str, is_cached: bool) -> Server:
    """nginx with PHP-FPM: with fastcgi_cache, or as the origin of other caches."""
    own, port = own_place(workdir, name), processes.free_port()
    fpm = start_fpm(own)
    caches = f"fastcgi_cache_path {own}/cache keys_zone=one:10m max_size=64m; fastcgi_cache_key $scheme$host$request_uri;" if is_cached else ""
    use = "fastcgi_cache one; fastcgi_cache_lock on;" if is_cached else ""
    server = nginx(own, FPM_AND_NGINX.format(common=nginx_fpm.HTTP.format(workdir=own), own=own, port=port, root=root, workers=WORKERS,
                                             fpm=own / "fpm.sock", caches=caches, use=use, user=_user()))
    return Server(name, port, 0, lambda: {"front": processes.tree(server.pid), "workers": processes.tree(fpm.pid)})


def start_proxy(workdir: Path, origin: int) -> Server:
    own, port = own_place(workdir, "nginx-proxy"), processes.free_port()
    server = nginx(own, PROXY.format(common=nginx_fpm.HTTP.format(workdir=own), own=own, port=port, origin=origin, user=_user()))
    return Server("nginx-proxy", port, 0, lambda: {"front": processes.tree(server.pid)})


def start_haproxy(workdir: Path, origin: int) -> Server:
    own, port = own_place(workdir, "haproxy"), processes.free_port()
    (own / "haproxy.cfg").write_text(HAPROXY.format(port=port, origin=origin))
    haproxy = processes.start("haproxy", [tool("haproxy", "haproxy"), "-db", "-f", str(own / "haproxy.cfg")], own / "output.log")
    return Server("haproxy", port, 0, lambda: {"front": processes.tree(haproxy.pid)})


def start_varnish(workdir: Path, origin: int) -> Server:
    own, port = own_place(workdir, "varnish"), processes.free_port()
    command = [tool("varnishd", "varnish"), "-F", "-n", str(own / "state"), "-a", f"127.0.0.1:{port}", "-b", f"127.0.0.1:{origin}", "-s", "malloc,64m"]
    varnish = processes.start("varnishd", command, own / "output.log")
    return Server("varnish", port, 0, lambda: {"front": processes.tree(varnish.pid)})
