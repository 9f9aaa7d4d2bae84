"""The servers that bench/edge compares, with the same files, certificate and script: Reprise (one build or several), nginx with PHP-FPM,
and Caddy, which is the server in FrankenPHP, where Debian's package is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import processes
from failure import Failure, tool
from peers import nginx_fpm, reprise
from sites import WEB_USER
from distribution import PHP

SIZES = {"1k.bin": 1024, "100k.bin": 100 * 1024}
# Of FPM and Reprise alike.
WORKERS = 2
HELLO = "<?php echo 'hello';"


@dataclass(frozen=True)
class Place:
    """What all servers serve."""

    root: Path
    chain: Path
    key: Path


@dataclass
class Server:
    name: str
    http: int
    https: int
    groups: Callable[[], processes.Groups]
    has_php: bool = True


def make_place(workdir: Path) -> Place:
    root = workdir / "public"
    root.mkdir()
    for name, size in SIZES.items():
        (root / name).write_bytes(bytes(number * 31 % 251 for number in range(size)))
    (root / "hello.php").write_text(HELLO)
    chain, key = workdir / "chain.pem", workdir / "key.pem"
    made = subprocess.run([tool("openssl", "openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                           "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(chain)],
                          capture_output=True, text=True)
    if made.returncode:
        raise Failure("openssl makes no certificate", detail=made.stderr)
    return Place(root, chain, key)


def own_place(workdir: Path, name: str) -> Path:
    place = workdir / name
    place.mkdir()
    place.chmod(0o755)
    return place


def start_reprise(workdir: Path, place: Place, program: Path, name: str, options: list[str]) -> Server:
    own, http, https = own_place(workdir, name), processes.free_port(), processes.free_port()
    lines = [
        f'listen = ["http://127.0.0.1:{http}", "https://127.0.0.1:{https}"]',
        f"state_dir = {reprise.quoted(str(own / 'state'))}",
        f"access_log = {reprise.quoted(str(own / 'access.log'))}",
        "front_threads = 1",
        *options,
        "[[certificate]]", 'hosts = ["localhost"]', f"chain = {reprise.quoted(str(place.chain))}", f"key = {reprise.quoted(str(place.key))}",
        "[[application]]", f"root = {reprise.quoted(str(place.root))}", f"workers = {WORKERS}", "https_redirect = false",
        *([f'user = "{WEB_USER}"'] if os.geteuid() == 0 else []),
    ]
    config = own / "reprise.toml"
    config.write_text("\n".join(lines) + "\n")
    if not os.access(program, os.X_OK):
        raise Failure(f"{program} is not there", "cargo build --release")
    server = processes.start(name, [str(program), "serve", "--config", str(config)], own / "output.log")
    processes.wait_until(lambda: "ready after" in server.log.read_text(errors="replace"), 30, server, "it says that it is ready")
    return Server(name, http, https, lambda: reprise.groups(server.pid))


NGINX = """\
daemon off;
{user}
worker_processes 1;
pid {own}/nginx.pid;
error_log {own}/error.log;
events {{ worker_connections 16384; }}
http {{
{common}    access_log {own}/access.log combined buffer=64k flush=1s;
    {cache}
    upstream php {{ server unix:{own}/fpm.sock; keepalive {workers}; }}
    ssl_protocols TLSv1.3;
    ssl_session_cache shared:one:20m;
    server {{
        listen 127.0.0.1:{http} backlog=4096;
        listen 127.0.0.1:{https} ssl http2 backlog=4096;
        server_name localhost;
        ssl_certificate {chain};
        ssl_certificate_key {key};
        root {root};
        location ~ \\.php$ {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_keep_conn on;
            fastcgi_pass php;
        }}
    }}
}}
"""


def start_fpm(own: Path, env: str = "") -> processes.Process:
    """PHP-FPM, with its socket in that directory."""
    user = f"user = {WEB_USER}\ngroup = {WEB_USER}\nlisten.owner = {WEB_USER}" if os.geteuid() == 0 else ""
    (own / "fpm.conf").write_text(nginx_fpm.FPM.format(workdir=own, workers=WORKERS, user=user, count="", env=env))
    fpm = processes.start("php-fpm", [tool(f"php-fpm{PHP}", f"php{PHP}-fpm"), "-y", str(own / "fpm.conf")], own / "fpm-output.log")
    processes.wait_until((own / "fpm.sock").is_socket, 15, fpm, "listening", [own / "fpm.log"])
    return fpm


def start_nginx(workdir: Path, place: Place, has_cache: bool) -> Server:
    name = "nginx-cache" if has_cache else "nginx"
    own, http, https = own_place(workdir, name), processes.free_port(), processes.free_port()
    is_root = os.geteuid() == 0
    if is_root:
        shutil.chown(own, WEB_USER, WEB_USER)
    fpm = start_fpm(own)
    cache = "open_file_cache max=1000 inactive=20s; open_file_cache_valid 1s; open_file_cache_min_uses 1;" if has_cache else ""
    (own / "nginx.conf").write_text(NGINX.format(
        common=nginx_fpm.HTTP.format(workdir=own), own=own, http=http, https=https, chain=place.chain, key=place.key, root=place.root,
        workers=WORKERS, cache=cache,
        user=f"user {WEB_USER};" if is_root else ""))
    nginx = processes.start("nginx", [tool("nginx", "nginx"), "-p", f"{own}/", "-c", str(own / "nginx.conf"), "-e", str(own / "error.log")],
                            own / "nginx-output.log", signal.SIGTERM)
    return Server(name, http, https, lambda: {"front": processes.tree(nginx.pid), "workers": processes.tree(fpm.pid)})


CADDY = """\
{{
    admin off
    auto_https off
    storage file_system {own}/storage
}}
(site) {{
    bind 127.0.0.1
    log {{
        output file {own}/access.log
    }}
    root * {root}
    file_server
}}
http://localhost:{http} {{
    import site
}}
https://localhost:{https} {{
    import site
    tls {chain} {key}
}}
"""


def start_caddy(workdir: Path, place: Place) -> Server:
    own, http, https = own_place(workdir, "caddy"), processes.free_port(), processes.free_port()
    (own / "Caddyfile").write_text(CADDY.format(own=own, http=http, https=https, chain=place.chain, key=place.key, root=place.root))
    caddy = processes.start("caddy", [tool("caddy", "caddy"), "run", "--config", str(own / "Caddyfile"), "--adapter", "caddyfile"], own / "output.log",
                            env={"HOME": str(own), "PATH": os.environ["PATH"], "GOMAXPROCS": "1"})
    return Server("caddy", http, https, lambda: {"front": processes.tree(caddy.pid)}, has_php=False)
