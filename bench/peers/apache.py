"""Apache with PHP as its module, in as many processes as there are workers.

A process of the prefork module serves one connection until that is closed, as a PHP-FPM worker does: while it is kept, others
wait in the listen queue. So a connection is kept for as few requests as the one between nginx and PHP-FPM.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import phpini
import processes
from distribution import PHP
from failure import Failure, tool
from sites import Running, Site

MODULES = Path("/usr/lib/apache2/modules")
PROFILE = Path(f"/etc/php/{PHP}/fpm")  # php.ini and conf.d of the other side
OPTIONS: dict[str, tuple[str, str]] = {
    "keepalive_requests": ("8", "requests per kept connection; 0 closes it after each"),
}

CONFIGURATION = """\
ServerRoot "{workdir}"
DefaultRuntimeDir "{workdir}"
PidFile "{workdir}/apache.pid"
ErrorLog "{workdir}/error.log"
LogLevel warn
ServerName localhost
Listen 127.0.0.1:{port}
ListenBacklog 4096
{user}
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule dir_module {modules}/mod_dir.so
LoadModule env_module {modules}/mod_env.so
LoadModule mime_module {modules}/mod_mime.so
LoadModule php_module {modules}/libphp{php}.so
PHPIniDir "{profile}"
StartServers {workers}
MinSpareServers {workers}
MaxSpareServers {workers}
ServerLimit {workers}
MaxRequestWorkers {workers}
MaxConnectionsPerChild 0
KeepAlive {keepalive}
MaxKeepAliveRequests {requests}
KeepAliveTimeout 5
Timeout 120
TypesConfig /etc/mime.types
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
CustomLog "{workdir}/access.log" combined
{env}
DocumentRoot "{root}"
DirectoryIndex index.php
<Directory "{root}">
    Options FollowSymLinks
    AllowOverride None
    Require all granted
    FallbackResource /index.php
</Directory>
<FilesMatch "\\.php$">
    SetHandler application/x-httpd-php
</FilesMatch>
"""


def _program() -> str:
    return tool("apache2", "apache2-bin")


def check(options: dict[str, str]) -> None:
    _program()
    for path, package in ((MODULES / f"libphp{PHP}.so", f"libapache2-mod-php{PHP}"), (PROFILE / "php.ini", f"php{PHP}-fpm")):
        if not path.is_file():
            raise Failure(f"{path} is not there", f"apt-get install --no-install-recommends {package}")
    if not options["keepalive_requests"].isdigit():
        raise Failure(f"apache.keepalive_requests={options['keepalive_requests']}: a number")


def versions(options: dict[str, str]) -> dict[str, str]:
    told = subprocess.run([_program(), "-v"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return {"apache": told.rpartition("/")[2]}


def quoted(text: str) -> str:
    """An argument of a directive."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def configuration(site: Site, options: dict[str, str]) -> str:
    kept = int(options["keepalive_requests"])
    return CONFIGURATION.format(
        workdir=site.workdir, port=site.port, modules=MODULES, php=PHP, profile=PROFILE, workers=site.workers, root=site.root,
        user=f"User {site.user}\nGroup {site.user}" if os.geteuid() == 0 else "", keepalive="On" if kept else "Off", requests=kept or 1,
        env="\n".join(f"SetEnv {name} {quoted(value)}" for name, value in site.env.items()))


def start(site: Site, options: dict[str, str]) -> Running:
    text = configuration(site, options)
    config, log = site.workdir / "apache.conf", site.workdir / "error.log"
    config.write_text(text)
    phpini.write(site.workdir / "ini", site.ini)
    env = {"PATH": os.environ["PATH"], "PHP_INI_SCAN_DIR": f"{PROFILE}/conf.d:{site.workdir}/ini"}
    server = processes.start("apache", [_program(), "-DFOREGROUND", "-f", str(config)], site.workdir / "apache-output.log",
                             signal.SIGTERM, site.cpus, env)
    return Running("apache", site.port, [server], lambda: {"apache": processes.tree(server.pid)}, site.workdir / "access.log", [log],
                   {"apache.conf": text})
