"""nginx before PHP-FPM over a unix socket, tuned for throughput.

A PHP-FPM worker serves one connection until that is closed. Kept connections save the setting up of one per request, but
all other requests wait meanwhile in the socket's backlog, so the slowest answers take longer the more requests a
connection may carry. Eight save seven of eight set-ups at the lowest such cost.

When the clients leave, nginx would keep its last connections, and the workers wait on them, with the requests of those who left
still in the backlog: they would run in this side's next turn. So nginx drops connections that are idle, soon enough for
measure.await_quiet to see the workers go on, and late enough that under load none is.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import processes
from distribution import PHP
from failure import Failure, tool
from sites import Running, Site

IDLE_MS = 100
OPTIONS: dict[str, tuple[str, str]] = {
    "processes": ("1", "nginx worker processes, a number or auto; the application needs the other core"),
    "count": ("", "1: PHP-FPM writes down which process serves each request"),
    "upstream_requests": ("8", "requests per kept FastCGI connection; 0 opens one for each request"),
}

# What nginx is told of HTTP here and in bench/edge.
HTTP = """\
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 75s;
    keepalive_requests 100000000;
    client_body_temp_path {workdir}/body;
    fastcgi_temp_path {workdir}/fastcgi;
    proxy_temp_path {workdir}/proxy;
    uwsgi_temp_path {workdir}/uwsgi;
    scgi_temp_path {workdir}/scgi;
"""

NGINX = """\
daemon off;
{user}
worker_processes {processes};
pid {workdir}/nginx.pid;
error_log {workdir}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
{http}    access_log {workdir}/access.log combined;
    upstream php {{
        server unix:{workdir}/fpm.sock;
        {keepalive}
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        server_name _;
        root {root};
        location / {{ try_files $uri /index.php$is_args$args; }}
        location ~ \\.php$ {{
            fastcgi_pass php;
            {keep_conn}
            fastcgi_buffers 64 16k;
            fastcgi_buffer_size 32k;
            fastcgi_busy_buffers_size 64k;
            fastcgi_read_timeout 120s;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param SCRIPT_NAME $fastcgi_script_name;
            fastcgi_param DOCUMENT_ROOT $document_root;
            fastcgi_param DOCUMENT_URI $document_uri;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_SCHEME $scheme;
            fastcgi_param HTTPS $https if_not_empty;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param GATEWAY_INTERFACE CGI/1.1;
            fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
            fastcgi_param SERVER_PROTOCOL $server_protocol;
            fastcgi_param SERVER_NAME $host;
            fastcgi_param SERVER_ADDR $server_addr;
            fastcgi_param SERVER_PORT $server_port;
            fastcgi_param REMOTE_ADDR $remote_addr;
            fastcgi_param REMOTE_PORT $remote_port;
            fastcgi_param HTTP_HOST $http_host;
            fastcgi_param REDIRECT_STATUS 200;
        }}
    }}
}}
"""

FPM = """\
[global]
error_log = {workdir}/fpm.log
daemonize = no

[www]
{user}
listen = {workdir}/fpm.sock
listen.backlog = 4096
pm = static
pm.max_children = {workers}
pm.max_requests = 0
clear_env = yes
{count}
{env}
"""


def _programs() -> tuple[str, str]:
    return tool("nginx", "nginx"), tool(f"php-fpm{PHP}", f"php{PHP}-fpm")


def check(options: dict[str, str]) -> None:
    _programs()
    if not re.fullmatch(r"[1-9]\d*|auto", options["processes"]):
        raise Failure(f"nginx_fpm.processes={options['processes']}: a number above 0, or auto")
    if not options["upstream_requests"].isdigit():
        raise Failure(f"nginx_fpm.upstream_requests={options['upstream_requests']}: a number")


def versions(options: dict[str, str]) -> dict[str, str]:
    nginx, fpm = _programs()
    told = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=True).stderr.strip()
    return {"nginx": told.rpartition("/")[2],
            "php-fpm": subprocess.run([fpm, "-v"], capture_output=True, text=True, check=True).stdout.splitlines()[0]}


def served(log: Path) -> dict[int, int]:
    """Requests by process."""
    return Counter(map(int, log.read_text().split()))


def start(site: Site, options: dict[str, str]) -> Running:
    nginx_program, fpm_program = _programs()
    root_user = os.geteuid() == 0
    kept = int(options["upstream_requests"])
    workdir = site.workdir
    nginx_conf = NGINX.format(
        http=HTTP.format(workdir=workdir),
        user=f"user {site.user};" if root_user else "", processes=options["processes"], workdir=workdir, port=site.port,
        root=site.root, keep_conn="fastcgi_keep_conn on;" if kept else "",
        keepalive=f"keepalive {site.workers}; keepalive_requests {kept}; keepalive_timeout {IDLE_MS}ms;" if kept else "")
    fpm_conf = FPM.format(
        workdir=workdir, workers=site.workers, count=f"access.log = {workdir}/served.log\naccess.format = %p" if options["count"] else "",
        env="\n".join(f'env[{key}] = "{value}"' for key, value in site.env.items()),
        user=f"user = {site.user}\ngroup = {site.user}\nlisten.owner = {site.user}" if root_user else "")
    (workdir / "nginx.conf").write_text(nginx_conf)
    (workdir / "fpm.conf").write_text(fpm_conf)

    settings = [word for key, value in site.ini.items() for word in ("-d", f"{key}={value}")]
    fpm = processes.start("php-fpm", [fpm_program, "-y", str(workdir / "fpm.conf"), *settings], workdir / "fpm-output.log",
                          signal.SIGTERM, site.cpus)
    logs = [workdir / "fpm.log", workdir / "nginx-error.log"]
    processes.wait_until((workdir / "fpm.sock").is_socket, 15, fpm, "listening", logs)
    nginx = processes.start("nginx", [nginx_program, "-p", f"{workdir}/", "-c", str(workdir / "nginx.conf"),
                                      "-e", str(workdir / "nginx-error.log")], workdir / "nginx-output.log",
                            signal.SIGTERM, site.cpus)
    return Running("nginx_fpm", site.port, [nginx, fpm],
                   lambda: {"nginx": processes.tree(nginx.pid), "fpm": processes.tree(fpm.pid)},
                   Path(workdir / "access.log"), logs, {"nginx.conf": nginx_conf, "fpm.conf": fpm_conf},
                   (lambda: served(workdir / "served.log")) if options["count"] else None)
