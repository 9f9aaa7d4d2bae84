"""The caches that bench/cache-conformance runs: Reprise in front of the suite's origin or of the same origin in PHP, and what Debian has.
Their configurations are those of the suite's own project (docker/ in its package); only places, ports and users are others."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import processes
from failure import Failure, tool
from peers import reprise
from sites import WEB_USER

PHP_ORIGIN = Path(__file__).resolve().parent / "scripts" / "conformance_origin.php"
WORKERS = 4
MODULES = Path("/usr/lib/apache2/modules")
TRAFFICSERVER = Path("/etc/trafficserver")


@dataclass(frozen=True)
class Place:
    """Where a server runs, and what it stands before."""

    workdir: Path
    port: int
    origin: int
    program: Path  # reprise


@dataclass(frozen=True)
class Server:
    name: str
    package: str  # of Debian; empty: of this tree
    has_origin: bool
    start: Callable[[Place], processes.Started]

    def version(self, program: Path) -> str:
        if not self.package:
            return subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip().removeprefix("reprise ")
        told = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", self.package], capture_output=True, text=True).stdout
        return told.strip() or "not a package"


def _writable(path: Path, user: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o755)
    if os.geteuid() == 0:
        shutil.chown(path, user)
    return path


def _reprise(place: Place, root: Path, more: list[str]) -> processes.Started:
    if not os.access(place.program, os.X_OK):
        raise Failure(f"{place.program} is not there", "cargo build --release")
    quoted = reprise.quoted
    lines = [f'listen = ["127.0.0.1:{place.port}"]', f"state_dir = {quoted(str(place.workdir / 'state'))}",
             f"access_log = {quoted(str(place.workdir / 'access.log'))}", "[[application]]", f"root = {quoted(str(root))}",
             f"workers = {WORKERS}", *([f'user = "{WEB_USER}"'] if os.geteuid() == 0 else []),
             'cache_memory = "64M"', 'cache_rules = "rfc9111"', *more]
    config = place.workdir / "reprise.toml"
    config.write_text("\n".join(lines) + "\n")
    server = processes.start("reprise", [str(place.program), "serve", "--config", str(config)], place.workdir / "output.log")
    processes.wait_until(lambda: "ready after" in server.log.read_text(errors="replace"), 60, server, "it says that it is ready")
    return server


def start_reprise(place: Place) -> processes.Started:
    root = place.workdir / "public"
    root.mkdir()
    return _reprise(place, root, ["[[application.route]]", 'prefix = "/"', f'upstream = "http://127.0.0.1:{place.origin}"'])


def start_reprise_php(place: Place) -> processes.Started:
    root = place.workdir / "public"
    root.mkdir()
    shutil.copy(PHP_ORIGIN, root / "index.php")
    state = _writable(place.workdir / "origin", WEB_USER)
    return _reprise(place, root, ["[application.env]", f"ORIGIN_STATE = {reprise.quoted(str(state))}"])


def _await(server: processes.Started, port: int) -> processes.Started:
    processes.wait_until(lambda: processes.listens(port), 60, server, f"it listens on port {port}")
    return server


NGINX = """\
daemon off;
{user}
pid {own}/nginx.pid;
error_log {own}/error.log;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    proxy_cache_path {own}/cache levels=1:2 keys_zone=my-cache:8m max_size=1000m inactive=600m;
    proxy_temp_path {own}/tmp;
    client_body_temp_path {own}/body;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{origin};
            proxy_cache my-cache;
            proxy_cache_revalidate on;
        }}
    }}
}}
"""


def start_nginx(place: Place) -> processes.Started:
    config = place.workdir / "nginx.conf"
    config.write_text(NGINX.format(own=place.workdir, port=place.port, origin=place.origin, user=f"user {WEB_USER};" if os.geteuid() == 0 else ""))
    return _await(processes.start("nginx", [tool("nginx", "nginx"), "-p", f"{place.workdir}/", "-c", str(config), "-e", str(place.workdir / "error.log")],
                                  place.workdir / "output.log"), place.port)


def start_varnish(place: Place) -> processes.Started:
    config = place.workdir / "default.vcl"
    config.write_text(f'vcl 4.1;\nbackend default {{ .host = "127.0.0.1"; .port = "{place.origin}"; }}\n')
    arguments = ["-F", "-j", "none", "-n", str(place.workdir / "varnish"), "-a", f"127.0.0.1:{place.port}", "-f", str(config), "-p", "default_ttl=0",
                 "-p", "default_grace=0", "-p", "default_keep=3600", "-s", "malloc,64M"]
    return _await(processes.start("varnish", [tool("varnishd", "varnish"), *arguments], place.workdir / "output.log"), place.port)


# The lines of Debian's squid.conf that bear on caching, and the suite's.
SQUID = """\
http_port 127.0.0.1:{port} accel defaultsite=localhost no-vhost
cache_peer 127.0.0.1 parent {origin} 0 no-query no-digest originserver default name=myAccel
cache_peer_access myAccel allow all
http_access allow all
shutdown_lifetime 1 second
connect_retries 3
refresh_pattern ^ftp: 1440 20% 10080
refresh_pattern -i (/cgi-bin/|\\?) 0 0% 0
refresh_pattern . 0 20% 4320
pid_filename {own}/squid.pid
coredump_dir {own}
cache_log {own}/cache.log
access_log none
pinger_enable off
"""


def start_squid(place: Place) -> processes.Started:
    config = place.workdir / "squid.conf"
    config.write_text(SQUID.format(own=_writable(place.workdir / "own", "proxy"), port=place.port, origin=place.origin))
    return _await(processes.start("squid", [tool("squid", "squid"), "-N", "-f", str(config)], place.workdir / "output.log"), place.port)


APACHE = """\
ServerRoot "{own}"
DefaultRuntimeDir "{own}"
PidFile "{own}/apache.pid"
ErrorLog "{own}/error.log"
ServerName localhost
Listen 127.0.0.1:{port}
{user}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule negotiation_module {modules}/mod_negotiation.so
LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_http_module {modules}/mod_proxy_http.so
LoadModule cache_module {modules}/mod_cache.so
LoadModule cache_disk_module {modules}/mod_cache_disk.so
ProxyPass "/" "http://127.0.0.1:{origin}/"
CacheEnable disk /
CacheRoot "{cache}"
CacheDirLevels 5
CacheDirLength 3
CacheDefaultExpire 0
CacheIgnoreNoLastMod On
CacheStoreExpired On
CacheNegotiatedDocs On
UseCanonicalName On
CacheHeader On
CacheDetailHeader on
"""


def start_apache(place: Place) -> processes.Started:
    config = place.workdir / "apache.conf"
    config.write_text(APACHE.format(own=place.workdir, cache=_writable(place.workdir / "cache", WEB_USER), port=place.port, origin=place.origin,
                                    modules=MODULES, user=f"User {WEB_USER}\nGroup {WEB_USER}" if os.geteuid() == 0 else ""))
    return _await(processes.start("apache", [tool("apache2", "apache2"), "-DFOREGROUND", "-f", str(config)], place.workdir / "output.log",
                                  env={"PATH": os.environ["PATH"]}), place.port)


# Of the suite's records.config what differs from the defaults and bears on caching.
RECORDS = """\
CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1
CONFIG proxy.config.http.insert_response_via_str INT 0
CONFIG proxy.config.http.cache.http INT 1
CONFIG proxy.config.http.cache.ignore_client_cc_max_age INT 1
CONFIG proxy.config.http.normalize_ae INT 1
CONFIG proxy.config.http.cache.cache_responses_to_cookies INT 1
CONFIG proxy.config.http.cache.cache_urls_that_look_dynamic INT 1
CONFIG proxy.config.http.cache.when_to_revalidate INT 0
CONFIG proxy.config.http.cache.required_headers INT 2
CONFIG proxy.config.http.cache.heuristic_min_lifetime INT 3600
CONFIG proxy.config.http.cache.heuristic_max_lifetime INT 86400
CONFIG proxy.config.http.cache.heuristic_lm_factor FLOAT 0.10
CONFIG proxy.config.http.negative_caching_enabled INT 0
CONFIG proxy.config.cache.ram_cache.size INT -1
CONFIG proxy.config.url_remap.remap_required INT 1
CONFIG proxy.config.url_remap.pristine_host_hdr INT 1
CONFIG proxy.config.reverse_proxy.enabled INT 1
CONFIG proxy.config.exec_thread.limit INT 2
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.admin.user_id STRING {user}
"""
LAYOUT = ("prefix", "exec_prefix", "bindir", "sbindir", "sysconfdir", "datadir", "includedir", "libdir", "libexecdir", "localstatedir", "runtimedir",
          "logdir", "mandir", "infodir", "cachedir")


def start_trafficserver(place: Place) -> processes.Started:
    user = "trafficserver" if os.geteuid() == 0 else "#-1"
    own = _writable(place.workdir / "own", "trafficserver")
    config = own / "sysconfdir"
    program = tool("traffic_server", "trafficserver")
    shutil.copytree(TRAFFICSERVER, config)
    for name in LAYOUT:
        _writable(own / name, "trafficserver")
    (config / "records.config").write_text(RECORDS.format(port=place.port, user=user))
    (config / "remap.config").write_text(f"map http://127.0.0.1:{place.port}/ http://127.0.0.1:{place.origin}/\n")
    (config / "storage.config").write_text(f"{own / 'cachedir'} 64M\n")
    (own / "runroot.yaml").write_text("".join(f"{name}: {own / name}\n" for name in LAYOUT))
    return _await(processes.start("trafficserver", [program, f"--run-root={own / 'runroot.yaml'}"], place.workdir / "output.log"), place.port)


SERVERS = {server.name: server for server in (
    Server("reprise", "", True, start_reprise),
    Server("reprise-php", "", False, start_reprise_php),
    Server("nginx", "nginx", True, start_nginx),
    Server("varnish", "varnish", True, start_varnish),
    Server("squid", "squid", True, start_squid),
    Server("apache", "apache2", True, start_apache),
    Server("trafficserver", "trafficserver", True, start_trafficserver),
)}
PEERS = [server.name for server in SERVERS.values() if server.package]
