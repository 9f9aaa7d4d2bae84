//! The rows.

use super::Kind::{self, Number, Requests, Signed, Size, Switch, Table, Text, Texts, Time};
use super::Row;
use super::Scope::{self, Application, Server};

const fn row(scope: Scope, name: &'static str, kind: Kind, default: &'static str, text: &'static str) -> Row {
    Row { name, scope, kind, default, text }
}

const DAY: u64 = 86400;

/// All of them.
pub(super) const ROWS: [Row; 63] = [
    row(Server, "listen", Texts, "[\"127.0.0.1:8080\"]", "Addresses: HOST:PORT, or unix:/PATH."),
    row(
        Server,
        "admin_listen",
        Texts,
        "[]",
        "Addresses of their own for /healthz, /readyz and /metrics (docs/operations/monitoring.md). Whoever reaches them may ask.",
    ),
    row(
        Server,
        "socket_mode",
        Text,
        "\"0666\"",
        "Permissions of unix sockets, in octal: open to all local users or not.",
    ),
    row(
        Server,
        "socket_owner",
        Text,
        "who starts the server",
        "Owner of unix sockets; another than oneself needs root.",
    ),
    row(Server, "socket_group", Text, "the owner's", "Group of unix sockets."),
    row(
        Server,
        "name",
        Text,
        "the first address",
        "Names the state directory; two servers on one machine need two names.",
    ),
    row(
        Server,
        "state_dir",
        Text,
        "/run/reprise/NAME; without root $XDG_RUNTIME_DIR/reprise/NAME, or /tmp/reprise-UID/NAME",
        "Lock, process id and admin socket; removed at a clean end. Made with mode 0700; its path has 90 bytes at most.",
    ),
    row(Server, "access_log", Text, "\"stdout\"", "\"stdout\", \"off\" or a file; SIGUSR1 opens it again."),
    row(
        Server,
        "access_log_format",
        Text,
        "\"combined\"",
        "\"combined\": the combined format with the duration in seconds behind it; \"json\": one object a line, with \
         processor time and memory of PHP too (docs/reference/logs.md).",
    ),
    row(
        Server,
        "proxies",
        Texts,
        "[]",
        "Addresses and networks (10.0.0.0/8, unix:) whose forwarding headers say who the client is and what it asked; PHP \
         sees that in $_SERVER. From others such headers are dropped.",
    ),
    row(
        Server,
        "proxy_headers",
        Text,
        "\"x-forwarded\"",
        "Which headers the proxies write: \"x-forwarded\" (X-Forwarded-For, -Proto, -Port) or \"forwarded\" (RFC 7239). The \
         others can only come from a client, and are dropped.",
    ),
    row(
        Server,
        "front_user",
        Text,
        "reprise if there is such a user, else nobody",
        "User of the HTTP front when started as root. It must be able to read static files.",
    ),
    row(Server, "front_threads", Number(1, 16), "one per four CPUs", "Threads of the HTTP front."),
    row(
        Server,
        "max_connections",
        Number(1, 1_000_000),
        "65536, but no more than open files allow",
        "Connections at once; further ones wait in the kernel.",
    ),
    row(
        Server,
        "client_connections",
        Number(0, 1_000_000),
        "0",
        "Connections at once of one client address, of IPv6 one /64; 0: any number. Further ones are closed at once, and counted. Declared \
         `proxies`, unix sockets and `admin_listen` have no such limit.",
    ),
    row(
        Server,
        "header_timeout",
        Time(1, DAY),
        "\"15s\"",
        "Time to send a request's head, and idle time of a kept connection.",
    ),
    row(Server, "body_timeout", Time(1, DAY), "\"60s\"", "Time between two parts of a request's body, then 408."),
    row(
        Server,
        "send_timeout",
        Time(1, DAY),
        "\"60s\"",
        "Time in which a client must take some of its answer; then it is cut off.",
    ),
    row(Server, "drain_timeout", Time(0, DAY), "\"30s\"", "How long a stop waits for running requests."),
    row(Application, "name", Text, "name of the root's directory", "For messages and logs."),
    row(Application, "root", Text, "required", "Document root. Relative paths count from the configuration file."),
    row(
        Application,
        "watch",
        Switch,
        "false",
        "Whether a reload follows by itself, within a second or two, when the root, a symbolic link for one, comes to lead elsewhere, \
         or a file that opcache has loaded changes.",
    ),
    row(
        Application,
        "watch_except",
        Texts,
        "[]",
        "Directories whose files may change without a reload: caches of PHP files that the application writes itself. Relative \
         paths count from the configuration file.",
    ),
    row(
        Application,
        "front_controller",
        Text,
        "\"index.php\" if the root has one",
        "Script below the root that answers what is no file; \"\" for none.",
    ),
    row(
        Application,
        "hosts",
        Texts,
        "[] (any host)",
        "Host names, \"*.example.org\" for all below; others are answered 421. Snapshots that are for one host each \
         (docs/guides/snapshot.md) there are of those written in full.",
    ),
    row(
        Application,
        "user",
        Text,
        "owner of the root; www-data if that is root",
        "User PHP runs as when started as root; never root.",
    ),
    row(
        Application,
        "workers",
        Number(1, 1024),
        "`max_workers`; four per CPU",
        "PHP workers of each lane. Each runs one request at a time. Beside a snapshot lane classic mode has four per CPU at most, without `max_workers`. Lanes that the configuration does not name, of scripts that were found to ask for one, share so many by need, without `max_workers`.",
    ),
    row(
        Application,
        "min_workers",
        Number(1, 1024),
        "as `workers`; 1 with `max_workers`",
        "Workers of each lane that are always there; with `max_workers` no more than that divided by the number of lanes. With fewer than \
         `workers` the rest come when requests wait, within some 50 ms, and go, one a second, when nothing has waited for ten, or when \
         other lanes need them.",
    ),
    row(
        Application,
        "max_workers",
        Number(1, 1024),
        "any number",
        "PHP workers of all lanes of a generation together. A lane in which requests wait gets at once the places of workers that others \
         have no work for; where all have work, each gets the same. Who is busy ends after the request. One worker each lane has in any \
         case, so that there may be some more for a while; and during a reload there are two generations.",
    ),
    row(
        Application,
        "queue",
        Number(1, 3000),
        "1024",
        "Requests that may wait for a worker, when all `workers` are there; one more is answered 503.",
    ),
    row(Application, "queue_timeout", Time(1, DAY), "\"30s\"", "How long a request waits for a worker, then 503."),
    row(
        Application,
        "request_timeout",
        Time(0, DAY),
        "\"5m\"",
        "Wall-clock time of a request in PHP; then its worker is killed and 504 answered. 0: none.",
    ),
    row(
        Application,
        "soft_timeout",
        Time(0, DAY),
        "0 (none)",
        "Wall-clock time of a request after which PHP ends it with a fatal error that says where it was. It cannot where it waits \
         outside of PHP, in a database for one; then request_timeout ends it.",
    ),
    row(
        Application,
        "request_memory",
        Size,
        "0 (any)",
        "Memory that a worker may hold while it runs a request, beyond what the process has that it was forked from (with a \
         snapshot: the snapshot's); looked at four times a second. Then it is killed and 502 answered.",
    ),
    row(
        Application,
        "limits",
        Table,
        "{}",
        "Other values of request_timeout, soft_timeout, request_memory, queue, queue_timeout and client_requests for paths and all \
         below them; the longest path that fits counts: limits.\"/export\" = { request_timeout = \"10m\", queue = 4 }. `queue` is \
         then how many requests of the lane may wait when one for such a path comes; `client_requests` counts the path's own.",
    ),
    row(
        Application,
        "client_requests",
        Number(0, 1_000_000),
        "0 (any number)",
        "PHP requests at once of one client address, waiting ones included; one more is answered 429.",
    ),
    row(
        Application,
        "slow_timeout",
        Time(0, DAY),
        "0 (never)",
        "Wall-clock time of a request after which the log says once where it is: its target and PHP's backtrace, read while it runs.",
    ),
    row(
        Application,
        "slow_headers",
        Texts,
        "[]",
        "Request headers that the log shows with a slow request: [\"User-Agent\"].",
    ),
    row(
        Application,
        "server_timing",
        Switch,
        "false",
        "Whether answers say in the header Server-Timing how long the request waited and PHP took. Clients see it.",
    ),
    row(
        Application,
        "max_body",
        Size,
        "php.ini's post_max_size",
        "Bytes of a request's body; more is answered 413. 0: any number. Without it PHP decides where a .user.ini is in the \
         script's directory or above it.",
    ),
    row(
        Application,
        "follow",
        Texts,
        "[]",
        "Directories outside the root that symbolic links may lead to: files, scripts and the front controller.",
    ),
    row(
        Application,
        "mode",
        Table,
        "{}",
        "How a script runs: mode.\"index.php\" = \"auto\" (from a snapshot if it calls reprise_snapshot(), in a loop if it calls \
         reprise_handle_request()), \"classic\" (never), or \"snapshot\" or \"worker\" (booted before the server is ready, \
         which does not start without).",
    ),
    row(
        Application,
        "classic_paths",
        Texts,
        "[]",
        "Paths whose requests run in classic mode, and all below them: \"/cart\" is /cart and /cart/checkout. For pages that \
         `reprise verify` finds to differ.",
    ),
    row(
        Application,
        "isolation",
        Text,
        "\"auto\"",
        "How requests are kept apart after a snapshot: \"rewind\" (memory is put back), \"fork\" (a process each) or \
         \"auto\" (rewind where the kernel can and requests leave no threads).",
    ),
    row(
        Application,
        "warmup",
        Requests,
        "[]",
        "Requests made of the application before the server is ready, and of new code before a reload goes over to it; of the \
         first host, unless their headers name another (Host) or https (X-Forwarded-Proto). A boot learns of them by \
         reprise_warmup_requests(), and can run them before its snapshot.",
    ),
    row(
        Application,
        "warmup_failure",
        Text,
        "\"refuse\"",
        "What a 5xx answer to a warm-up request does: \"refuse\" (the server does not start; a reload is refused) or \"log\".",
    ),
    row(
        Application,
        "max_requests",
        Number(0, 1_000_000_000),
        "0 (any number)",
        "Requests after which a worker is replaced, a tenth more or less; for code that leaks. Not of workers that run from a \
         snapshot, which keep nothing.",
    ),
    row(
        Application,
        "max_age",
        Time(0, 30 * DAY),
        "0 (any)",
        "Age at which a worker is replaced, a tenth more or less, when it has answered. Not of workers that run from a snapshot.",
    ),
    row(
        Application,
        "max_memory",
        Size,
        "0 (any)",
        "Memory of its own that a worker may hold when it has answered; one that holds more is replaced. Not of workers that run from a \
         snapshot, whose memory is put back.",
    ),
    row(
        Application,
        "boot_timeout",
        Time(1, DAY),
        "\"60s\"",
        "How long a script may take to its snapshot; then its requests run in classic mode and another try follows.",
    ),
    row(
        Application,
        "lane_timeout",
        Time(1, DAY),
        "\"10m\"",
        "For how long nobody has asked for one of the eight scripts, or scripts of a host, that have a snapshot or a loop, before it \
         gives its place to another, by a new generation. The least recently asked for goes; none that the configuration names.",
    ),
    row(
        Application,
        "php_ini",
        Text,
        "that of PHP's profile",
        "A php.ini in place of the profile's (/etc/php/8.2/fpm/php.ini); the files of its conf.d are read as ever. Without it \
         PHPRC in the server's environment names one, or its directory, for all applications.",
    ),
    row(
        Application,
        "ini",
        Table,
        "{}",
        "php.ini settings; they win over php.ini. Scripts and .user.ini may change them. Error levels may be written as in \
         php.ini: \"E_ALL & ~E_DEPRECATED\".",
    ),
    row(
        Application,
        "admin_ini",
        Table,
        "{}",
        "php.ini settings that neither scripts nor .user.ini can change (PHP-FPM's php_admin_value).",
    ),
    row(
        Application,
        "env",
        Table,
        "{}",
        "Environment of PHP, beside USER and HOME. \"$NAME\" takes the value from the server's own environment.",
    ),
    row(
        Application,
        "clear_env",
        Switch,
        "true",
        "Whether PHP is kept from seeing the rest of the server's environment, which may hold secrets of others.",
    ),
    row(
        Application,
        "rlimit_files",
        Number(1100, 1_048_576),
        "the server's hard limit",
        "Open files of each PHP process. Reprise's own are numbered above 1000: they need some room.",
    ),
    row(Application, "rlimit_core", Size, "what the server was started with", "Bytes of a core file of PHP; 0: none."),
    row(
        Application,
        "rlimit_processes",
        Number(16, 1_048_576),
        "what the server was started with",
        "Processes and threads of PHP's user, counted over all programs and applications that run as it: a fork above it \
         fails. Each worker is one, and so is each lane; a reload has them twice.",
    ),
    row(
        Application,
        "priority",
        Signed(-20, 19),
        "0",
        "Nice value of PHP's processes; below that of the server needs root.",
    ),
    row(
        Application,
        "capabilities",
        Text,
        "\"keep\"",
        "Of programs that PHP starts: \"keep\" (a set-user-ID program such as sudo, or a mailer, has its rights) or \"none\" (the \
         bounding set is empty: such a program runs as its user, without any of root's capabilities). \"none\" needs root with \
         CAP_SETPCAP.",
    ),
    row(
        Application,
        "ping_path",
        Text,
        "\"\" (none)",
        "Path that answers \"pong\" while PHP workers are there, else 503. For load balancers; open to all.",
    ),
    row(
        Application,
        "status_path",
        Text,
        "\"\" (none)",
        "Path of PHP-FPM's status page: text, ?json, ?openmetrics, and ?full with each worker. Only for this machine: 403 to others.",
    ),
];
